/* The guard tree: built once from plain data, and the Python object that holds it. */
#include "relations.h"

#include <structmember.h>

static Node *node_parse(PyObject *spec);

static void
node_free(Node *node)
{
    if (node == NULL) {
        return;
    }
    for (Py_ssize_t i = 0; i < node->check_count; i++) {
        check_clear(&node->checks[i]);
    }
    for (Py_ssize_t i = 0; i < node->child_count; i++) {
        node_free(node->children[i]);
    }
    Py_XDECREF(node->object);
    chain_free(node->chain);
    PyMem_Free(node->checks);
    PyMem_Free(node->children);
    PyMem_Free(node);
}

static int
node_traverse(Node *node, visitproc visit, void *arg)
{
    Py_VISIT(node->object);
    for (Py_ssize_t i = 0; i < node->check_count; i++) {
        int stop = check_traverse(&node->checks[i], visit, arg);
        if (stop) {
            return stop;
        }
    }
    for (Py_ssize_t i = 0; i < node->child_count; i++) {
        int stop = node_traverse(node->children[i], visit, arg);
        if (stop) {
            return stop;
        }
    }
    return 0;
}

static int
parse_checks(PyObject *specs, Node *node)
{
    Py_ssize_t count = PyTuple_GET_SIZE(specs);
    node->checks = PyMem_Calloc((size_t)count, sizeof(Check));
    if (node->checks == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    node->check_count = count;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (check_parse(PyTuple_GET_ITEM(specs, i), &node->checks[i]) < 0) {
            return -1;
        }
    }
    return 0;
}

static int
parse_children(PyObject *specs, Node *node)
{
    Py_ssize_t count = PyTuple_GET_SIZE(specs);
    node->children = PyMem_Calloc((size_t)count, sizeof(Node *));
    if (node->children == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (; node->child_count < count; node->child_count++) {
        Node *child = node_parse(PyTuple_GET_ITEM(specs, node->child_count));
        if (child == NULL) {
            return -1;
        }
        node->children[node->child_count] = child;
    }
    return 0;
}

/* The first check of a subtree that needs a value. */
static const Check *
first_that_needs_a_value(const Node *node)
{
    for (Py_ssize_t i = 0; i < node->check_count; i++) {
        if (!node->checks[i].wants_absence) {
            return &node->checks[i];
        }
    }
    for (Py_ssize_t i = 0; i < node->child_count; i++) {
        if (node->children[i]->if_missing != NULL) {
            return node->children[i]->if_missing;
        }
    }
    return NULL;
}

static int
parse_parts(PyObject *accessor, PyObject *checks, PyObject *children, Node *node)
{
    if (accessor_parse(accessor, node) < 0 || parse_checks(checks, node) < 0 || parse_children(children, node) < 0) {
        return -1;
    }
    node->if_missing = first_that_needs_a_value(node);
    node->weight = node->waiting = 1; /* the first walk teaches tensor checks how to be quick */
    node->follows = node->reach == BY_ANYTHING;
    for (Py_ssize_t i = 0; i < node->child_count; i++) {
        node->weight += node->children[i]->weight;
    }
    return 0;
}

static Node *
node_parse(PyObject *spec)
{
    PyObject *accessor, *checks, *children;
    if (!PyTuple_Check(spec)) {
        PyErr_Format(PyExc_TypeError, "a guard node is a tuple (accessor, checks, children), not %R", spec);
        return NULL;
    }
    if (!PyArg_ParseTuple(spec, "OO!O!;a guard node is a tuple (accessor, checks, children)", &accessor, &PyTuple_Type,
                          &checks, &PyTuple_Type, &children)
        || Py_EnterRecursiveCall(" while building guards")) {
        return NULL;
    }
    Node *node = PyMem_Calloc(1, sizeof(Node));
    if (node == NULL) {
        PyErr_NoMemory();
    }
    else if (parse_parts(accessor, checks, children, node) < 0) {
        node_free(node);
        node = NULL;
    }
    Py_LeaveRecursiveCall();
    return node;
}

static int
parse_call(PyObject *const *args, Py_ssize_t count, Call *call)
{
    if (count != 2 || !PyTuple_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "expected a function and a tuple of its argument slots");
        return -1;
    }
    *call = (Call){args[0], PySequence_Fast_ITEMS(args[1]), PyTuple_GET_SIZE(args[1]), NULL};
    return 0;
}

static PyObject *
guards_check(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Call call;
    return parse_call(args, count, &call) < 0 ? NULL : PyBool_FromLong(guards_pass((Guards *)self, &call));
}

static PyObject *
guards_first_failure(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Call call;
    if (parse_call(args, count, &call) < 0) {
        return NULL;
    }
    const Check *failed = guards_first_failing((Guards *)self, &call, false);
    return failed == NULL ? Py_NewRef(Py_None) : PyLong_FromSsize_t(failed->index);
}

static PyObject *
guards_failures(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Call call;
    PyObject *found = parse_call(args, count, &call) < 0 ? NULL : PyList_New(0);
    if (found == NULL) {
        return NULL;
    }
    if (guards_collect_failures((Guards *)self, &call, found) < 0) {
        Py_CLEAR(found);
    }
    return found;
}

/* The number of slots that the checks of a tree fill. */
static Py_ssize_t
slots_of(const Node *node)
{
    Py_ssize_t count = 0;
    for (Py_ssize_t i = 0; i < node->check_count; i++) {
        if (node->checks[i].lasts == KEEPS && node->checks[i].number >= count) {
            count = node->checks[i].number + 1;
        }
    }
    for (Py_ssize_t i = 0; i < node->child_count; i++) {
        Py_ssize_t below = slots_of(node->children[i]);
        count = below > count ? below : count;
    }
    return count;
}

static int
guards_parse(PyObject *spec, PyObject *relations, Guards *self)
{
    if ((self->root = node_parse(spec)) == NULL) {
        return -1;
    }
    self->slot_count = slots_of(self->root);
    self->relations = relations_parse(relations, self->slot_count, &self->relation_count);
    return self->relations == NULL ? -1 : 0;
}

static PyObject *
guards_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"spec", "relations", NULL};
    PyObject *spec, *relations = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O!:Guards", names, &spec, &PyTuple_Type, &relations)) {
        return NULL;
    }
    relations = relations == NULL ? PyTuple_New(0) : Py_NewRef(relations);
    Guards *self = relations == NULL ? NULL : (Guards *)type->tp_alloc(type, 0);
    if (self != NULL && guards_parse(spec, relations, self) < 0) {
        Py_CLEAR(self);
    }
    Py_XDECREF(relations);
    return (PyObject *)self;
}

static int
guards_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Guards *guards = (Guards *)self;
    int stop = guards->root == NULL ? 0 : node_traverse(guards->root, visit, arg);
    return stop || guards->relations == NULL
        ? stop
        : relations_traverse(guards->relations, guards->relation_count, visit, arg);
}

/* The cyclic collector must not clear guards: something might still walk them.  Others in the cycle give way. */
static void
guards_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    node_free(((Guards *)self)->root);
    relations_free(((Guards *)self)->relations, ((Guards *)self)->relation_count);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef guards_methods[] = {
    {"check", (PyCFunction)(void (*)(void))guards_check, METH_FASTCALL,
     "check(function, args, /)\n--\n\nWhether everything the guards rely on holds for this call."},
    {"first_failure", (PyCFunction)(void (*)(void))guards_first_failure, METH_FASTCALL,
     "first_failure(function, args, /)\n--\n\nThe index of the first check that fails, or None."},
    {"failures", (PyCFunction)(void (*)(void))guards_failures, METH_FASTCALL,
     "failures(function, args, /)\n--\n\nThe indices of the checks that fail, of those that only look."},
    {NULL},
};

static PyMemberDef guards_members[] = {
    {"followed", T_ULONGLONG, offsetof(Guards, followed), READONLY,
     "How often a dependency chain answered in the place of a walk."},
    {NULL},
};

static PyType_Slot guards_slots[] = {
    {Py_tp_new, guards_new},
    {Py_tp_dealloc, guards_dealloc},
    {Py_tp_traverse, guards_traverse},
    {Py_tp_methods, guards_methods},
    {Py_tp_members, guards_members},
    {Py_tp_doc, "Guards(spec, relations=())\n--\n\nEverything one piece of transformed code relies on, checked in C."},
    {0, NULL},
};

PyType_Spec guards_spec = {
    .name = "capture._engine.Guards",
    .basicsize = sizeof(Guards),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = guards_slots,
};
