/* What is known about a code object: for every owner (a configuration), its guarded entries, or that it is skipped.

   It hangs in the extra slot that CPython gives code objects, and goes when the code object goes.  Entries of an
   owner are tried in the order of their last hit.  Owners that allow weak references are not kept alive; what
   belonged to one that is gone is dropped the next time the code object's state changes. */
#include "engine.h"

#include "object_compat.h"

typedef struct OwnerRecord OwnerRecord;

struct OwnerRecord {
    OwnerRecord *next;
    PyObject *owner; /* a weak reference where the owner allows one */
    bool skipped;
    Py_ssize_t count;
    GuardedCode **entries;
};

struct CodeState {
    OwnerRecord *records;
    bool as_is;
    bool outside;
    uint64_t changes; /* grows with every change of the records, so that a walk over them can tell */
};

static void
record_free(OwnerRecord *record)
{
    for (Py_ssize_t i = 0; i < record->count; i++) {
        Py_DECREF(record->entries[i]);
    }
    Py_DECREF(record->owner);
    PyMem_Free(record->entries);
    PyMem_Free(record);
}

static void
state_free(void *memory)
{
    CodeState *state = memory;
    if (state == NULL) {
        return; /* another user of code extras with a higher index was here; our own slot never was filled */
    }
    while (state->records != NULL) {
        OwnerRecord *record = state->records;
        state->records = record->next;
        record_free(record);
    }
    PyMem_Free(state);
}

int
cache_start(void)
{
    engine.extra_index = request_code_extra(state_free);
    if (engine.extra_index < 0) {
        PyErr_SetString(PyExc_ImportError, "capture._engine: no slot left for data on code objects");
        return -1;
    }
    return 0;
}

CodeState *
cache_state(PyCodeObject *code)
{
    void *state = NULL;
    (void)get_code_extra((PyObject *)code, engine.extra_index, &state); /* fails only for what is no code object */
    return state;
}

bool
cache_runs_as_is(const CodeState *state)
{
    return state->as_is;
}

bool
cache_runs_outside(const CodeState *state)
{
    return state->outside;
}

static CodeState *
state_for_change(PyCodeObject *code)
{
    CodeState *state = cache_state(code);
    if (state != NULL) {
        return state;
    }
    state = PyMem_Calloc(1, sizeof(CodeState));
    if (state == NULL) {
        PyErr_NoMemory();
    }
    else if (set_code_extra((PyObject *)code, engine.extra_index, state) < 0) {
        PyMem_Free(state);
        state = NULL;
    }
    return state;
}

/* The record of an owner, or NULL.  It is first in the list from then on: code that many owners share, such as a
   layer's, is mostly run by one of them many times. */
static OwnerRecord *
record_of(CodeState *state, PyObject *owner)
{
    OwnerRecord **link = &state->records;
    while (*link != NULL && held((*link)->owner) != owner) {
        link = &(*link)->next;
    }
    OwnerRecord *record = *link;
    if (record != NULL && record != state->records) {
        *link = record->next;
        record->next = state->records;
        state->records = record;
    }
    return record;
}

/* Takes the records of an owner out of the list and returns them as a list of their own; NULL owner: of all.  They
   are freed only when the list is whole again, because freeing may run code that looks at it. */
static OwnerRecord *
take_records(CodeState *state, PyObject *owner)
{
    OwnerRecord *taken = NULL, **link = &state->records;
    while (*link != NULL) {
        OwnerRecord *record = *link;
        if (owner != NULL && held(record->owner) != owner) {
            link = &record->next;
            continue;
        }
        *link = record->next;
        record->next = taken;
        taken = record;
    }
    state->changes++;
    return taken;
}

static void
drop_records(CodeState *state, PyObject *owner)
{
    OwnerRecord *taken = take_records(state, owner);
    while (taken != NULL) {
        OwnerRecord *record = taken;
        taken = record->next;
        record_free(record);
    }
}

/* The record to change for an owner, made where there is none. */
static OwnerRecord *
record_for_change(CodeState *state, PyObject *owner)
{
    drop_records(state, Py_None); /* the dead: no owner is None */
    OwnerRecord *record = record_of(state, owner);
    if (record != NULL) {
        return record;
    }
    record = PyMem_Calloc(1, sizeof(OwnerRecord));
    if (record == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    record->owner = hold_weakly(owner);
    if (record->owner == NULL) {
        PyMem_Free(record);
        return NULL;
    }
    record->next = state->records;
    state->records = record;
    return record;
}

static void
move_to_front(OwnerRecord *record, Py_ssize_t i)
{
    GuardedCode *entry = record->entries[i];
    memmove(record->entries + 1, record->entries, (size_t)i * sizeof(GuardedCode *));
    record->entries[0] = entry;
}

/* Finds the entry whose guards pass for this call (a new reference).  Guards may run Python code, which may change
   the very records walked here: the walk then starts over. */
Lookup
cache_find(CodeState *state, PyObject *owner, const Call *call, GuardedCode **found)
{
    for (;;) {
        uint64_t changes = state->changes;
        OwnerRecord *record = record_of(state, owner);
        if (record == NULL || record->skipped) {
            return record == NULL ? UNKNOWN : SKIPPED;
        }
        for (Py_ssize_t i = 0; state->changes == changes && i < record->count; i++) {
            GuardedCode *entry = (GuardedCode *)Py_NewRef(record->entries[i]);
            if (guards_pass(entry->guards, call)) {
                if (i > 0 && state->changes == changes) {
                    move_to_front(record, i);
                    state->changes++;
                }
                if (++entry->hits == entry->review) {
                    Py_DECREF(entry);
                    return UNKNOWN;
                }
                *found = entry;
                return FOUND;
            }
            Py_DECREF(entry);
        }
        if (state->changes == changes) {
            return UNKNOWN;
        }
    }
}

static int
require_same_parameters(PyCodeObject *original, PyCodeObject *code)
{
    if (code->co_argcount != argument_slots(original)) {
        PyErr_Format(PyExc_ValueError, "%R takes %d parameters, but calls of %R have %d argument slots", code,
                     code->co_argcount, original, argument_slots(original));
        return -1;
    }
    PyObject *left = PyCode_GetFreevars(original), *right = PyCode_GetFreevars(code);
    int same = left == NULL || right == NULL ? -1 : PyObject_RichCompareBool(left, right, Py_EQ);
    if (same == 0) {
        PyErr_Format(PyExc_ValueError, "%R has the free variables %R, but %R has %R", code, right, original, left);
    }
    Py_XDECREF(left);
    Py_XDECREF(right);
    return same == 1 ? 0 : -1;
}

int
cache_add(PyCodeObject *code, GuardedCode *entry)
{
    PyObject *owner = held(entry->owner);
    if (owner == Py_None) {
        PyErr_SetString(PyExc_ReferenceError, "the owner of this GuardedCode is gone");
        return -1;
    }
    bool fits = entry->code == NULL || require_same_parameters(code, entry->code) == 0;
    CodeState *state = fits ? state_for_change(code) : NULL;
    OwnerRecord *record = state == NULL ? NULL : record_for_change(state, owner);
    if (record == NULL) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < record->count; i++) {
        if (record->entries[i] == entry) {
            return 0; /* it was under review, and stays */
        }
    }
    size_t bytes = (size_t)(record->count + 1) * sizeof(GuardedCode *);
    GuardedCode **entries = PyMem_Realloc(record->entries, bytes);
    if (entries == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    record->entries = entries;
    entries[record->count++] = (GuardedCode *)Py_NewRef(entry);
    move_to_front(record, record->count - 1);
    state->changes++;
    return 0;
}

int
cache_skip(PyCodeObject *code, PyObject *owner)
{
    CodeState *state = state_for_change(code);
    OwnerRecord *record = state == NULL ? NULL : record_for_change(state, owner);
    if (record == NULL) {
        return -1;
    }
    record->skipped = true;
    state->changes++;
    return 0;
}

int
cache_run_as_is(PyCodeObject *code)
{
    CodeState *state = state_for_change(code);
    if (state == NULL) {
        return -1;
    }
    state->as_is = true;
    return 0;
}

int
cache_run_outside(PyCodeObject *code)
{
    CodeState *state = state_for_change(code);
    if (state == NULL) {
        return -1;
    }
    state->outside = true;
    return 0;
}

int
cache_drop(PyCodeObject *code, PyObject *owner)
{
    CodeState *state = cache_state(code);
    if (state != NULL) {
        drop_records(state, Py_None); /* the dead */
        drop_records(state, owner);
    }
    return 0;
}

PyObject *
cache_entries(PyCodeObject *code)
{
    PyObject *list = PyList_New(0);
    CodeState *state = cache_state(code);
    OwnerRecord *record = list == NULL || state == NULL ? NULL : state->records;
    for (; record != NULL; record = record->next) {
        for (Py_ssize_t i = 0; i < record->count; i++) {
            if (PyList_Append(list, (PyObject *)record->entries[i]) < 0) {
                Py_CLEAR(list);
                return NULL;
            }
        }
    }
    return list;
}
