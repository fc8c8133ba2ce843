/* Rest: a call that transformed code leaves to whoever entered the function: the hook, which does such calls in a loop.

   Transformed code that called its continuation would stand between that and the function's caller, where the program
   sees it: sys._getframe(1), warnings with a stacklevel, tracebacks.  A continuation that called the next one would let
   the stack grow with every round of a loop.  And whoever calls a
   Python function through an evaluator keeps its arguments alive until it returns, although the program may have let
   them go long before: here they belong to the new frame alone as soon as there is one. */
#include "engine.h"

#include <stddef.h>

PyObject *
rest_new(PyObject *module, PyObject *const *items, Py_ssize_t count)
{
    if (count == 0) {
        PyErr_SetString(PyExc_TypeError, "rest() needs the function that is left to call");
        return NULL;
    }
    Rest *self = PyObject_GC_NewVar(Rest, engine.rest_type, count);
    if (self == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        self->items[i] = Py_NewRef(items[i]);
    }
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

static int
rest_traverse(PyObject *op, visitproc visit, void *arg)
{
    Rest *self = (Rest *)op;
    Py_VISIT(Py_TYPE(op));
    for (Py_ssize_t i = 0; i < Py_SIZE(self); i++) {
        Py_VISIT(self->items[i]);
    }
    return 0;
}

static int
rest_clear(PyObject *op)
{
    Rest *self = (Rest *)op;
    for (Py_ssize_t i = 0; i < Py_SIZE(self); i++) {
        Py_CLEAR(self->items[i]);
    }
    return 0;
}

static void
rest_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    PyObject_GC_UnTrack(op);
    rest_clear(op);
    PyObject_GC_Del(op);
    Py_DECREF(type);
}

static PyType_Slot rest_slots[] = {
    {Py_tp_dealloc, rest_dealloc},
    {Py_tp_traverse, rest_traverse},
    {Py_tp_clear, rest_clear},
    {Py_tp_doc, "A call that is left to do; see rest()."},
    {0, NULL},
};

PyType_Spec rest_spec = {
    .name = "capture._engine.Rest",
    .basicsize = offsetof(Rest, items),
    .itemsize = sizeof(PyObject *),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = rest_slots,
};
