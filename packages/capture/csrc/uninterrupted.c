/* Uninterrupted: a function of C that is called by a subscript, after which CPython lets no other thread run.

   Behind a call CPython looks whether another thread waits for the interpreter; behind a subscript, and behind what
   stores into attributes and items, it does not.  So transformed code that has asked whether what it read is still
   there can write what it computed from it, and nobody comes in between. */
#include "engine.h"

#include <structmember.h>

typedef struct {
    PyObject_HEAD
    PyObject *function;
} Uninterrupted;

static PyObject *
uninterrupted_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function", NULL};
    PyObject *function;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Uninterrupted", names, &function)) {
        return NULL;
    }
    Uninterrupted *self = (Uninterrupted *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->function = Py_NewRef(function);
    }
    return (PyObject *)self;
}

static PyObject *
uninterrupted_call(PyObject *op, PyObject *args)
{
    if (!PyTuple_CheckExact(args)) {
        PyErr_Format(PyExc_TypeError, "Uninterrupted is called with a tuple of arguments, not %R", args);
        return NULL;
    }
    PyObject *function = Py_NewRef(((Uninterrupted *)op)->function);
    PyObject *result = PyObject_Vectorcall(function, PySequence_Fast_ITEMS(args), PyTuple_GET_SIZE(args), NULL);
    Py_DECREF(function);
    return result;
}

static int
uninterrupted_traverse(PyObject *op, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(op));
    Py_VISIT(((Uninterrupted *)op)->function);
    return 0;
}

static void
uninterrupted_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    PyObject_GC_UnTrack(op);
    Py_XDECREF(((Uninterrupted *)op)->function);
    type->tp_free(op);
    Py_DECREF(type);
}

static PyMemberDef uninterrupted_members[] = {
    {"function", T_OBJECT_EX, offsetof(Uninterrupted, function), 0, "What is called; it may be given later."},
    {NULL},
};

static PyType_Slot uninterrupted_slots[] = {
    {Py_tp_new, uninterrupted_new},
    {Py_mp_subscript, uninterrupted_call},
    {Py_tp_traverse, uninterrupted_traverse},
    {Py_tp_dealloc, uninterrupted_dealloc},
    {Py_tp_members, uninterrupted_members},
    {Py_tp_doc, "Uninterrupted(function)\n--\n\nCalls it by a subscript, after which no other thread runs."},
    {0, NULL},
};

PyType_Spec uninterrupted_spec = {
    .name = "capture._engine.Uninterrupted",
    .basicsize = sizeof(Uninterrupted),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = uninterrupted_slots,
};

bool
has_other_threads(void)
{
    PyThreadState *self = PyThreadState_Get();
    return PyInterpreterState_ThreadHead(engine.interp) != self || PyThreadState_Next(self) != NULL;
}
