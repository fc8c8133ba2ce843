/* Region and Outside: callables that run a function with capture switched on, under one configuration, and off.

   Both are one C type layout with one difference in what they make active; they pass arguments through untouched,
   bind as methods do, and carry a __dict__ so that they can wear the name and docs of what they call.  Any other
   attribute is that of what they call. */
#include "engine.h"

#include <structmember.h>

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function;
    PyObject *config; /* NULL for Outside */
    PyObject *dict;
    PyObject *weakrefs;
} Wrapper;

/* Where torch's own compiler evaluates frames too, it is to leave those of a region alone, as its own `disable` has it.
   What it was to do comes back; NULL where it was to do nothing, or with an error. */
static PyObject *
silence_peer(void)
{
    if (engine.peer_switch == NULL || !has_other_evaluator()) {
        return NULL;
    }
    PyObject *before = PyObject_CallOneArg(engine.peer_switch, Py_None);
    if (before == Py_None) {
        Py_CLEAR(before);
    }
    return before;
}

/* Also where an error is under way, which stays. */
static void
restore_peer(PyObject *before)
{
    if (before == NULL) {
        return;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *none = PyObject_CallOneArg(engine.peer_switch, before);
    if (none == NULL) {
        PyErr_WriteUnraisable(engine.peer_switch);
    }
    Py_XDECREF(none);
    Py_DECREF(before);
    PyErr_Restore(type, value, traceback);
}

static PyObject *
wrapper_call(PyObject *op, PyObject *const *args, size_t count, PyObject *names)
{
    Wrapper *self = (Wrapper *)op;
    bool captures = self->config != NULL && !engine.regions_off;
    PyObject *peer = captures ? silence_peer() : NULL;
    if (captures && PyErr_Occurred()) {
        return NULL;
    }
    PyObject *previous = switch_config(captures ? self->config : NULL);
    Observers known = switch_observers(observers_now());
    Py_INCREF(self); /* keeps function and config, whatever the call does to its callable */
    PyObject *result = PyObject_Vectorcall(self->function, args, count, names);
    switch_observers(known);
    switch_config(previous);
    restore_peer(peer);
    Py_DECREF(self);
    return result;
}

static PyObject *
wrapper_alloc(PyTypeObject *type, PyObject *function, PyObject *config)
{
    if (!PyCallable_Check(function)) {
        PyErr_Format(PyExc_TypeError, "%R is not callable", function);
        return NULL;
    }
    Wrapper *self = (Wrapper *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->vectorcall = wrapper_call;
        self->function = Py_NewRef(function);
        self->config = Py_XNewRef(config);
    }
    return (PyObject *)self;
}

static PyObject *
region_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function", "config", NULL};
    PyObject *function, *config;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:Region", names, &function, &config)) {
        return NULL;
    }
    if (config == Py_None) {
        PyErr_SetString(PyExc_TypeError, "a Region needs a configuration, which cannot be None");
        return NULL;
    }
    return wrapper_alloc(type, function, config);
}

static PyObject *
outside_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"callable", NULL};
    PyObject *function;
    return PyArg_ParseTupleAndKeywords(args, kwargs, "O:Outside", names, &function)
        ? wrapper_alloc(type, function, NULL)
        : NULL;
}

static PyObject *
wrapper_bind(PyObject *self, PyObject *instance, PyObject *owner)
{
    return instance == NULL || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

static int
wrapper_traverse(PyObject *op, visitproc visit, void *arg)
{
    Wrapper *self = (Wrapper *)op;
    Py_VISIT(Py_TYPE(op));
    Py_VISIT(self->function);
    Py_VISIT(self->config);
    Py_VISIT(self->dict);
    return 0;
}

static int
wrapper_clear(PyObject *op)
{
    Wrapper *self = (Wrapper *)op;
    Py_CLEAR(self->dict); /* function and config stay: a call may be under way, and a dict closes any cycle */
    return 0;
}

static void
wrapper_dealloc(PyObject *op)
{
    Wrapper *self = (Wrapper *)op;
    PyTypeObject *type = Py_TYPE(op);
    PyObject_GC_UnTrack(op);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs(op);
    }
    Py_XDECREF(self->function);
    Py_XDECREF(self->config);
    Py_XDECREF(self->dict);
    type->tp_free(op);
    Py_DECREF(type);
}

static PyObject *
wrapper_repr(PyObject *op)
{
    Wrapper *self = (Wrapper *)op;
    return PyUnicode_FromFormat("<%s of %R>", self->config == NULL ? "Outside" : "Region", self->function);
}

/* What the program wrote, as far as an attribute goes: a function with a frame may stand in for it.  A new reference. */
static PyObject *
written(Wrapper *self)
{
    PyObject *found = self->dict == NULL ? NULL : PyDict_GetItemString(self->dict, "__wrapped__");
    return Py_NewRef(found == NULL ? self->function : found);
}

/* Protocols are asked of a type: what is compiled is copied, pickled and compared as what it is itself.  Which object a
 * method belongs to is none. */
static bool
is_of_a_protocol(PyObject *name)
{
    if (PyUnicode_Check(name)
        && (PyUnicode_CompareWithASCIIString(name, "__self__") == 0
            || PyUnicode_CompareWithASCIIString(name, "__func__") == 0)) {
        return false;
    }
    Py_ssize_t size = PyUnicode_Check(name) ? PyUnicode_GET_LENGTH(name) : 0;
    return size > 4 && PyUnicode_READ_CHAR(name, 0) == '_' && PyUnicode_READ_CHAR(name, 1) == '_'
        && PyUnicode_READ_CHAR(name, size - 1) == '_' && PyUnicode_READ_CHAR(name, size - 2) == '_';
}

/* Attributes are those of what was written, as they are now: counters of decorators, `cache_clear`, methods. */
static PyObject *
wrapper_getattro(PyObject *op, PyObject *name)
{
    PyObject *found = PyObject_GenericGetAttr(op, name);
    if (found != NULL || !PyErr_ExceptionMatches(PyExc_AttributeError) || is_of_a_protocol(name)) {
        return found;
    }
    PyErr_Clear();
    PyObject *meant = written((Wrapper *)op);
    found = PyObject_GetAttr(meant, name);
    Py_DECREF(meant);
    return found;
}

/* And they are set there, where its own code finds them; what takes none keeps them here. */
static int
wrapper_setattro(PyObject *op, PyObject *name, PyObject *value)
{
    Wrapper *self = (Wrapper *)op;
    if (is_of_a_protocol(name) || (self->dict != NULL && PyDict_Contains(self->dict, name) == 1)) {
        return PyObject_GenericSetAttr(op, name, value);
    }
    PyObject *meant = written(self);
    int failed = PyObject_SetAttr(meant, name, value);
    Py_DECREF(meant);
    if (failed && value != NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        return PyObject_GenericSetAttr(op, name, value);
    }
    return failed;
}

#define WRAPPER_MEMBERS                                                                \
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Wrapper, vectorcall), READONLY},     \
    {"__dictoffset__", T_PYSSIZET, offsetof(Wrapper, dict), READONLY},                 \
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Wrapper, weakrefs), READONLY}

static PyMemberDef region_members[] = {
    WRAPPER_MEMBERS,
    {"function", T_OBJECT_EX, offsetof(Wrapper, function), READONLY, "What is called."},
    {"config", T_OBJECT_EX, offsetof(Wrapper, config), READONLY, "The configuration that is active meanwhile."},
    {NULL},
};

static PyMemberDef outside_members[] = {
    WRAPPER_MEMBERS,
    {"callable", T_OBJECT_EX, offsetof(Wrapper, function), READONLY, "What is called."},
    {NULL},
};

static PyGetSetDef wrapper_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict},
    {NULL},
};

#define WRAPPER_SLOTS                                                                                      \
    {Py_tp_call, PyVectorcall_Call}, {Py_tp_descr_get, wrapper_bind}, {Py_tp_traverse, wrapper_traverse}, \
        {Py_tp_clear, wrapper_clear}, {Py_tp_dealloc, wrapper_dealloc}, {Py_tp_repr, wrapper_repr},       \
        {Py_tp_getset, wrapper_getset}, {Py_tp_getattro, wrapper_getattro}, {Py_tp_setattro, wrapper_setattro}

static PyType_Slot region_slots[] = {
    WRAPPER_SLOTS,
    {Py_tp_new, region_new},
    {Py_tp_members, region_members},
    {Py_tp_doc, "Region(function, config)\n--\n\nCalls a function with capture on, under a configuration."},
    {0, NULL},
};

static PyType_Slot outside_slots[] = {
    WRAPPER_SLOTS,
    {Py_tp_new, outside_new},
    {Py_tp_members, outside_members},
    {Py_tp_doc, "Outside(callable)\n--\n\nCalls something with capture off."},
    {0, NULL},
};

#define WRAPPER_FLAGS                                                                     \
    (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL                 \
     | Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_IMMUTABLETYPE)

PyType_Spec region_spec = {
    .name = "capture._engine.Region",
    .basicsize = sizeof(Wrapper),
    .flags = WRAPPER_FLAGS,
    .slots = region_slots,
};

PyType_Spec outside_spec = {
    .name = "capture._engine.Outside",
    .basicsize = sizeof(Wrapper),
    .flags = WRAPPER_FLAGS,
    .slots = outside_slots,
};
