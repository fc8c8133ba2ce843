/* Whether one value may stand for a constant in code that was specialised on it.

   Python's == is too generous (1 == True == 1.0, 0.0 == -0.0, range(5, 5) == range(0), "relu" == Act.RELU) and at once
   too strict (nan != nan). So it is asked for a few types alone; what is no such is interchangeable with itself. */
#include "guards.h"

#include <string.h>

static bool
same_bits(double left, double right)
{
    return memcmp(&left, &right, sizeof left) == 0 || (left != left && right != right);
}

static bool
same_items(PyObject *value, PyObject *constant)
{
    Py_ssize_t count = PyTuple_GET_SIZE(constant);
    if (PyTuple_GET_SIZE(value) != count) {
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!interchangeable(PyTuple_GET_ITEM(value, i), PyTuple_GET_ITEM(constant, i))) {
            return false;
        }
    }
    return true;
}

/* Whether a set holds something interchangeable with the item; -1 on error. */
static int
has_member(PyObject *set, PyObject *item)
{
    PyObject *members = PyObject_GetIter(set);
    if (members == NULL) {
        return -1;
    }
    int found = 0;
    PyObject *member;
    while (!found && (member = PyIter_Next(members)) != NULL) {
        found = interchangeable(member, item);
        Py_DECREF(member);
    }
    Py_DECREF(members);
    return PyErr_Occurred() ? -1 : found;
}

/* Whether each member of the one that is more than a text is in the other one as it is: with its type and content. */
static bool
holds_members_of(PyObject *set, PyObject *other)
{
    PyObject *members = PyObject_GetIter(other);
    if (members == NULL) {
        return false;
    }
    bool same = true;
    PyObject *member;
    while (same && (member = PyIter_Next(members)) != NULL) {
        same = PyUnicode_CheckExact(member) || has_member(set, member) == 1;
        Py_DECREF(member);
    }
    Py_DECREF(members);
    return same && !PyErr_Occurred();
}

/* Equal sets whose members also agree in type and content; a text of the one may equal what is no plain text in the
   other. */
bool
same_members(PyObject *value, PyObject *constant)
{
    return PyObject_RichCompareBool(value, constant, Py_EQ) == 1 && holds_members_of(constant, value)
        && holds_members_of(value, constant);
}

/* Whether an attribute, which C gives, is interchangeable. */
static bool
same_attribute(PyObject *value, PyObject *constant, const char *name)
{
    PyObject *left = PyObject_GetAttrString(value, name), *right = PyObject_GetAttrString(constant, name);
    bool same = left != NULL && right != NULL && interchangeable(left, right);
    Py_XDECREF(left);
    Py_XDECREF(right);
    return same;
}

/* Ranges of the same numbers may have other bounds. */
static bool
same_range(PyObject *value, PyObject *constant)
{
    return same_attribute(value, constant, "start") && same_attribute(value, constant, "stop")
        && same_attribute(value, constant, "step");
}

/* Whether instances of a class derived from tuple are their items and nothing else. Those with a dict are objects to
   write to, and of records made in C some items are hidden. */
static bool
is_its_items(PyTypeObject *type)
{
    return type->tp_dictoffset == 0 && Py_TYPE(type) == &PyType_Type
        && !PyObject_HasAttrString((PyObject *)type, "n_sequence_fields");
}

static bool
same_slice(PyObject *value, PyObject *constant)
{
    PySliceObject *left = (PySliceObject *)value, *right = (PySliceObject *)constant;
    return interchangeable(left->start, right->start) && interchangeable(left->stop, right->stop)
        && interchangeable(left->step, right->step);
}

bool
interchangeable(PyObject *value, PyObject *constant)
{
    if (value == constant) {
        return true;
    }
    PyTypeObject *type = Py_TYPE(constant);
    if (Py_TYPE(value) != type) {
        return false;
    }
    if (type == &PyFloat_Type) {
        return same_bits(PyFloat_AS_DOUBLE(value), PyFloat_AS_DOUBLE(constant));
    }
    if (type == &PyComplex_Type) {
        Py_complex left = PyComplex_AsCComplex(value), right = PyComplex_AsCComplex(constant);
        return same_bits(left.real, right.real) && same_bits(left.imag, right.imag);
    }
    if (type == &PyTuple_Type) {
        return same_items(value, constant);
    }
    if (type == &PyFrozenSet_Type) {
        return same_members(value, constant);
    }
    if (type == &PySlice_Type) {
        return same_slice(value, constant);
    }
    if (type == &PyBool_Type || constant == Py_None) {
        return false; /* one object per value */
    }
    if (type == &PyLong_Type || type == &PyUnicode_Type || type == &PyBytes_Type) {
        PyObject *verdict = type->tp_richcompare(value, constant, Py_EQ); /* a bool, and no call by way of the table */
        Py_XDECREF(verdict);
        return verdict == Py_True;
    }
    if (type == &PyRange_Type) {
        return same_range(value, constant);
    }
    if (PyTuple_Check(constant) && is_its_items(type)) {
        return same_items(value, constant);
    }
    /* Of all else only what is known to be told by its value: others may be equal and differ. */
    return strcmp(type->tp_name, "torch.device") == 0 && PyObject_RichCompareBool(value, constant, Py_EQ) == 1;
}
