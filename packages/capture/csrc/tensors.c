/* The check of one tensor: type, dtype, device, whether it requires grad, sizes and strides, and what its memory does
   not show.

   The engine knows no torch header.  Two ways lead to the same verdict:

   * Through attributes (t.dtype, t.device, t.shape, t.stride()), which works for every tensor and every subclass.
   * Through the C functions that torch exports under stable names (binding.c).  They speak of dtypes and devices in
     numbers of their own, so a check learns its numbers: from the first tensor that passes by attributes. */
#include "binding.h"
#include "guards.h"

#include <string.h>

#define ANY INT64_MIN /* a size or stride that may be anything */
#define PAST_FIRST (INT64_MIN + 1) /* plus a dimension: the stride that steps past all of that dimension */

static bool
is_step_past(int64_t stride)
{
    return stride != ANY && stride < PAST_FIRST + INT32_MAX;
}

struct TensorSpec {
    PyObject *type; /* held weakly; None: any */
    PyObject *dtype, *device, *layout, *requires_grad; /* None: any */
    PyObject *extras; /* tuple of (attribute, value) */
    signed char bits[BITS]; /* 0, 1, or -1: any */
    int64_t rank;     /* -1: any */
    int64_t *sizes, *strides; /* NULL: any */
    struct {
        Word generation; /* of the binding these were read under; 0: not learned yet */
        int32_t dtype, device_type, device_index, layout;
    } learned;
};

/* Attribute and method names, interned once. */
static struct {
    PyObject *dtype, *device, *layout, *requires_grad, *shape, *stride;
} names;

static int
intern_names(void)
{
    if (names.stride != NULL) {
        return 0;
    }
    names.dtype = PyUnicode_InternFromString("dtype");
    names.device = PyUnicode_InternFromString("device");
    names.layout = PyUnicode_InternFromString("layout");
    names.requires_grad = PyUnicode_InternFromString("requires_grad");
    names.shape = PyUnicode_InternFromString("shape");
    names.stride = PyUnicode_InternFromString("stride");
    bool complete = names.dtype && names.device && names.layout && names.requires_grad && names.shape && names.stride;
    return complete ? 0 : -1;
}

/* A number, None for any, or (k,) for a stride that is size[k] * stride[k]. */
static int64_t
parse_number(PyObject *item, int64_t rank)
{
    if (item == Py_None) {
        return ANY;
    }
    if (!PyTuple_Check(item)) {
        return PyLong_AsLongLong(item);
    }
    int dim;
    if (!PyArg_ParseTuple(item, "i;a stride that follows from a dimension is (dimension,)", &dim)) {
        return -1;
    }
    if (dim < 0 || dim >= rank) {
        PyErr_Format(PyExc_TypeError, "a stride follows from dimension %d of %lld", dim, (long long)rank);
        return -1;
    }
    return PAST_FIRST + dim;
}

/* Reads a tuple of such numbers; *numbers stays NULL for None. */
static int
parse_numbers(PyObject *tuple, int64_t *rank, int64_t **numbers)
{
    if (tuple == Py_None) {
        return 0;
    }
    if (!PyTuple_Check(tuple) || (*rank >= 0 && PyTuple_GET_SIZE(tuple) != *rank)) {
        PyErr_Format(PyExc_TypeError, "tensor sizes and strides are tuples of one length, or None, not %R", tuple);
        return -1;
    }
    *rank = PyTuple_GET_SIZE(tuple);
    *numbers = PyMem_Calloc((size_t)*rank, sizeof(int64_t));
    if (*numbers == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < *rank; i++) {
        (*numbers)[i] = parse_number(PyTuple_GET_ITEM(tuple, i), *rank);
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* Whether an extra is the layout or one of the bits, which are read in C like the rest, and is kept with those. */
static bool
take_extra(PyObject *name, PyObject *value, TensorSpec *spec)
{
    if (PyUnicode_Compare(name, names.layout) == 0) {
        Py_SETREF(spec->layout, Py_NewRef(value));
        return true;
    }
    for (int bit = 0; bit < BITS; bit++) {
        if (PyUnicode_CompareWithASCIIString(name, bit_names[bit]) == 0 && PyBool_Check(value)) {
            spec->bits[bit] = value == Py_True;
            return true;
        }
    }
    return false;
}

/* Extras are pairs of an attribute, or a method among the bits, and its value. */
static int
parse_extras(PyObject *extras, TensorSpec *spec)
{
    PyObject *pairs = extras == Py_None ? PyTuple_New(0) : PySequence_List(extras);
    spec->layout = Py_NewRef(Py_None);
    memset(spec->bits, -1, sizeof spec->bits);
    for (Py_ssize_t i = pairs == NULL || extras == Py_None ? 0 : PyList_GET_SIZE(pairs); i-- > 0;) {
        PyObject *pair = PyList_GET_ITEM(pairs, i);
        if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2 || !PyUnicode_CheckExact(PyTuple_GET_ITEM(pair, 0))) {
            PyErr_Format(PyExc_TypeError, "the extras of a tensor are (attribute, value) pairs, not %R", pair);
            Py_DECREF(pairs);
            return -1;
        }
        if (take_extra(PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1), spec)
            && PyList_SetSlice(pairs, i, i + 1, NULL) < 0) {
            Py_DECREF(pairs);
            return -1;
        }
    }
    spec->extras = pairs == NULL ? NULL : PySequence_Tuple(pairs);
    Py_XDECREF(pairs);
    return spec->extras == NULL ? -1 : 0;
}

static int
parse_parts(PyObject *payload, TensorSpec *spec)
{
    PyObject *type, *dtype, *device, *requires_grad, *sizes, *strides, *extras;
    if (!PyArg_ParseTuple(payload,
                          "OOOOOOO;a tensor check has (type, dtype, device, requires_grad, sizes, strides, extras)",
                          &type, &dtype, &device, &requires_grad, &sizes, &strides, &extras)) {
        return -1;
    }
    if (requires_grad != Py_None && !PyBool_Check(requires_grad)) {
        PyErr_Format(PyExc_TypeError, "requires_grad is a bool or None, not %R", requires_grad);
        return -1;
    }
    spec->type = hold_weakly(type);
    spec->dtype = Py_NewRef(dtype);
    spec->device = Py_NewRef(device);
    spec->requires_grad = Py_NewRef(requires_grad);
    spec->rank = -1;
    return spec->type == NULL || parse_numbers(sizes, &spec->rank, &spec->sizes) < 0
            || parse_numbers(strides, &spec->rank, &spec->strides) < 0 || parse_extras(extras, spec) < 0
        ? -1
        : 0;
}

TensorSpec *
tensor_spec_parse(PyObject *payload)
{
    if (!PyTuple_Check(payload)) {
        PyErr_Format(PyExc_TypeError, "the payload of a tensor check is a tuple, not %R", payload);
        return NULL;
    }
    TensorSpec *spec = intern_names() < 0 ? NULL : PyMem_Calloc(1, sizeof(TensorSpec));
    if (spec == NULL) {
        return (TensorSpec *)PyErr_NoMemory();
    }
    if (parse_parts(payload, spec) < 0) {
        tensor_spec_free(spec);
        return NULL;
    }
    return spec;
}

void
tensor_spec_free(TensorSpec *spec)
{
    if (spec == NULL) {
        return;
    }
    Py_XDECREF(spec->type);
    Py_XDECREF(spec->dtype);
    Py_XDECREF(spec->device);
    Py_XDECREF(spec->layout);
    Py_XDECREF(spec->requires_grad);
    Py_XDECREF(spec->extras);
    PyMem_Free(spec->sizes);
    PyMem_Free(spec->strides);
    PyMem_Free(spec);
}

int
tensor_spec_traverse(TensorSpec *spec, visitproc visit, void *arg)
{
    Py_VISIT(spec->type);
    Py_VISIT(spec->dtype);
    Py_VISIT(spec->device);
    Py_VISIT(spec->layout);
    Py_VISIT(spec->requires_grad);
    Py_VISIT(spec->extras);
    return 0;
}

/* Whether an attribute has the wanted value, where one is wanted. */
static bool
attribute_is(PyObject *value, PyObject *name, PyObject *wanted)
{
    if (wanted == Py_None) {
        return true;
    }
    PyObject *attribute = optional_attribute(value, name);
    bool same = attribute != NULL && interchangeable(attribute, wanted);
    Py_XDECREF(attribute);
    return same;
}

static bool
is_tuple_of(PyObject *tuple, int64_t rank)
{
    return tuple != NULL && PyTuple_Check(tuple) && PyTuple_GET_SIZE(tuple) == rank;
}

/* Only a plain int is a number that may be compared: a symbolic one would be decided, and recorded as such. */
static bool
is_number(PyObject *item, int64_t wanted)
{
    return PyLong_CheckExact(item) && PyLong_AsLongLong(item) == wanted;
}

static bool
is_product(PyObject *item, PyObject *size, PyObject *stride)
{
    return PyLong_CheckExact(size) && PyLong_CheckExact(stride)
        && is_number(item, PyLong_AsLongLong(size) * PyLong_AsLongLong(stride));
}

/* Consumes what an attribute returned: a tuple of ints. */
static bool
sizes_are(PyObject *tuple, int64_t rank, const int64_t *wanted)
{
    bool same = is_tuple_of(tuple, rank);
    for (int64_t i = 0; same && wanted != NULL && i < rank; i++) {
        same = wanted[i] == ANY || is_number(PyTuple_GET_ITEM(tuple, i), wanted[i]);
    }
    Py_XDECREF(tuple);
    return same && !PyErr_Occurred();
}

static bool
strides_are(PyObject *value, int64_t rank, const int64_t *wanted)
{
    PyObject *strides = PyObject_CallMethodNoArgs(value, names.stride), *sizes = optional_attribute(value, names.shape);
    bool same = is_tuple_of(strides, rank) && is_tuple_of(sizes, rank);
    for (int64_t i = 0; same && i < rank; i++) {
        PyObject *item = PyTuple_GET_ITEM(strides, i);
        if (is_step_past(wanted[i])) {
            Py_ssize_t dim = (Py_ssize_t)(wanted[i] - PAST_FIRST);
            same = is_product(item, PyTuple_GET_ITEM(sizes, dim), PyTuple_GET_ITEM(strides, dim));
        } else {
            same = wanted[i] == ANY || is_number(item, wanted[i]);
        }
    }
    Py_XDECREF(sizes);
    Py_XDECREF(strides);
    return same && !PyErr_Occurred();
}

static bool
extras_match(const TensorSpec *spec, PyObject *value)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(spec->extras); i++) {
        PyObject *pair = PyTuple_GET_ITEM(spec->extras, i);
        PyObject *attribute = optional_attribute(value, PyTuple_GET_ITEM(pair, 0));
        bool same = attribute != NULL && interchangeable(attribute, PyTuple_GET_ITEM(pair, 1));
        Py_XDECREF(attribute);
        if (!same) {
            return false;
        }
    }
    return true;
}

/* One bit, in C where that can be, and by its method otherwise. */
static bool
bit_is(PyObject *value, int bit, bool wanted, bool readable)
{
    if (readable && binding.bits[bit] != NULL) {
        return binding.bits[bit](handle_of(value)) == wanted;
    }
    PyObject *name = PyUnicode_FromString(bit_names[bit]);
    PyObject *found = name == NULL ? NULL : PyObject_CallMethodNoArgs(value, name);
    bool same = found == (wanted ? Py_True : Py_False);
    Py_XDECREF(found);
    Py_XDECREF(name);
    return same && !PyErr_Occurred();
}

static bool
bits_match(const TensorSpec *spec, PyObject *value, bool readable)
{
    for (int bit = 0; bit < BITS; bit++) {
        if (spec->bits[bit] >= 0 && !bit_is(value, bit, spec->bits[bit], readable)) {
            return false;
        }
    }
    return true;
}

static bool
bits_are_read_in_c(const TensorSpec *spec)
{
    for (int bit = 0; bit < BITS; bit++) {
        if (spec->bits[bit] >= 0 && binding.bits[bit] == NULL) {
            return false;
        }
    }
    return true;
}

static bool
matches_by_attributes(const TensorSpec *spec, PyObject *value)
{
    return attribute_is(value, names.dtype, spec->dtype) && attribute_is(value, names.device, spec->device)
        && attribute_is(value, names.layout, spec->layout)
        && (spec->rank < 0 || sizes_are(optional_attribute(value, names.shape), spec->rank, spec->sizes))
        && (spec->strides == NULL || strides_are(value, spec->rank, spec->strides));
}

/* Takes the numbers of a tensor that has passed by its attributes. */
static void
learn(TensorSpec *spec, PyObject *value)
{
    void *handle = handle_of(value);
    if (binding.dtype(handle, &spec->learned.dtype) == 0 && binding.layout(handle, &spec->learned.layout) == 0
        && binding.device_type(handle, &spec->learned.device_type) == 0
        && binding.device_index(handle, &spec->learned.device_index) == 0) {
        spec->learned.generation = binding.generation;
    }
}

static bool
same_int(ReadInt read, void *handle, int32_t wanted)
{
    int32_t found;
    return read(handle, &found) == 0 && found == wanted;
}

static bool
same_sizes(const TensorSpec *spec, void *handle)
{
    int64_t *found;
    if (binding.sizes(handle, &found) != 0) {
        return false;
    }
    for (int64_t i = 0; i < spec->rank; i++) {
        if (found[i] != spec->sizes[i] && spec->sizes[i] != ANY) {
            return false;
        }
    }
    return true;
}

static bool
same_strides(const TensorSpec *spec, void *handle)
{
    int64_t *found, *sizes = NULL;
    if (binding.strides(handle, &found) != 0) {
        return false;
    }
    for (int64_t i = 0; i < spec->rank; i++) {
        int64_t wanted = spec->strides[i];
        if (is_step_past(wanted)) {
            if (sizes == NULL && binding.sizes(handle, &sizes) != 0) {
                return false;
            }
            wanted = sizes[wanted - PAST_FIRST] * found[wanted - PAST_FIRST];
        }
        if (found[i] != wanted && wanted != ANY) {
            return false;
        }
    }
    return true;
}

static bool
matches_in_c(const TensorSpec *spec, PyObject *value)
{
    void *handle = handle_of(value);
    int64_t rank;
    return (spec->rank < 0 || (binding.dim(handle, &rank) == 0 && rank == spec->rank))
        && (spec->sizes == NULL || same_sizes(spec, handle))
        && (spec->dtype == Py_None || same_int(binding.dtype, handle, spec->learned.dtype))
        && (spec->device == Py_None
            || (same_int(binding.device_type, handle, spec->learned.device_type)
                && same_int(binding.device_index, handle, spec->learned.device_index)))
        && (spec->layout == Py_None || same_int(binding.layout, handle, spec->learned.layout))
        && (spec->strides == NULL || same_strides(spec, handle));
}

/* requires_grad has no C function, but a method of what a tensor points to.  Without it, its getter is called without
   the search for it. */
static bool
grad_matches(const TensorSpec *spec, PyObject *value, bool readable)
{
    if (readable && binding.grad != NULL && spec->requires_grad != Py_None) {
        return binding.grad(*(void **)handle_of(value)) == (spec->requires_grad == Py_True);
    }
    if (spec->requires_grad == Py_None || !readable || binding.requires_grad == NULL) {
        return attribute_is(value, names.requires_grad, spec->requires_grad);
    }
    PyGetSetDef *descriptor = ((PyGetSetDescrObject *)binding.requires_grad)->d_getset;
    PyObject *found = descriptor->get(value, descriptor->closure);
    bool same = found == spec->requires_grad;
    Py_XDECREF(found);
    return same;
}

bool
tensor_is_read_in_c(const TensorSpec *spec, PyObject *value)
{
    return readable_in_c(Py_TYPE(value)) && spec->learned.generation == binding.generation && binding.grad != NULL
        && PyTuple_GET_SIZE(spec->extras) == 0 && bits_are_read_in_c(spec);
}

bool
tensor_spec_is_for(const TensorSpec *spec, PyObject *value)
{
    return spec->type == Py_None || (PyObject *)Py_TYPE(value) == held(spec->type);
}

bool
tensor_spec_matches(TensorSpec *spec, PyObject *value)
{
    if (!tensor_spec_is_for(spec, value)) {
        return false;
    }
    bool readable = readable_in_c(Py_TYPE(value));
    if (readable && spec->learned.generation == binding.generation) {
        return matches_in_c(spec, value) && grad_matches(spec, value, readable) && bits_match(spec, value, readable)
            && extras_match(spec, value);
    }
    if (!matches_by_attributes(spec, value) || !grad_matches(spec, value, readable)
        || !bits_match(spec, value, readable) || !extras_match(spec, value)) {
        return false;
    }
    if (readable) {
        learn(spec, value);
    }
    return true;
}
