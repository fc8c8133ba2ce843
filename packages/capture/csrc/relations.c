/* Relations: what has to hold between several values, such as that they are different objects.

   The values are found by the walk, which keeps them in slots as it comes by: ("keep", index, slot) is a check that
   always passes.  Relations are asked after it, when each value is known to be what it should be.  One that cannot be
   decided here, for a tensor of an unusual type say, is left to the Python function that it comes with. */
#include "relations.h"

typedef enum { NO, YES, ASK } Verdict;

struct Relation {
    Check check; /* for its index */
    Verdict (*judge)(Relation *relation, PyObject *const *slots);
    Py_ssize_t *slots;
    Py_ssize_t count;
    Py_ssize_t first;     /* of the slots, those that are different from one another and from all others */
    Memory *memory;
    Condition *condition;
    Class *class;
    PyObject *function;   /* asked where the rest does not tell; or NULL */
};

static Verdict
is_same(Relation *relation, PyObject *const *slots)
{
    for (Py_ssize_t i = 1; i < relation->count; i++) {
        if (slots[relation->slots[i]] != slots[relation->slots[0]]) {
            return NO;
        }
    }
    return YES;
}

/* The place of an object in a table of a power of two places, at least half of them free. */
static PyObject **
place_in(PyObject **table, size_t mask, PyObject *object)
{
    size_t i = ((uintptr_t)object >> 4) & mask;
    while (table[i] != NULL && table[i] != object) {
        i = (i + 1) & mask;
    }
    return &table[i];
}

static Verdict
are_distinct_by(PyObject **table, size_t size, const Relation *relation, PyObject *const *slots)
{
    memset(table, 0, size * sizeof(PyObject *));
    for (Py_ssize_t i = 0; i < relation->count; i++) {
        PyObject *object = slots[relation->slots[i]], **place = place_in(table, size - 1, object);
        if (*place != NULL) {
            return NO;
        }
        if (i < relation->first) {
            *place = object;
        }
    }
    return YES;
}

/* None of the first is another one, of the first or of the rest; the rest may be one object. */
static Verdict
are_distinct(Relation *relation, PyObject *const *slots)
{
    PyObject *few[256], **table = few;
    size_t size = 4;
    while (size < 2 * (size_t)relation->first) {
        size *= 2;
    }
    if (size > Py_ARRAY_LENGTH(few) && (table = PyMem_New(PyObject *, size)) == NULL) {
        return NO;
    }
    Verdict verdict = are_distinct_by(table, size, relation, slots);
    if (table != few) {
        PyMem_Free(table);
    }
    return verdict;
}

static Verdict
as_told(int told)
{
    return told < 0 ? ASK : told ? YES : NO;
}

static Verdict
share_memory_as_before(Relation *relation, PyObject *const *slots)
{
    return as_told(memory_is_as_before(relation->memory, slots, relation->slots));
}

static Verdict
fulfils_condition(Relation *relation, PyObject *const *slots)
{
    return as_told(condition_holds(relation->condition, slots, relation->slots));
}

static Verdict
is_the_class_it_was(Relation *relation, PyObject *const *slots)
{
    return class_is_as_before(relation->class) ? YES : NO;
}

static Verdict
leave_to_python(Relation *relation, PyObject *const *slots)
{
    return ASK;
}

/* Consumes the verdict of Python code. */
static bool
is_true(PyObject *verdict)
{
    bool yes = verdict != NULL && PyObject_IsTrue(verdict) == 1;
    Py_XDECREF(verdict);
    return yes;
}

static bool
ask_python(const Relation *relation, const Call *call)
{
    PyObject *few[16], **given = few;
    size_t count = (size_t)call->count + 1;
    if (relation->function == NULL
        || (count > Py_ARRAY_LENGTH(few) && (given = PyMem_New(PyObject *, count)) == NULL)) {
        return false;
    }
    given[0] = call->function;
    memcpy(given + 1, call->args, (count - 1) * sizeof(PyObject *));
    bool yes = is_true(PyObject_Vectorcall(relation->function, given, count, NULL));
    if (given != few) {
        PyMem_Free(given);
    }
    return yes;
}

const Check *
relations_first_failing(Relation *relations, Py_ssize_t count, const Call *call)
{
    for (Relation *relation = relations, *end = relations + count; relation < end; relation++) {
        Verdict verdict = relation->judge(relation, call->slots);
        if (verdict == NO || (verdict == ASK && !ask_python(relation, call))) {
            return &relation->check;
        }
    }
    return NULL;
}

/* -- building ---------------------------------------------------------------------------------------------------- */

static int
parse_nothing(PyObject *payload, Relation *relation)
{
    return 0;
}

static int
parse_first(PyObject *payload, Relation *relation)
{
    relation->first = PyNumber_AsSsize_t(payload, PyExc_OverflowError);
    if (!PyErr_Occurred() && (relation->first < 0 || relation->first > relation->count)) {
        PyErr_Format(PyExc_ValueError, "%zd of %zd slots", relation->first, relation->count);
    }
    return PyErr_Occurred() ? -1 : 0;
}

static int
parse_memory(PyObject *payload, Relation *relation)
{
    relation->memory = memory_parse(payload, relation->count);
    return relation->memory == NULL ? -1 : 0;
}

static int
parse_condition(PyObject *payload, Relation *relation)
{
    relation->condition = condition_parse(payload, relation->count);
    return relation->condition == NULL ? -1 : 0;
}

static int
parse_class(PyObject *payload, Relation *relation)
{
    relation->class = class_parse(payload);
    return relation->class == NULL ? -1 : 0;
}

static const struct {
    const char *kind;
    Verdict (*judge)(Relation *, PyObject *const *);
    int (*parse)(PyObject *, Relation *);
} kinds[] = {
    {"same", is_same, parse_nothing},
    {"distinct", are_distinct, parse_first},
    {"memory", share_memory_as_before, parse_memory},
    {"condition", fulfils_condition, parse_condition},
    {"class", is_the_class_it_was, parse_class},
    {"relation", leave_to_python, parse_nothing},
};

static int
parse_slots(PyObject *slots, Py_ssize_t slot_count, Relation *relation)
{
    relation->count = PyTuple_GET_SIZE(slots);
    relation->slots = PyMem_Calloc((size_t)relation->count, sizeof(Py_ssize_t));
    if (relation->slots == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < relation->count; i++) {
        Py_ssize_t slot = PyNumber_AsSsize_t(PyTuple_GET_ITEM(slots, i), PyExc_OverflowError);
        if (PyErr_Occurred()) {
            return -1;
        }
        if (slot < 0 || slot >= slot_count) {
            PyErr_Format(PyExc_ValueError, "no check keeps a value in slot %zd", slot);
            return -1;
        }
        relation->slots[i] = slot;
    }
    return 0;
}

static int
parse_kind(PyObject *kind, PyObject *payload, Relation *relation)
{
    for (size_t i = 0; i < Py_ARRAY_LENGTH(kinds); i++) {
        if (PyUnicode_CompareWithASCIIString(kind, kinds[i].kind) == 0) {
            relation->judge = kinds[i].judge;
            return kinds[i].parse(payload, relation);
        }
    }
    PyErr_Format(PyExc_ValueError, "unknown relation %R", kind);
    return -1;
}

static int
relation_parse(PyObject *spec, Py_ssize_t slot_count, Relation *relation)
{
    PyObject *kind, *slots, *payload, *function;
    if (!PyTuple_Check(spec)) {
        PyErr_Format(PyExc_TypeError, "a relation is a tuple, not %R", spec);
        return -1;
    }
    if (!PyArg_ParseTuple(spec, "UnO!OO;a relation is a tuple (kind, index, slots, payload, function)", &kind,
                          &relation->check.index, &PyTuple_Type, &slots, &payload, &function)
        || parse_slots(slots, slot_count, relation) < 0) {
        return -1;
    }
    if (function != Py_None && !PyCallable_Check(function)) {
        PyErr_Format(PyExc_TypeError, "a relation is left to a callable or None, not %R", function);
        return -1;
    }
    relation->function = function == Py_None ? NULL : Py_NewRef(function);
    return parse_kind(kind, payload, relation);
}

Relation *
relations_parse(PyObject *specs, Py_ssize_t slot_count, Py_ssize_t *count)
{
    *count = PyTuple_GET_SIZE(specs);
    Relation *relations = PyMem_Calloc((size_t)*count, sizeof(Relation));
    if (relations == NULL) {
        return (Relation *)PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < *count; i++) {
        if (relation_parse(PyTuple_GET_ITEM(specs, i), slot_count, &relations[i]) < 0) {
            relations_free(relations, *count);
            return NULL;
        }
    }
    return relations;
}

int
relations_traverse(Relation *relations, Py_ssize_t count, visitproc visit, void *arg)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_VISIT(relations[i].function);
        int stop = class_traverse(relations[i].class, visit, arg);
        if (stop) {
            return stop;
        }
    }
    return 0;
}

void
relations_free(Relation *relations, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; relations != NULL && i < count; i++) {
        Py_XDECREF(relations[i].function);
        PyMem_Free(relations[i].slots);
        memory_free(relations[i].memory);
        condition_free(relations[i].condition);
        class_free(relations[i].class);
    }
    PyMem_Free(relations);
}
