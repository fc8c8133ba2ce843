/* What differs between CPython versions outside of frames, and nothing else. */
#ifndef CAPTURE_OBJECT_COMPAT_H
#define CAPTURE_OBJECT_COMPAT_H

#include <Python.h>

#if PY_VERSION_HEX < 0x030c0000
#define request_code_extra _PyEval_RequestCodeExtraIndex
#define get_code_extra _PyCode_GetExtra
#define set_code_extra _PyCode_SetExtra
#else
#define request_code_extra PyUnstable_Eval_RequestCodeExtraIndex
#define get_code_extra PyUnstable_Code_GetExtra
#define set_code_extra PyUnstable_Code_SetExtra
#endif

/* The attribute (new reference), or NULL.  An error may be set or, where the attribute is missing, may not. */
static inline PyObject *
optional_attribute(PyObject *object, PyObject *name)
{
    PyObject *value = NULL;
#if PY_VERSION_HEX < 0x030d0000
    (void)_PyObject_LookupAttr(object, name, &value);
#else
    (void)PyObject_GetOptionalAttr(object, name, &value);
#endif
    return value;
}

/* The dict of a class itself rather than a proxy of it; new reference. */
static inline PyObject *
class_dict(PyTypeObject *type)
{
#if PY_VERSION_HEX < 0x030c0000
    return Py_XNewRef(type->tp_dict);
#else
    return PyType_GetDict(type);
#endif
}

#endif
