/* How tensors are read without Python: a word in their Python object, and C functions that torch exports. */
#ifndef CAPTURE_BINDING_H
#define CAPTURE_BINDING_H

#include "object_compat.h"

#include <stdbool.h>

typedef int32_t (*ReadInt)(void *tensor, int32_t *result);
typedef int32_t (*ReadLong)(void *tensor, int64_t *result);
typedef int32_t (*ReadLongs)(void *tensor, int64_t **result);
typedef int32_t (*ReadPointer)(void *tensor, void **result);
typedef bool (*ReadGrad)(void *implementation);
typedef bool (*ReadBit)(void *tensor);
typedef int32_t (*Number)(void);

/* What a tensor's memory does not show: that it is negated or conjugated whenever it is read, or all zeros without any. */
enum { NEGATED, CONJUGATED, ZEROS, BITS };
extern const char *const bit_names[BITS]; /* the methods that tell */

/* Set once torch is there. */
typedef struct {
    Word bindings; /* so far: each has a generation of its own */
    Word generation; /* numbers learned under another binding do not count; 0: by attributes only */
    Py_ssize_t offset;
    PyObject *types; /* the exact types that may be read in C: their attributes are torch's own */
    PyObject *requires_grad; /* the descriptor of this attribute, the same for all types, or NULL */
    ReadInt dtype, device_type, device_index, layout;
    ReadLong dim;
    ReadLongs sizes, strides;
    ReadGrad grad; /* or NULL */
    ReadBit bits[BITS]; /* each may be NULL */
    ReadPointer data;          /* the first element; these four are there together, or all NULL */
    ReadLong begin, room;      /* where in its storage that lies, in elements; the bytes of the storage */
    Number strided;            /* the layout that has these */
} Binding;

extern Binding binding;

bool readable_in_c(PyTypeObject *type); /* whether tensors of exactly this type have a handle */

static inline void *
handle_of(PyObject *tensor)
{
    return (char *)tensor + binding.offset;
}

PyObject *bind_tensors(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
