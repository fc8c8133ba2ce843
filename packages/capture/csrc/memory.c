/* Whether tensors share memory as they did: which of them lie in one stretch of it, and how far into it each begins.

   Stretches are storages that overlap.  They are found by sorting; calls that follow one another mostly bring the same
   order, so the last one is tried first. */
#include "binding.h"
#include "relations.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    uintptr_t start, end, begin; /* of the storage; where the tensor begins */
    Py_ssize_t number;           /* of the tensor */
} Span;

struct Memory {
    Py_ssize_t count;
    struct {
        int64_t item_size;
        Py_ssize_t first; /* the least number in the same stretch; -1: the tensor is alone in it */
        int64_t distance; /* how far into the stretch the tensor begins */
    } *tensors;
    Span *spans; /* in the order of the last call */
};

static int
parse_tensors(PyObject *payload, Memory *memory)
{
    for (Py_ssize_t i = 0; i < memory->count; i++) {
        PyObject *item = PyTuple_GET_ITEM(payload, i);
        long long item_size, distance;
        if (!PyTuple_Check(item)
            || !PyArg_ParseTuple(item, "LnL;of a tensor: item size, the first of its memory or -1, distance", &item_size,
                                 &memory->tensors[i].first, &distance)) {
            if (!PyErr_Occurred()) {
                PyErr_Format(PyExc_TypeError, "the memory of a tensor is told by a tuple, not %R", item);
            }
            return -1;
        }
        memory->tensors[i].item_size = item_size;
        memory->tensors[i].distance = distance;
        memory->spans[i].number = i;
    }
    return 0;
}

Memory *
memory_parse(PyObject *payload, Py_ssize_t count)
{
    if (!PyTuple_Check(payload) || PyTuple_GET_SIZE(payload) != count) {
        PyErr_Format(PyExc_TypeError, "the memory of %zd tensors is told by as many tuples, not %R", count, payload);
        return NULL;
    }
    Memory *memory = PyMem_Calloc(1, sizeof(Memory));
    if (memory == NULL) {
        return (Memory *)PyErr_NoMemory();
    }
    memory->count = count;
    memory->tensors = PyMem_Calloc((size_t)count, sizeof *memory->tensors);
    memory->spans = PyMem_Calloc((size_t)count, sizeof(Span));
    if (memory->tensors == NULL || memory->spans == NULL) {
        PyErr_NoMemory();
    }
    else if (parse_tensors(payload, memory) == 0) {
        return memory;
    }
    memory_free(memory);
    return NULL;
}

void
memory_free(Memory *memory)
{
    if (memory != NULL) {
        PyMem_Free(memory->tensors);
        PyMem_Free(memory->spans);
        PyMem_Free(memory);
    }
}

/* False where a tensor's memory is not to be told here: it has none, no element, or none of this process. */
static bool
read_span(const Memory *memory, PyObject *tensor, Span *span)
{
    int32_t layout;
    int64_t begin, room;
    void *data, *handle = handle_of(tensor);
    if (!readable_in_c(Py_TYPE(tensor)) || binding.layout(handle, &layout) != 0 || layout != binding.strided()
        || binding.data(handle, &data) != 0 || data == NULL || binding.begin(handle, &begin) != 0
        || binding.room(handle, &room) != 0) {
        return false;
    }
    span->begin = (uintptr_t)data;
    span->start = span->begin - (uintptr_t)(begin * memory->tensors[span->number].item_size);
    span->end = span->start + (uintptr_t)room;
    return span->start != 0 && span->start < span->end;
}

static int
by_start(const void *left, const void *right)
{
    const Span *a = left, *b = right;
    return a->start < b->start ? -1 : a->start > b->start;
}

static void
sort_spans(Memory *memory)
{
    for (Py_ssize_t i = 1; i < memory->count; i++) {
        if (by_start(&memory->spans[i - 1], &memory->spans[i]) > 0) {
            qsort(memory->spans, (size_t)memory->count, sizeof(Span), by_start);
            return;
        }
    }
}

/* Whether the spans of one stretch are those that were in one, each as far into it. */
static bool
is_as_before(const Memory *memory, const Span *spans, Py_ssize_t count)
{
    Py_ssize_t first = spans[0].number;
    for (Py_ssize_t i = 1; i < count; i++) {
        first = spans[i].number < first ? spans[i].number : first;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t number = spans[i].number;
        if (memory->tensors[number].first != (count == 1 ? -1 : first)
            || (count > 1 && memory->tensors[number].distance != (int64_t)(spans[i].begin - spans[0].start))) {
            return false;
        }
    }
    return true;
}

int
memory_is_as_before(Memory *memory, PyObject *const *values, const Py_ssize_t *chosen)
{
    if (binding.generation == 0 || binding.data == NULL) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < memory->count; i++) {
        if (!read_span(memory, values[chosen[memory->spans[i].number]], &memory->spans[i])) {
            return -1;
        }
    }
    sort_spans(memory);
    for (Py_ssize_t i = 0, next; i < memory->count; i = next) {
        uintptr_t end = memory->spans[i].end;
        for (next = i + 1; next < memory->count && memory->spans[next].start < end; next++) {
            end = memory->spans[next].end > end ? memory->spans[next].end : end;
        }
        if (!is_as_before(memory, &memory->spans[i], next - i)) {
            return 0;
        }
    }
    return 1;
}
