/* Refilling: a container of the program's gets its contents, past the methods of its class, and no other thread sees it
   half done. */
#include "engine.h"

static int
empty(PyObject *base, PyObject *object)
{
    PyObject *done = PyObject_CallMethod(base, "clear", "O", object);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* 1 where the mapping has these keys in this order, 0 where it has not, -1 with an error. */
static int
has_the_keys(PyObject *base, PyObject *object, PyObject *contents)
{
    PyObject *list = PyList_New(0);
    PyObject *keys = list == NULL ? NULL : PyObject_CallMethod(base, "__iter__", "O", object);
    PyObject *done = keys == NULL ? NULL : PyObject_CallMethod(list, "extend", "O", keys);
    int same = done == NULL ? -1 : PyList_GET_SIZE(list) == PyDict_GET_SIZE(contents);
    PyObject *key, *value;
    for (Py_ssize_t position = 0, i = 0; same > 0 && PyDict_Next(contents, &position, &key, &value); i++) {
        same = PyList_GET_ITEM(list, i) == key;
    }
    Py_XDECREF(done);
    Py_XDECREF(keys);
    Py_XDECREF(list);
    return same;
}

static int
set_entries(PyObject *base, PyObject *object, PyObject *contents, int same)
{
    PyObject *key, *value;
    for (Py_ssize_t position = 0; PyDict_Next(contents, &position, &key, &value);) {
        if (same && PyDict_GetItemWithError(object, key) == value) {
            continue;
        }
        PyObject *done = PyObject_CallMethod(base, "__setitem__", "OOO", object, key, value);
        Py_XDECREF(done);
        if (done == NULL) {
            return -1;
        }
    }
    return 0;
}

/* Where the keys are what they were, whoever is iterating over them goes on. */
PyObject *
refill_mapping(PyObject *module, PyObject *args)
{
    PyObject *object, *base, *contents;
    if (!PyArg_ParseTuple(args, "O!OO!:refill_mapping", &PyDict_Type, &object, &base, &PyDict_Type, &contents)) {
        return NULL;
    }
    int same = has_the_keys(base, object, contents);
    if (same < 0 || (!same && empty(base, object) < 0) || set_entries(base, object, contents, same) < 0) {
        return NULL;
    }
    return Py_NewRef(object);
}

static int
length_of(PyObject *base, PyObject *object, Py_ssize_t *length)
{
    PyObject *answer = PyObject_CallMethod(base, "__len__", "O", object);
    *length = answer == NULL ? -1 : PyLong_AsSsize_t(answer);
    Py_XDECREF(answer);
    return *length < 0 ? -1 : 0;
}

static int
set_items(PyObject *base, PyObject *object, PyObject *contents)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(contents); i++) {
        PyObject *done = PyObject_CallMethod(base, "__setitem__", "OnO", object, i, PyList_GET_ITEM(contents, i));
        Py_XDECREF(done);
        if (done == NULL) {
            return -1;
        }
    }
    return 0;
}

static int
fill_again(PyObject *base, PyObject *object, const char *method, PyObject *contents)
{
    PyObject *done = empty(base, object) < 0 ? NULL : PyObject_CallMethod(base, method, "OO", object, contents);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Lists, deques and sets.  A deque whose items stay where they are is written item by item: whoever is iterating over it
   goes on, and would not if items had come or gone, which ``moved`` says. */
PyObject *
refill_sequence(PyObject *module, PyObject *args)
{
    PyObject *object, *base, *contents;
    int moved = 0;
    if (!PyArg_ParseTuple(
            args, "OO!O!|p:refill_sequence", &object, &PyType_Type, &base, &PyList_Type, &contents, &moved)) {
        return NULL;
    }
    bool is_set = PyType_IsSubtype((PyTypeObject *)base, &PySet_Type);
    bool is_list = PyType_IsSubtype((PyTypeObject *)base, &PyList_Type);
    Py_ssize_t length;
    if (length_of(base, object, &length) < 0) {
        return NULL;
    }
    int status = !moved && !is_set && !is_list && length == PyList_GET_SIZE(contents)
        ? set_items(base, object, contents)
        : fill_again(base, object, is_set ? "update" : "extend", contents);
    return status < 0 ? NULL : Py_NewRef(object);
}
