/* The guard tree as data: nodes reach values, checks judge them. */
#ifndef CAPTURE_GUARDS_H
#define CAPTURE_GUARDS_H

#include "engine.h"
#include "object_compat.h"

typedef struct Chain Chain;

/* Whether the value a node reaches is given by the states of dicts (chain.c). */
typedef enum { BY_ANYTHING, BY_INSTANCE_DICT, BY_KEY } Reach;

/* How a node's value is reached from its parent's; fetch returns a new reference, or NULL (with or without an error
   set) where there is no such value. */
struct Node {
    Reach reach;
    bool runs_code;     /* to be reached: what was asked before may be what allows it, so it stays behind that */
    Py_ssize_t weight;  /* nodes of the subtree */
    bool follows;       /* may have a chain of its own: an ancestor's has been in vain, or cannot include it */
    Chain *chain;       /* of the last walk from here, or NULL */
    unsigned unused;    /* chains in vain: how many walks to go without a new one */
    unsigned waiting;
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

/* As long as what, a check that passed goes on to pass; KEEPS: it passes always, but has to see the value. */
typedef enum { AT_NO_TIME, WHILE_SAME_OBJECT, WHILE_SAME_CONSTANT, WHILE_SAME_DICT, WHILE_SAME_HELD_DICTS, KEEPS } Lasts;

/* passes may leave an error set when it returns false. */
struct Check {
    Lasts lasts;
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
void keep(const Check *check, PyObject *value, const Call *call); /* in its slot, for relations */

/* walk.c */
const Check *guards_first_failing(Guards *guards, const Call *call, bool reorder); /* or NULL */
int guards_collect_failures(Guards *guards, const Call *call, PyObject *found); /* their indices, in a list */

/* chain.c */
void chain_free(Chain *chain);

/* tensors.c */
bool tensor_is_read_in_c(const TensorSpec *spec, PyObject *value); /* without running any code */
TensorSpec *tensor_spec_parse(PyObject *payload);
bool tensor_spec_is_for(const TensorSpec *spec, PyObject *value); /* whether the type is right */
bool tensor_spec_matches(TensorSpec *spec, PyObject *value);
int tensor_spec_traverse(TensorSpec *spec, visitproc visit, void *arg);
void tensor_spec_free(TensorSpec *spec);

/* equality.c: same exact type and same value, bit for bit in floats, through tuples and frozen sets. */
bool interchangeable(PyObject *value, PyObject *constant);
bool same_members(PyObject *value, PyObject *constant); /* of two sets, the first of which may change */

#endif
