/* What differs between CPython versions outside of frames, and nothing else. */
#ifndef CAPTURE_OBJECT_COMPAT_H
#define CAPTURE_OBJECT_COMPAT_H

#include <Python.h>
#include <stdint.h>

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

typedef uint64_t Word;

/* Where the number of a dict's state lies: another number after every change, of this dict or of any, and never one
   that was there before.  NULL where there is none.  What was held is released, and may be read until then. */
#if PY_VERSION_HEX < 0x030d0000
static inline const Word *
dict_state_hold(PyObject *dict)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    return &((PyDictObject *)dict)->ma_version_tag;
#pragma GCC diagnostic pop
}

static inline void
dict_state_release(const Word *state)
{
    (void)state; /* it lies in the dict */
}
#else
const Word *dict_state_hold(PyObject *dict); /* watch.c */
void dict_state_release(const Word *state);
#endif

/* The number that CPython gave a class, and takes away with any change of it or of one that it derives from; 0: none. */
static inline unsigned int
class_number(PyTypeObject *type)
{
#if PY_VERSION_HEX < 0x030d0000
    if (!PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG)) {
        return 0;
    }
#endif
    return type->tp_version_tag;
}

/* The same for a class that may have none as yet; one that was changed often gets none. */
static inline unsigned int
number_class(PyTypeObject *type)
{
#if PY_VERSION_HEX < 0x030c0000
    static PyObject *name; /* whatever is looked up: that is when a class gets its number */
    if (name == NULL && (name = PyUnicode_InternFromString("__class__")) == NULL) {
        PyErr_Clear();
        return 0;
    }
    (void)_PyType_Lookup(type, name);
#else
    (void)PyUnstable_Type_AssignVersionTag(type);
#endif
    return class_number(type);
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
