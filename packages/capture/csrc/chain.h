/* Dependency chains as data: what chain.c records, and walk.c follows. */
#ifndef CAPTURE_CHAIN_H
#define CAPTURE_CHAIN_H

#include "guards.h"

typedef struct {
    const void *place; /* of a word in an object that is alive while all steps before hold */
    Word content;
} Step;

typedef struct {
    const Node *node;   /* walked from the object, its parent; NULL: the check is made on the object */
    const Check *check;
    PyObject *object;   /* borrowed */
} Due;

struct Chain {
    PyObject *value; /* borrowed, and only compared */
    struct {
        PyTypeObject *type; /* borrowed, and only compared */
        PyObject *alive;    /* a weak reference */
    } *classes; /* those of the objects, each once */
    Py_ssize_t class_count;
    Step *steps;
    const Word **states; /* those of the steps that are held */
    Due *kept, *tensors, *rest;
    Py_ssize_t step_count, state_count, kept_count, tensor_count, rest_count;
};

bool chain_is_worth_it(const Node *node);
Chain *chain_record(const Node *node, PyObject *value);
bool chain_holds(const Chain *chain, PyObject *value);

#endif
