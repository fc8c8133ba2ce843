/* The guard tree as data: nodes reach values, checks judge them. */
#ifndef CAPTURE_GUARDS_H
#define CAPTURE_GUARDS_H

#include "engine.h"

/* How a node's value is reached from its parent's; fetch returns a new reference, or NULL (with or without an error
   set) where there is no such value. */
struct Node {
    PyObject *(*fetch)(const Node *node, PyObject *parent, const Call *call);
    PyObject *object;   /* the name, key, constant or callable of the accessor */
    Py_ssize_t number;  /* its index */
    Check *checks;
    Py_ssize_t check_count;
    Node **children;
    Py_ssize_t child_count;
    const Check *if_missing; /* what fails first where there is no such value; NULL: nothing does */
};

typedef struct TensorSpec TensorSpec;

/* passes may leave an error set when it returns false. */
struct Check {
    bool (*passes)(const Check *check, PyObject *value, const Call *call);
    Py_ssize_t index;   /* the caller's number for it */
    PyObject *object;
    Py_ssize_t number;
    TensorSpec *tensor;
    bool wants_absence; /* passes exactly where there is no value */
};

/* accessors.c: fills in fetch, object and number; -1 with an error set where the spec is not understood. */
int accessor_parse(PyObject *spec, Node *node);

/* checks.c: the same for a check. */
int check_parse(PyObject *spec, Check *check);
int check_traverse(Check *check, visitproc visit, void *arg);
void check_clear(Check *check);

/* tensors.c */
TensorSpec *tensor_spec_parse(PyObject *payload);
bool tensor_spec_matches(TensorSpec *spec, PyObject *value);
int tensor_spec_traverse(TensorSpec *spec, visitproc visit, void *arg);
void tensor_spec_free(TensorSpec *spec);
PyObject *bind_tensors(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* equality.c: same exact type and same value, bit for bit in floats, through tuples and frozen sets. */
bool interchangeable(PyObject *value, PyObject *constant);

#endif
