/* The states of dicts where CPython keeps no numbers of them: from 3.13 on its dict watchers tell of every change.

   A watcher does not hear of attributes that lie in the object itself, as those of most objects do in these versions.
   Such a dict gets a table of its own first, which only its speed could tell.

   CPython calls the watcher before it makes the change and runs no code in between.  The watcher runs none either: it
   finds the dict's entry and gives it another number. */
#include "object_compat.h"

#if PY_VERSION_HEX >= 0x030d0000

#include <stdbool.h>

typedef struct Watched {
    Word state;     /* first, because that is what others point to */
    PyObject *dict; /* borrowed; NULL once it is gone */
    Py_ssize_t holders;
    struct Watched *next; /* of the same bucket */
} Watched;

enum { NOT_YET = -1, NONE_LEFT = -2 };

/* Process-wide, as the engine is; guarded by the GIL. */
static struct {
    int id; /* of the watcher: an interpreter has eight */
    Word last;
    Watched **buckets;
    size_t bucket_count; /* a power of two */
    size_t count;
} watched = {.id = NOT_YET};

static Watched **
bucket_of(PyObject *dict)
{
    return &watched.buckets[((uintptr_t)dict >> 4) & (watched.bucket_count - 1)];
}

/* Where the pointer to the dict's entry is, or would be. */
static Watched **
place_of(PyObject *dict)
{
    Watched **place = bucket_of(dict);
    while (*place != NULL && (*place)->dict != dict) {
        place = &(*place)->next;
    }
    return place;
}

static void
unlink_at(Watched **place)
{
    Watched *entry = *place;
    *place = entry->next;
    entry->next = NULL;
    entry->dict = NULL;
    watched.count--;
}

static int
changes(PyDict_WatchEvent event, PyObject *dict, PyObject *key, PyObject *value)
{
    Watched **place = place_of(dict);
    if (*place != NULL) {
        (*place)->state = ++watched.last;
        if (event == PyDict_EVENT_DEALLOCATED) {
            unlink_at(place);
        }
    }
    return 0;
}

static bool
start(void)
{
    if (watched.id == NOT_YET) {
        watched.id = PyDict_AddWatcher(changes);
        if (watched.id < 0) {
            PyErr_Clear();
            watched.id = NONE_LEFT;
        }
    }
    return watched.id >= 0;
}

/* Room for one more entry. */
static bool
grow(void)
{
    if (watched.count < watched.bucket_count) {
        return true;
    }
    size_t old_count = watched.bucket_count, new_count = old_count == 0 ? 64 : 2 * old_count;
    Watched **old = watched.buckets, **buckets = PyMem_RawCalloc(new_count, sizeof(Watched *));
    if (buckets == NULL) {
        return false;
    }
    watched.buckets = buckets;
    watched.bucket_count = new_count;
    for (size_t i = 0; i < old_count; i++) {
        for (Watched *entry = old[i], *next; entry != NULL; entry = next) {
            next = entry->next;
            Watched **bucket = bucket_of(entry->dict);
            entry->next = *bucket;
            *bucket = entry;
        }
    }
    PyMem_RawFree(old);
    return true;
}

/* Moves the values out of the object, or out of what its dict shares with others: taking the last item out does that.
   It goes back to where it was. */
static bool
has_a_table_of_its_own(PyObject *dict)
{
    PyDictObject *layout = (PyDictObject *)dict;
    if (layout->ma_values == NULL) {
        return true;
    }
    if (!PyDict_CheckExact(dict) || layout->ma_used == 0) {
        return false;
    }
    PyObject *last = PyObject_CallMethod(dict, "popitem", NULL);
    bool done = last != NULL && PyDict_SetItem(dict, PyTuple_GET_ITEM(last, 0), PyTuple_GET_ITEM(last, 1)) == 0;
    Py_XDECREF(last);
    return done && layout->ma_values == NULL;
}

static Watched *
watch(PyObject *dict)
{
    if (!has_a_table_of_its_own(dict) || !grow()) {
        return NULL;
    }
    Watched *entry = PyMem_RawCalloc(1, sizeof(Watched));
    if (entry == NULL || PyDict_Watch(watched.id, dict) < 0) {
        PyMem_RawFree(entry);
        return NULL;
    }
    Watched **bucket = bucket_of(dict);
    *entry = (Watched){++watched.last, dict, 0, *bucket};
    *bucket = entry;
    watched.count++;
    return entry;
}

const Word *
dict_state_hold(PyObject *dict)
{
    if (!start()) {
        return NULL;
    }
    Watched *entry = watched.bucket_count == 0 ? NULL : *place_of(dict);
    if (entry == NULL) {
        entry = watch(dict);
    }
    if (entry == NULL) {
        PyErr_Clear();
        return NULL;
    }
    entry->holders++;
    return &entry->state;
}

void
dict_state_release(const Word *state)
{
    Watched *entry = (Watched *)state;
    if (--entry->holders > 0) {
        return;
    }
    if (entry->dict != NULL) {
        PyObject *raised = PyErr_GetRaisedException(), *dict = entry->dict;
        unlink_at(place_of(dict));
        if (PyDict_Unwatch(watched.id, dict) < 0) {
            PyErr_Clear(); /* the interpreter is about to end and has no watchers any more */
        }
        PyErr_SetRaisedException(raised);
    }
    PyMem_RawFree(entry);
}

#endif
