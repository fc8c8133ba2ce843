/* How one value is reached from another, as a table by name.

   NULL without an error, or with an AttributeError or LookupError, says that there is no such value.  A parent of
   another kind than the accessor is for says nothing about absence: that is a TypeError, and every check fails. */
#include "guards.h"
#include "object_compat.h"

static PyObject *
wrong_kind(void)
{
    PyErr_SetNone(PyExc_TypeError);
    return NULL;
}

static PyObject *
fetch_root(const Node *node, PyObject *parent, const Call *call)
{
    return Py_NewRef(call->function);
}

static PyObject *
fetch_argument(const Node *node, PyObject *parent, const Call *call)
{
    return node->number < call->count ? Py_XNewRef(call->args[node->number]) : NULL;
}

static PyObject *
fetch_closure(const Node *node, PyObject *parent, const Call *call)
{
    if (!PyFunction_Check(parent)) {
        return wrong_kind();
    }
    PyObject *cells = PyFunction_GET_CLOSURE(parent);
    if (cells == NULL || node->number >= PyTuple_GET_SIZE(cells)) {
        return NULL;
    }
    return Py_XNewRef(PyCell_GET(PyTuple_GET_ITEM(cells, node->number)));
}

static PyObject *
fetch_cell(const Node *node, PyObject *parent, const Call *call)
{
    PyObject *cells = PyFunction_Check(parent) ? PyFunction_GET_CLOSURE(parent) : NULL;
    return cells == NULL || node->number >= PyTuple_GET_SIZE(cells) ? wrong_kind()
                                                                    : Py_NewRef(PyTuple_GET_ITEM(cells, node->number));
}

static PyObject *
fetch_global(const Node *node, PyObject *parent, const Call *call)
{
    if (!PyFunction_Check(parent)) {
        return wrong_kind();
    }
    PyFunctionObject *function = (PyFunctionObject *)parent;
    PyObject *value = PyDict_GetItemWithError(function->func_globals, node->object);
    if (value == NULL && !PyErr_Occurred()) {
        value = PyDict_GetItemWithError(function->func_builtins, node->object);
    }
    return Py_XNewRef(value);
}

static PyObject *
fetch_attribute(const Node *node, PyObject *parent, const Call *call)
{
    PyObject *value = optional_attribute(parent, node->object);
    if (value == NULL && PyCell_Check(parent) && PyErr_ExceptionMatches(PyExc_ValueError)) {
        PyErr_Clear(); /* an empty cell has no contents */
    }
    return value;
}

static PyObject *
fetch_instance_dict(const Node *node, PyObject *parent, const Call *call)
{
    if (PyType_Check(parent)) {
        return class_dict((PyTypeObject *)parent);
    }
    return PyObject_GenericGetDict(parent, NULL);
}

static PyObject *
fetch_key(const Node *node, PyObject *parent, const Call *call)
{
    return PyDict_Check(parent) ? Py_XNewRef(PyDict_GetItemWithError(parent, node->object)) : wrong_kind();
}

static PyObject *
fetch_item(const Node *node, PyObject *parent, const Call *call)
{
    if (!PyList_Check(parent) && !PyTuple_Check(parent)) {
        return wrong_kind();
    }
    PyObject **items = PySequence_Fast_ITEMS(parent);
    return node->number < PySequence_Fast_GET_SIZE(parent) ? Py_NewRef(items[node->number]) : NULL;
}

static PyObject *
fetch_getitem(const Node *node, PyObject *parent, const Call *call)
{
    return PyObject_GetItem(parent, node->object);
}

static PyObject *
fetch_type(const Node *node, PyObject *parent, const Call *call)
{
    return Py_NewRef(Py_TYPE(parent));
}

static PyObject *
fetch_constant(const Node *node, PyObject *parent, const Call *call)
{
    return Py_NewRef(node->object);
}

static PyObject *
fetch_call(const Node *node, PyObject *parent, const Call *call)
{
    return PyObject_CallNoArgs(node->object);
}

static PyObject *
fetch_made(const Node *node, PyObject *parent, const Call *call)
{
    return PyObject_CallOneArg(node->object, parent);
}

/* All that a proxy refers to is the mapping that it shows. */
static int
take_first(PyObject *found, void *place)
{
    *(PyObject **)place = found;
    return 1;
}

static PyObject *
fetch_shown(const Node *node, PyObject *parent, const Call *call)
{
    PyObject *mapping = NULL;
    if (Py_IS_TYPE(parent, &PyDictProxy_Type)) {
        PyDictProxy_Type.tp_traverse(parent, take_first, &mapping);
    }
    return mapping == NULL ? wrong_kind() : Py_NewRef(mapping);
}

static PyObject *
fetch_method(const Node *node, PyObject *parent, const Call *call)
{
    return PyObject_CallMethodNoArgs(parent, node->object);
}

typedef enum { NOTHING, NUMBER, NAME, OBJECT } Operand;

static const struct {
    const char *name;
    Operand operand;
    PyObject *(*fetch)(const Node *, PyObject *, const Call *);
    Reach reach;
    bool runs_code;
} accessors[] = {
    {"root", NOTHING, fetch_root},
    {"arg", NUMBER, fetch_argument},
    {"closure", NUMBER, fetch_closure},
    {"cell", NUMBER, fetch_cell},
    {"global", NAME, fetch_global},
    {"attr", NAME, fetch_attribute, BY_ANYTHING, true},
    {"dict", NOTHING, fetch_instance_dict, BY_INSTANCE_DICT},
    {"key", OBJECT, fetch_key, BY_KEY},
    {"item", NUMBER, fetch_item},
    {"getitem", OBJECT, fetch_getitem, BY_ANYTHING, true},
    {"type", NOTHING, fetch_type},
    {"const", OBJECT, fetch_constant},
    {"call", OBJECT, fetch_call, BY_ANYTHING, true},
    {"method", NAME, fetch_method, BY_ANYTHING, true},
    {"made", OBJECT, fetch_made, BY_ANYTHING, true},
    {"shown", NOTHING, fetch_shown},
};

/* Reads the operand, the tuple's second item, into the node. */
static int
parse_operand(PyObject *spec, Operand operand, Node *node)
{
    if (PyTuple_GET_SIZE(spec) != (operand == NOTHING ? 1 : 2)) {
        PyErr_Format(PyExc_ValueError, "accessor %R has the wrong number of items", spec);
        return -1;
    }
    if (operand == NOTHING) {
        return 0;
    }
    PyObject *object = PyTuple_GET_ITEM(spec, 1);
    if (operand == NUMBER) {
        node->number = PyNumber_AsSsize_t(object, PyExc_OverflowError);
        if (node->number < 0) {
            if (!PyErr_Occurred()) {
                PyErr_Format(PyExc_ValueError, "accessor %R: the index is negative", spec);
            }
            return -1;
        }
        return 0;
    }
    if (operand == NAME && !PyUnicode_CheckExact(object)) {
        PyErr_Format(PyExc_TypeError, "accessor %R: the name must be a str", spec);
        return -1;
    }
    node->object = Py_NewRef(object);
    if (operand == NAME || PyUnicode_CheckExact(object)) {
        PyUnicode_InternInPlace(&node->object); /* dict lookups then compare by identity */
    }
    return 0;
}

int
accessor_parse(PyObject *spec, Node *node)
{
    if (!PyTuple_Check(spec) || PyTuple_GET_SIZE(spec) == 0 || !PyUnicode_Check(PyTuple_GET_ITEM(spec, 0))) {
        PyErr_Format(PyExc_TypeError, "an accessor is a tuple that starts with its name, not %R", spec);
        return -1;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(accessors); i++) {
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(spec, 0), accessors[i].name) == 0) {
            node->fetch = accessors[i].fetch;
            node->reach = accessors[i].reach;
            node->runs_code = accessors[i].runs_code;
            return parse_operand(spec, accessors[i].operand, node);
        }
    }
    PyErr_Format(PyExc_ValueError, "unknown accessor %R", spec);
    return -1;
}
