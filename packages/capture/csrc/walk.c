/* The walk over a guard tree: which check fails first, and which ones do.

   Relations between values that it found are asked after a walk that passed (relations.c).  Where a dependency chain
   (chain.c) says that nothing has changed since the last walk, only what the chain leaves open is looked at.

   A walk may run Python code (attributes, ==, callables), and so may be entered again, by this thread or another,
   before it is done.  Values are therefore owned while they are looked at, and the order of children changes only
   while no other walk is under way. */
#include "chain.h"
#include "relations.h"

static const Check *walk(Guards *guards, Node *node, PyObject *parent, const Call *call);

static void
move_to_front(Node *node, Py_ssize_t i)
{
    Node *child = node->children[i];
    memmove(node->children + 1, node->children, (size_t)i * sizeof(Node *));
    node->children[0] = child;
}

/* Why there is no value: true, and no error left, where it is not there; false where asking for it went wrong. */
static bool
is_missing(void)
{
    if (!PyErr_Occurred()) {
        return true;
    }
    if (!PyErr_ExceptionMatches(PyExc_AttributeError) && !PyErr_ExceptionMatches(PyExc_LookupError)) {
        return false;
    }
    PyErr_Clear();
    return true;
}

/* The first check of a subtree; NULL where it has none. */
static const Check *
any_check(const Node *node)
{
    const Check *check = node->check_count > 0 ? node->checks : NULL;
    for (Py_ssize_t i = 0; check == NULL && i < node->child_count; i++) {
        check = any_check(node->children[i]);
    }
    return check;
}

/* The first check that fails on a node's value or below, or NULL.  What failed goes to the front, if it may. */
static const Check *
walk_below(Guards *guards, Node *node, PyObject *value, const Call *call)
{
    for (const Check *check = node->checks, *end = check + node->check_count; check < end; check++) {
        if (!check->passes(check, value, call)) {
            return check;
        }
    }
    for (Py_ssize_t i = 0; i < node->child_count; i++) {
        const Check *failed = walk(guards, node->children[i], value, call);
        if (failed != NULL) {
            if (i > 0 && !node->children[i]->runs_code && guards != NULL && guards->walkers == 1) {
                move_to_front(node, i);
            }
            return failed;
        }
    }
    return NULL;
}

/* What changes all the time is mostly one dict of many: what lies below, and beside it, gets chains of its own. */
static void
let_children_follow(Node *node)
{
    for (Py_ssize_t i = 0; i < node->child_count; i++) {
        node->children[i]->follows = true;
    }
}

/* The same, with a chain for the next time.  Where something changes all the time there are fewer and fewer of them. */
static const Check *
walk_and_record(Guards *guards, Node *node, PyObject *value, const Call *call)
{
    if (node->waiting > 0) {
        node->waiting--;
        return walk_below(guards, node, value, call);
    }
    Chain *chain = chain_record(node, value);
    const Check *failed = walk_below(guards, node, value, call);
    node->unused = node->unused < 10 ? node->unused + 1 : 10;
    if (node->unused > 1) {
        let_children_follow(node);
    }
    node->waiting = (1u << node->unused) - 2;
    /* Somebody else may be following the old one, and what was walked may have changed what was recorded. */
    if (failed != NULL || chain == NULL || guards->walkers != 1 || !chain_holds(chain, value)) {
        chain_free(chain);
        return failed;
    }
    chain_free(node->chain);
    node->chain = chain;
    return NULL;
}

/* What has to be looked at in any case; the first check that fails, or NULL. */
static const Check *
follow(const Chain *chain, Guards *guards, const Call *call)
{
    for (Py_ssize_t i = 0; i < chain->kept_count; i++) {
        keep(chain->kept[i].check, chain->kept[i].object, call);
    }
    for (Py_ssize_t i = 0; i < chain->tensor_count; i++) {
        const Due *tensor = &chain->tensors[i];
        if (!tensor->check->passes(tensor->check, tensor->object, call)) {
            return tensor->check;
        }
    }
    for (Py_ssize_t i = 0; i < chain->rest_count; i++) {
        Py_INCREF(chain->rest[i].object);
    }
    const Check *failed = NULL;
    for (Py_ssize_t i = 0; failed == NULL && i < chain->rest_count; i++) {
        const Due *due = &chain->rest[i];
        if (due->node != NULL) {
            failed = walk(guards, (Node *)due->node, due->object, call);
        }
        else if (!due->check->passes(due->check, due->object, call)) {
            failed = due->check;
        }
    }
    for (Py_ssize_t i = 0; i < chain->rest_count; i++) {
        Py_DECREF(chain->rest[i].object);
    }
    return failed;
}

/* The first check that fails at or below the node, or NULL. */
static const Check *
walk(Guards *guards, Node *node, PyObject *parent, const Call *call)
{
    PyObject *value = node->fetch(node, parent, call);
    if (value == NULL) {
        return is_missing() ? node->if_missing : any_check(node);
    }
    const Check *failed;
    if (guards == NULL || !chain_is_worth_it(node)) {
        failed = walk_below(guards, node, value, call);
    }
    else if (node->chain != NULL && chain_holds(node->chain, value)) {
        node->unused = node->waiting = 0;
        guards->followed++;
        failed = follow(node->chain, guards, call);
    }
    else {
        failed = walk_and_record(guards, node, value, call);
    }
    Py_DECREF(value);
    return failed;
}

/* Errors of a check only mean that it fails.  An interrupt by the user is not lost: it is raised again in user code. */
static void
drop_error(void)
{
    if (PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
            PyErr_SetInterrupt();
        }
        PyErr_Clear();
    }
}

static const Check *
walk_and_relate(Guards *guards, const Call *call, bool reorder)
{
    const Check *failed = walk(reorder ? guards : NULL, guards->root, Py_None, call);
    return failed != NULL ? failed : relations_first_failing(guards->relations, guards->relation_count, call);
}

/* The same with room for the values that relations ask about, which are owned until the last one was answered. */
static const Check *
walk_with_slots(Guards *guards, const Call *call, bool reorder)
{
    PyObject *few[128], **slots = few;
    size_t count = (size_t)guards->slot_count;
    if (count > Py_ARRAY_LENGTH(few) && (slots = PyMem_New(PyObject *, count)) == NULL) {
        return any_check(guards->root);
    }
    memset(slots, 0, count * sizeof(PyObject *));
    Call keeping = *call;
    keeping.slots = slots;
    const Check *failed = walk_and_relate(guards, &keeping, reorder);
    drop_error();
    for (size_t i = 0; i < count; i++) {
        Py_XDECREF(slots[i]);
    }
    if (slots != few) {
        PyMem_Free(slots);
    }
    return failed;
}

const Check *
guards_first_failing(Guards *guards, const Call *call, bool reorder)
{
    guards->walkers++;
    const Check *failed = guards->slot_count > 0 ? walk_with_slots(guards, call, reorder)
                                                 : walk_and_relate(guards, call, reorder);
    guards->walkers--;
    drop_error();
    return failed;
}

bool
guards_pass(Guards *guards, const Call *call)
{
    return guards_first_failing(guards, call, true) == NULL;
}

/* -- all that fail ------------------------------------------------------------------------------------------------- */

static int
append_index(PyObject *found, const Check *check)
{
    PyObject *index = PyLong_FromSsize_t(check->index);
    int status = index == NULL ? -1 : PyList_Append(found, index);
    Py_XDECREF(index);
    return status;
}

static bool
only_looks(const Check *check)
{
    return check->tensor != NULL || check->lasts != AT_NO_TIME;
}

/* Of a check that failed: whether it is one of a tensor's sizes, dtype or the like, and no other object is there. */
static bool
is_for_this_kind(const Check *check, PyObject *value)
{
    return check->tensor != NULL && tensor_spec_is_for(check->tensor, value);
}

/* What fails, but for what lies below a value of another kind than expected: what that has says nothing, and to ask it
   may run code of the program. */
static int
collect_failures(const Node *node, PyObject *parent, const Call *call, PyObject *found)
{
    PyObject *value = node->fetch(node, parent, call);
    if (value == NULL) {
        const Check *failed = is_missing() ? node->if_missing : any_check(node);
        drop_error();
        return failed == NULL ? 0 : append_index(found, failed);
    }
    bool of_its_kind = true;
    int status = 0;
    for (Py_ssize_t i = 0; i < node->check_count && status == 0; i++) {
        const Check *check = &node->checks[i];
        if (only_looks(check) && !check->passes(check, value, call)) {
            drop_error();
            status = append_index(found, check);
            of_its_kind = of_its_kind && is_for_this_kind(check, value);
        }
    }
    for (Py_ssize_t i = 0; i < node->child_count && status == 0 && of_its_kind; i++) {
        status = collect_failures(node->children[i], value, call, found);
    }
    Py_DECREF(value);
    return status;
}

int
guards_collect_failures(Guards *guards, const Call *call, PyObject *found)
{
    guards->walkers++; /* the order of children stays as it is meanwhile */
    int status = collect_failures(guards->root, Py_None, call, found);
    guards->walkers--;
    return status;
}
