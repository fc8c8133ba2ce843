/* The single checks a guard tree is made of, as a table by kind. */
#include "guards.h"

static bool
passes_type(const Check *check, PyObject *value, const Call *call)
{
    return (PyObject *)Py_TYPE(value) == check->object;
}

static bool
passes_held_type(const Check *check, PyObject *value, const Call *call)
{
    return (PyObject *)Py_TYPE(value) == held(check->object);
}

static bool
passes_identity(const Check *check, PyObject *value, const Call *call)
{
    return value == check->object;
}

static bool
passes_held_identity(const Check *check, PyObject *value, const Call *call)
{
    /* A dead reference reads as None, which is never what was held: None allows no weak references. */
    return value == held(check->object) && value != Py_None;
}

static bool
passes_equality(const Check *check, PyObject *value, const Call *call)
{
    return interchangeable(value, check->object);
}

/* How many items a container holds, whatever a class of the program's says of itself. */
static Py_ssize_t
length_of(PyObject *value)
{
    if (PyList_Check(value) || PyTuple_Check(value)) {
        return Py_SIZE(value);
    }
    if (PyDict_Check(value)) {
        return PyDict_GET_SIZE(value);
    }
    return PyAnySet_Check(value) ? PySet_GET_SIZE(value) : PyObject_Size(value);
}

static bool
passes_length(const Check *check, PyObject *value, const Call *call)
{
    return length_of(value) == check->number;
}

static bool
passes_tensor(const Check *check, PyObject *value, const Call *call)
{
    return tensor_spec_matches(check->tensor, value);
}

/* Whether the keys are those of the check so far as both go. */
static bool
same_key(const Check *check, Py_ssize_t position, PyObject *key)
{
    return position < PyTuple_GET_SIZE(check->object)
        && interchangeable(key, PyTuple_GET_ITEM(check->object, position));
}

static bool
passes_keys_of_dict(const Check *check, PyObject *dict)
{
    if (PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(check->object)) {
        return false;
    }
    Py_ssize_t place = 0, position = 0;
    PyObject *key;
    while (PyDict_Next(dict, &place, &key, NULL)) {
        Py_INCREF(key); /* comparing keys can run code that changes the dict */
        bool same = same_key(check, position++, key);
        Py_DECREF(key);
        if (!same) {
            return false;
        }
    }
    return position == PyTuple_GET_SIZE(check->object);
}

static bool
passes_keys(const Check *check, PyObject *value, const Call *call)
{
    if (!PyDict_Check(value)) {
        return false;
    }
    if (!PyODict_Check(value)) {
        return passes_keys_of_dict(check, value);
    }
    PyObject *keys = PyODict_Type.tp_iter(value); /* it has an order of its own */
    if (keys == NULL) {
        return false;
    }
    bool same = true;
    Py_ssize_t position = 0;
    PyObject *key;
    while (same && (key = PyIter_Next(keys)) != NULL) {
        same = same_key(check, position++, key);
        Py_DECREF(key);
    }
    Py_DECREF(keys);
    return same && !PyErr_Occurred() && position == PyTuple_GET_SIZE(check->object);
}

/* A module without hooks: several dicts of one instance, asked in one go. */
static bool
passes_empty(const Check *check, PyObject *value, const Call *call)
{
    if (!PyDict_Check(value)) {
        return false;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(check->object); i++) {
        PyObject *held = PyDict_GetItemWithError(value, PyTuple_GET_ITEM(check->object, i));
        if (held == NULL || !PyDict_Check(held) || PyDict_GET_SIZE(held) != 0) {
            return false;
        }
    }
    return true;
}

static bool
passes_true(const Check *check, PyObject *value, const Call *call)
{
    return PyObject_IsTrue(value) == 1;
}

static bool
passes_false(const Check *check, PyObject *value, const Call *call)
{
    return PyObject_IsTrue(value) == 0;
}

static bool
passes_absent(const Check *check, PyObject *value, const Call *call)
{
    return false; /* there is a value; the tree answers for the missing one */
}

static bool
passes_python(const Check *check, PyObject *value, const Call *call)
{
    PyObject *verdict = PyObject_CallOneArg(check->object, value);
    bool yes = verdict != NULL && PyObject_IsTrue(verdict) == 1;
    Py_XDECREF(verdict);
    return yes;
}

/* A set of exactly these items, which are strings and numbers. */
static bool
passes_items(const Check *check, PyObject *value, const Call *call)
{
    return PySet_CheckExact(value) && same_members(value, check->object);
}

/* The object at an address: one that lives as long as what asks for it, and must not be held by it. */
static bool
passes_address(const Check *check, PyObject *value, const Call *call)
{
    return (Py_ssize_t)(uintptr_t)value == check->number;
}

/* A plain weak reference to what another one refers to. */
static bool
passes_reference(const Check *check, PyObject *value, const Call *call)
{
    PyObject *target = PyWeakref_CheckRefExact(value) ? held(value) : Py_None;
    return target != Py_None && target == held(check->object);
}

void
keep(const Check *check, PyObject *value, const Call *call)
{
    if (call->slots != NULL && call->slots[check->number] == NULL) {
        call->slots[check->number] = Py_NewRef(value);
    }
}

static bool
passes_keep(const Check *check, PyObject *value, const Call *call)
{
    keep(check, value, call);
    return true;
}

static int
parse_nothing(PyObject *payload, Check *check)
{
    check->wants_absence = check->passes == passes_absent;
    return 0;
}

static int
parse_type(PyObject *payload, Check *check)
{
    if (!PyType_Check(payload)) {
        PyErr_Format(PyExc_TypeError, "a type check needs a type, not %R", payload);
        return -1;
    }
    bool is_static = !(((PyTypeObject *)payload)->tp_flags & Py_TPFLAGS_HEAPTYPE);
    check->object = is_static ? Py_NewRef(payload) : hold_weakly(payload);
    check->passes = is_static ? passes_type : passes_held_type;
    return check->object == NULL ? -1 : 0;
}

static int
parse_identity(PyObject *payload, Check *check)
{
    check->object = hold_weakly(payload);
    if (check->object != payload) {
        check->passes = passes_held_identity;
    }
    return check->object == NULL ? -1 : 0;
}

static int
parse_constant(PyObject *payload, Check *check)
{
    check->object = Py_NewRef(payload);
    return 0;
}

static int
parse_target(PyObject *payload, Check *check)
{
    if (!PyWeakref_CheckRefExact(payload)) {
        PyErr_Format(PyExc_TypeError, "the target of a reference is told by a weak reference, not %R", payload);
        return -1;
    }
    return parse_constant(payload, check);
}

static int
parse_address(PyObject *payload, Check *check)
{
    check->number = (Py_ssize_t)(uintptr_t)PyLong_AsVoidPtr(payload);
    return PyErr_Occurred() ? -1 : 0;
}

static int
parse_items(PyObject *payload, Check *check)
{
    check->object = PyFrozenSet_New(payload);
    return check->object == NULL ? -1 : 0;
}

static int
parse_keys(PyObject *payload, Check *check)
{
    check->object = PySequence_Tuple(payload);
    return check->object == NULL ? -1 : 0;
}

static int
parse_number(PyObject *payload, Check *check)
{
    check->number = PyNumber_AsSsize_t(payload, PyExc_OverflowError);
    if (check->number < 0 && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "a length or a slot is not negative");
    }
    return check->number < 0 ? -1 : 0;
}

static int
parse_tensor(PyObject *payload, Check *check)
{
    check->tensor = tensor_spec_parse(payload);
    return check->tensor == NULL ? -1 : 0;
}

static int
parse_callable(PyObject *payload, Check *check)
{
    if (!PyCallable_Check(payload)) {
        PyErr_Format(PyExc_TypeError, "this check needs a callable, not %R", payload);
        return -1;
    }
    return parse_constant(payload, check);
}

static const struct {
    const char *kind;
    bool (*passes)(const Check *, PyObject *, const Call *);
    int (*parse)(PyObject *, Check *);
    Lasts lasts;
} kinds[] = {
    {"type", passes_type, parse_type, WHILE_SAME_OBJECT}, /* a chain looks at its class */
    {"is", passes_identity, parse_identity, WHILE_SAME_OBJECT},
    {"equals", passes_equality, parse_constant, WHILE_SAME_CONSTANT},
    {"length", passes_length, parse_number, WHILE_SAME_DICT},
    {"tensor", passes_tensor, parse_tensor},
    {"keys", passes_keys, parse_keys, WHILE_SAME_DICT},
    {"empty", passes_empty, parse_keys, WHILE_SAME_HELD_DICTS},
    {"true", passes_true, parse_nothing},
    {"false", passes_false, parse_nothing},
    {"absent", passes_absent, parse_nothing, WHILE_SAME_OBJECT},
    {"python", passes_python, parse_callable},
    {"items", passes_items, parse_items},
    {"at", passes_address, parse_address, WHILE_SAME_OBJECT},
    {"refers", passes_reference, parse_target},
    {"keep", passes_keep, parse_number, KEEPS},
};

static int
parse_kind(PyObject *spec, size_t kind, Check *check)
{
    Py_ssize_t wanted = kinds[kind].parse == parse_nothing ? 2 : 3;
    if (PyTuple_GET_SIZE(spec) != wanted) {
        PyErr_Format(PyExc_ValueError, "check %R has the wrong number of items", spec);
        return -1;
    }
    check->passes = kinds[kind].passes;
    check->lasts = kinds[kind].lasts;
    return kinds[kind].parse(wanted == 3 ? PyTuple_GET_ITEM(spec, 2) : NULL, check);
}

int
check_parse(PyObject *spec, Check *check)
{
    if (!PyTuple_Check(spec) || PyTuple_GET_SIZE(spec) < 2 || !PyUnicode_Check(PyTuple_GET_ITEM(spec, 0))) {
        PyErr_Format(PyExc_TypeError, "a check is a tuple (kind, index, payload), not %R", spec);
        return -1;
    }
    check->index = PyNumber_AsSsize_t(PyTuple_GET_ITEM(spec, 1), PyExc_OverflowError);
    if (check->index == -1 && PyErr_Occurred()) {
        return -1;
    }
    for (size_t kind = 0; kind < Py_ARRAY_LENGTH(kinds); kind++) {
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(spec, 0), kinds[kind].kind) == 0) {
            return parse_kind(spec, kind, check);
        }
    }
    PyErr_Format(PyExc_ValueError, "unknown check %R", spec);
    return -1;
}

int
check_traverse(Check *check, visitproc visit, void *arg)
{
    Py_VISIT(check->object);
    return check->tensor == NULL ? 0 : tensor_spec_traverse(check->tensor, visit, arg);
}

void
check_clear(Check *check)
{
    Py_CLEAR(check->object);
    tensor_spec_free(check->tensor);
    check->tensor = NULL;
}
