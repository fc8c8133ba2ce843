/* GuardedCode: transformed code, the guards under which it may stand for the original, and who had it made.

   Without code it says that under these guards there is nothing to gain: the original runs, with capture off. */
#include "engine.h"

bool
guarded_code_is_owned_by(const GuardedCode *entry, PyObject *owner)
{
    return held(entry->owner) == owner;
}

/* Transformed code runs in the frame of a call: it is a plain function of plain positional parameters. */
static int
require_plain_function(PyCodeObject *code)
{
    int wanted = CO_OPTIMIZED | CO_NEWLOCALS;
    int unwanted = CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
    if ((code->co_flags & (wanted | unwanted)) == wanted && code->co_kwonlyargcount == 0) {
        return 0;
    }
    PyErr_Format(PyExc_ValueError,
                 "%R cannot run in the place of a call: it must be a function whose parameters are all positional "
                 "(no *args, **kwargs or keyword-only ones) and must not be a generator or coroutine",
                 code);
    return -1;
}

/* Code that may stand for another's, and is never looked at itself from now on. */
static int
require_code(PyObject *code)
{
    if (!PyCode_Check(code)) {
        PyErr_Format(PyExc_TypeError, "GuardedCode() takes a code object or None, not %R", code);
        return -1;
    }
    return require_plain_function((PyCodeObject *)code) < 0 ? -1 : cache_run_as_is((PyCodeObject *)code);
}

static PyObject *
guarded_code_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"code", "guards", "owner", NULL};
    PyObject *code, *guards, *owner;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!O:GuardedCode", names, &code, engine.guards_type, &guards,
                                     &owner)
        || (code != Py_None && require_code(code) < 0)) {
        return NULL;
    }
    GuardedCode *self = (GuardedCode *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->code = code == Py_None ? NULL : (PyCodeObject *)Py_NewRef(code);
    self->guards = (Guards *)Py_NewRef(guards);
    self->owner = hold_weakly(owner);
    if (self->owner == NULL) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int
guarded_code_traverse(PyObject *op, visitproc visit, void *arg)
{
    GuardedCode *self = (GuardedCode *)op;
    Py_VISIT(Py_TYPE(op));
    Py_VISIT(self->code);
    Py_VISIT(self->guards);
    Py_VISIT(self->owner);
    return 0;
}

/* No tp_clear: like a tuple it never changes, and whatever closes a cycle through it can be cleared. */
static void
guarded_code_dealloc(PyObject *op)
{
    GuardedCode *self = (GuardedCode *)op;
    PyTypeObject *type = Py_TYPE(op);
    PyObject_GC_UnTrack(op);
    Py_XDECREF(self->code);
    Py_XDECREF(self->guards);
    Py_XDECREF(self->owner);
    type->tp_free(op);
    Py_DECREF(type);
}

static PyObject *
guarded_code_repr(PyObject *op)
{
    GuardedCode *self = (GuardedCode *)op;
    if (self->code == NULL) {
        return PyUnicode_FromFormat("<GuardedCode without code, hit %llu times>", self->hits);
    }
    return PyUnicode_FromFormat("<GuardedCode of %U, hit %llu times>", self->code->co_qualname, self->hits);
}

static PyObject *
get_code(PyObject *op, void *closure)
{
    PyCodeObject *code = ((GuardedCode *)op)->code;
    return Py_NewRef(code == NULL ? Py_None : (PyObject *)code);
}

static PyObject *
get_guards(PyObject *op, void *closure)
{
    return Py_NewRef(((GuardedCode *)op)->guards);
}

static PyObject *
get_owner(PyObject *op, void *closure)
{
    return Py_NewRef(held(((GuardedCode *)op)->owner));
}

static PyObject *
get_hits(PyObject *op, void *closure)
{
    return PyLong_FromUnsignedLongLong(((GuardedCode *)op)->hits);
}

static PyObject *
get_review(PyObject *op, void *closure)
{
    return PyLong_FromUnsignedLongLong(((GuardedCode *)op)->review);
}

static int
set_review(PyObject *op, PyObject *value, void *closure)
{
    unsigned long long review = value == NULL ? 0 : PyLong_AsUnsignedLongLong(value);
    if (PyErr_Occurred()) {
        return -1;
    }
    ((GuardedCode *)op)->review = review;
    return 0;
}

static PyGetSetDef guarded_code_getset[] = {
    {"review", get_review, set_review, "At the hit of this number the translator is asked again; 0: never."},
    {"code", get_code, NULL, "The transformed code; None where the original runs."},
    {"guards", get_guards, NULL, "What it relies on."},
    {"owner", get_owner, NULL, "The configuration it was made under; None once that is gone."},
    {"hits", get_hits, NULL, "How often it ran because its guards passed."},
    {NULL},
};

static PyType_Slot guarded_code_slots[] = {
    {Py_tp_new, guarded_code_new},
    {Py_tp_dealloc, guarded_code_dealloc},
    {Py_tp_traverse, guarded_code_traverse},
    {Py_tp_repr, guarded_code_repr},
    {Py_tp_getset, guarded_code_getset},
    {Py_tp_doc, "GuardedCode(code, guards, owner)\n--\n\nTransformed code and the guards under which it may run."},
    {0, NULL},
};

PyType_Spec guarded_code_spec = {
    .name = "capture._engine.GuardedCode",
    .basicsize = sizeof(GuardedCode),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = guarded_code_slots,
};
