/* Dependency chains: what a walk over a large subtree relied on, so that the next one need not be walked where nothing changed.

   Models are trees of objects whose attributes, parameters and hooks lie in dicts.  Each state of a dict has a number
   of its own (object_compat.h).  A chain lists, for one value and parents before children:

   * steps: words in memory and what they were: the state of a dict, the type of an object, the dict of an object;
   * kept: values that relations ask for, put in their slots again;
   * tensors: their checks, which are repeated because a tensor can change without any dict;
   * the rest: what can only be walked, because it is reached by running code or from what has no such number.

   While all steps hold, every lookup below the value ends where it ended, and every check of an immutable object says
   what it said.  Looking at the steps and the tensors runs no code, so all of what they refer to is alive: each is held
   by one before.  Only then the rest is walked, which may run code; what it starts from is owned meanwhile.

   The numbers of dicts are never used twice, but addresses are.  So an object counts as the same only if a dict in the
   same state held it all along, or if its own dict is in the same state; and a class, which no step holds, by a weak
   reference. */
#include "chain.h"

#include "binding.h"
#include "object_compat.h"

#include <string.h>

#define FEWEST 8 /* nodes that make a chain worth its while */

void
chain_free(Chain *chain)
{
    if (chain != NULL) {
        for (Py_ssize_t i = 0; i < chain->class_count; i++) {
            Py_DECREF(chain->classes[i].alive);
        }
        for (Py_ssize_t i = 0; i < chain->state_count; i++) {
            dict_state_release(chain->states[i]);
        }
        PyMem_Free(chain->classes);
        PyMem_Free(chain->states);
        PyMem_Free(chain->steps);
        PyMem_Free(chain->kept);
        PyMem_Free(chain->tensors);
        PyMem_Free(chain->rest);
        PyMem_Free(chain);
    }
}

/* -- recording: runs no code ------------------------------------------------------------------------------------- */

/* A place for one more item of an array that grows by doubling; NULL without memory, and then there is no chain.  The
   array is given by the address of the pointer to it, whatever its items are. */
static void *
one_more(void *array, Py_ssize_t *count, size_t size)
{
    void *items;
    memcpy(&items, array, sizeof items);
    if ((*count & (*count - 1)) == 0) {
        items = PyMem_Realloc(items, (size_t)(*count == 0 ? 1 : 2 * *count) * size);
        if (items == NULL) {
            return NULL;
        }
        memcpy(array, &items, sizeof items);
    }
    return (char *)items + (size_t)(*count)++ * size;
}

/* Words are numbers here and pointers to CPython: copied, so that the compiler takes neither for the other's. */
static inline Word
word_at(const void *place)
{
    Word word;
    memcpy(&word, place, sizeof word);
    return word;
}

static bool
add_step(Chain *chain, const void *place)
{
    Step *step = one_more(&chain->steps, &chain->step_count, sizeof(Step));
    if (step == NULL) {
        return false;
    }
    *step = (Step){place, word_at(place)};
    return true;
}

static bool
add_state(Chain *chain, PyObject *dict)
{
    const Word *state = dict_state_hold(dict);
    if (state == NULL) {
        return false;
    }
    const Word **held = one_more(&chain->states, &chain->state_count, sizeof *chain->states);
    if (held == NULL) {
        dict_state_release(state);
        return false;
    }
    *held = state;
    return add_step(chain, state);
}

static bool
add_class(Chain *chain, PyTypeObject *type)
{
    if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
        return true; /* there for good */
    }
    for (Py_ssize_t i = 0; i < chain->class_count; i++) {
        if (chain->classes[i].type == type) {
            return true;
        }
    }
    PyObject *alive = PyWeakref_NewRef((PyObject *)type, NULL);
    if (alive == NULL || one_more(&chain->classes, &chain->class_count, sizeof *chain->classes) == NULL) {
        Py_XDECREF(alive);
        return false;
    }
    chain->classes[chain->class_count - 1].type = type;
    chain->classes[chain->class_count - 1].alive = alive;
    return true;
}

static bool
add_type(Chain *chain, PyObject *object)
{
    return add_class(chain, Py_TYPE(object)) && add_step(chain, &object->ob_type);
}

/* An object of a class made in Python may get another class, as a module may; and another dict. */
static bool
add_object(Chain *chain, PyObject *object, bool with_dict)
{
    bool fixed = !PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE) && !PyModule_Check(object);
    if (!fixed && !add_type(chain, object)) {
        return false;
    }
    PyObject **place = with_dict ? _PyObject_GetDictPtr(object) : NULL;
    return !with_dict || (place != NULL && *place != NULL && add_step(chain, place));
}

/* Looking something up may run the code of keys, unless they are what keys usually are. */
static bool
has_plain_keys(PyObject *dict)
{
    PyObject *key;
    for (Py_ssize_t place = 0; PyDict_Next(dict, &place, &key, NULL);) {
        if (!PyUnicode_CheckExact(key) && !PyLong_CheckExact(key)) {
            return false;
        }
    }
    return true;
}

static bool
add_dict(Chain *chain, PyObject *dict)
{
    return add_object(chain, dict, false) && has_plain_keys(dict) && add_state(chain, dict);
}

static Due *
place_for(Chain *chain, const Check *check, PyObject *value)
{
    if (check->lasts == KEEPS) {
        return one_more(&chain->kept, &chain->kept_count, sizeof(Due));
    }
    if (check->tensor != NULL && tensor_is_read_in_c(check->tensor, value)) {
        return one_more(&chain->tensors, &chain->tensor_count, sizeof(Due));
    }
    return one_more(&chain->rest, &chain->rest_count, sizeof(Due));
}

static bool
add_check(Chain *chain, const Check *check, PyObject *value)
{
    Due *due = place_for(chain, check, value);
    if (due == NULL) {
        return false;
    }
    *due = (Due){NULL, check, value};
    return true;
}

static bool
add_walk(Chain *chain, const Node *node, PyObject *parent)
{
    Due *due = one_more(&chain->rest, &chain->rest_count, sizeof(Due));
    if (due == NULL) {
        return false;
    }
    *due = (Due){node, NULL, parent};
    return true;
}

static bool
add_held_dicts(Chain *chain, PyObject *dict, PyObject *keys)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); i++) {
        PyObject *key = PyTuple_GET_ITEM(keys, i);
        PyObject *held = PyUnicode_CheckExact(key) ? PyDict_GetItemWithError(dict, key) : NULL;
        if (held == NULL || !PyDict_Check(held) || !add_state(chain, held)) {
            return false;
        }
    }
    return true;
}

/* What guards compare with is mostly of these kinds, and those do not change. */
static bool
never_changes(PyObject *constant)
{
    PyTypeObject *type = Py_TYPE(constant);
    if (type == &PyTuple_Type) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constant); i++) {
            if (!never_changes(PyTuple_GET_ITEM(constant, i))) {
                return false;
            }
        }
        return true;
    }
    return constant == Py_None || type == &PyBool_Type || type == &PyLong_Type || type == &PyFloat_Type
        || type == &PyComplex_Type || type == &PyUnicode_Type || type == &PyBytes_Type;
}

static bool
record_check(Chain *chain, const Check *check, PyObject *value)
{
    switch (check->lasts) {
    case WHILE_SAME_OBJECT:
        return true;
    case WHILE_SAME_CONSTANT:
        return never_changes(check->object) || add_check(chain, check, value);
    case WHILE_SAME_DICT: /* the dict is a step already */
        return PyDict_CheckExact(value) || add_check(chain, check, value);
    case WHILE_SAME_HELD_DICTS:
        return PyDict_CheckExact(value) && add_held_dicts(chain, value, check->object);
    default:
        return add_check(chain, check, value);
    }
}

static bool record_below(Chain *chain, const Node *node, PyObject *value);

static bool
record_child(Chain *chain, const Node *node, PyObject *parent)
{
    PyObject *value;
    switch (node->reach) {
    case BY_INSTANCE_DICT:
        if (PyType_Check(parent) || PyDict_Check(parent)) {
            return add_walk(chain, node, parent);
        }
        value = *_PyObject_GetDictPtr(parent); /* a step by now */
        break;
    case BY_KEY:
        if (!PyDict_Check(parent) || !PyUnicode_CheckExact(node->object)) {
            return add_walk(chain, node, parent);
        }
        value = PyDict_GetItemWithError(parent, node->object);
        if (value == NULL) {
            return !PyErr_Occurred();
        }
        break;
    default:
        return add_walk(chain, node, parent);
    }
    return record_below(chain, node, value);
}

static bool
has_instance_dict(const Node *node, PyObject *value)
{
    bool asked = false;
    for (Py_ssize_t i = 0; i < node->child_count; i++) {
        asked |= node->children[i]->reach == BY_INSTANCE_DICT;
    }
    return asked && !PyType_Check(value);
}

static bool
record_below(Chain *chain, const Node *node, PyObject *value)
{
    if (PyDict_Check(value) ? !add_dict(chain, value) : !add_object(chain, value, has_instance_dict(node, value))) {
        return false;
    }
    for (Py_ssize_t i = 0; i < node->check_count; i++) {
        if (!record_check(chain, &node->checks[i], value)) {
            return false;
        }
    }
    for (Py_ssize_t i = 0; i < node->child_count; i++) {
        if (!record_child(chain, node->children[i], value)) {
            return false;
        }
    }
    return true;
}

bool
chain_is_worth_it(const Node *node)
{
    return node->follows && node->weight >= FEWEST;
}

/* What the walk of a node's value will rely on, as things are; NULL where that cannot be told. */
Chain *
chain_record(const Node *node, PyObject *value)
{
    Chain *chain = PyMem_Calloc(1, sizeof(Chain));
    if (chain == NULL) {
        PyErr_Clear();
        return NULL;
    }
    chain->value = value;
    /* Only the state of its dict tells an object from a later one at the same address. */
    bool anchored = PyDict_Check(value) || has_instance_dict(node, value);
    if (!anchored || !add_step(chain, &binding.generation) || !add_type(chain, value)
        || !record_below(chain, node, value) || chain->step_count < FEWEST) {
        PyErr_Clear();
        chain_free(chain);
        return NULL;
    }
    return chain;
}

/* -- looking again --------------------------------------------------------------------------------------------------- */

/* Whether nothing has changed since; runs no code. */
bool
chain_holds(const Chain *chain, PyObject *value)
{
    if (chain->value != value) {
        return false;
    }
    for (Py_ssize_t i = 0; i < chain->class_count; i++) {
        if (held(chain->classes[i].alive) != (PyObject *)chain->classes[i].type) {
            return false;
        }
    }
    for (const Step *step = chain->steps, *end = step + chain->step_count; step < end; step++) {
        if (word_at(step->place) != step->content) {
            return false;
        }
    }
    return true;
}
