/* Whether one value may stand for a constant in code that was specialised on it.

   Python's == is too generous (1 == True == 1.0, 0.0 == -0.0) and at once too strict (nan != nan). */
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

/* Whether == is too generous for it: numbers of several types are equal, and so is what holds them. */
static bool
needs_a_second_look(PyObject *member)
{
    PyTypeObject *type = Py_TYPE(member);
    return type == &PyLong_Type || type == &PyBool_Type || type == &PyFloat_Type || type == &PyComplex_Type
        || type == &PyTuple_Type || type == &PyFrozenSet_Type;
}

/* Equal sets whose numbers also agree in type. */
bool
same_members(PyObject *value, PyObject *constant)
{
    if (PyObject_RichCompareBool(value, constant, Py_EQ) != 1) {
        return false;
    }
    PyObject *members = PyObject_GetIter(value);
    if (members == NULL) {
        return false;
    }
    bool same = true;
    PyObject *member;
    while (same && (member = PyIter_Next(members)) != NULL) {
        same = !needs_a_second_look(member) || has_member(constant, member) == 1;
        Py_DECREF(member);
    }
    Py_DECREF(members);
    return same && !PyErr_Occurred();
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
    return PyObject_RichCompareBool(value, constant, Py_EQ) == 1;
}
