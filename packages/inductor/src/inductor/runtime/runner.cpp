// Kernels called from Python, many by one call: a plan says which, and where their arguments are among those given.
//
// Waves follow one another; the kernels of a wave may run in any order.  Where a stretch of waves is worth it, a team
// of threads does it together: it shares the iterations of large kernels, and takes small ones in turns.
//
// The little that is needed of Python belongs to its stable ABI, so none of its headers is.
#include "vector.h"

typedef struct _object PyObject;
extern "C" {
PyObject* PyCapsule_New(void*, const char*, void (*)(PyObject*));
void* PyCapsule_GetPointer(PyObject*, const char*);
PyObject* PyCFunction_NewEx(void*, PyObject*, PyObject*);
void Py_DecRef(PyObject*);
PyObject* PyErr_Occurred();
void PyErr_SetString(PyObject*, const char*);
extern PyObject* PyExc_TypeError;
void* PyEval_SaveThread();
void PyEval_RestoreThread(void*);
void* PyLong_AsVoidPtr(PyObject*);
long long PyLong_AsLongLong(PyObject*);
PyObject* PyBool_FromLong(long);
void* malloc(unsigned long);
void free(void*);
char* strdup(const char*);
int omp_get_thread_num();
int omp_get_num_threads();
}

typedef void (*Kernel)(void* const* pointers, const i64* integers);
typedef PyObject* (*Callable)(PyObject* self, PyObject* const* arguments, long count);
struct Method { const char* name; Callable call; int flags; const char* doc; };
static const int FASTCALL = 0x80;

// The plan is numbers one after the other: this head, then per stretch `team, waves`, per wave `steps`, per step
// `kernel, shared, pointers, integers` and where in the arguments each pointer and each integer stands.
struct Plan { Method method; i64 pointers, integers, releases, stretches; i64 rest[1]; };
struct Step { Kernel kernel; i64 shared, pointers, integers; i64 places[1]; };
struct Arguments { void** pointers; i64* integers; };

static const i64* after(const Step* step) { return step->places + step->pointers + step->integers; }

static __attribute__((noinline)) void perform(const Step* step, const Arguments& given) {
    void** pointers = (void**)__builtin_alloca(sizeof(void*) * (step->pointers + 1));
    i64* integers = (i64*)__builtin_alloca(sizeof(i64) * (step->integers + 1));
    const i64* place = step->places;
    for (i64 k = 0; k < step->pointers; k++) pointers[k] = given.pointers[*place++];
    for (i64 k = 0; k < step->integers; k++) integers[k] = given.integers[*place++];
    step->kernel(pointers, integers);
}

// Alone, or as one of a team.
static const i64* perform_waves(const i64* at, const Arguments& given, i64 member, i64 members) {
    for (i64 waves = *at++; waves > 0; waves--) {
        i64 turn = 0;
        for (i64 steps = *at++; steps > 0; steps--) {
            const Step* step = (const Step*)at;
            if (step->shared || turn++ % members == member) perform(step, given);
            at = after(step);
        }
        if (members > 1 && waves > 1) {
#pragma omp barrier
        }
    }
    return at;
}

static void perform_all(const Plan* plan, const Arguments& given, i64 threads) {
    const i64* at = plan->rest;
    for (i64 stretches = plan->stretches; stretches > 0; stretches--) {
        const bool team = *at++ && threads > 1;
        if (!team) {
            at = perform_waves(at, given, 0, 1);
            continue;
        }
        const i64* end = at;
#pragma omp parallel num_threads(threads)
        {
            const i64* reached = perform_waves(at, given, omp_get_thread_num(), omp_get_num_threads());
            if (omp_get_thread_num() == 0) end = reached;
        }
        at = end;
    }
}

// The arguments are addresses, integers, and last the number of threads.  True if a position was outside its axis.
static PyObject* call(PyObject* self, PyObject* const* arguments, long count) {
    const Plan* plan = (const Plan*)PyCapsule_GetPointer(self, 0);
    if (!plan) return 0;
    if (count != plan->pointers + plan->integers) {
        PyErr_SetString(PyExc_TypeError, "a kernel was called with another number of arguments than it takes");
        return 0;
    }
    Arguments given;
    given.pointers = (void**)__builtin_alloca(sizeof(void*) * (plan->pointers + 1));
    given.integers = (i64*)__builtin_alloca(sizeof(i64) * (plan->integers + 1));
    for (i64 k = 0; k < plan->pointers; k++) given.pointers[k] = PyLong_AsVoidPtr(*arguments++);
    for (i64 k = 0; k < plan->integers; k++) given.integers[k] = PyLong_AsLongLong(*arguments++);
    if (PyErr_Occurred()) return 0;
    i64 outside = 0;
    given.pointers[plan->pointers] = &outside;
    const i64 threads = given.integers[plan->integers - 1];
    void* state = plan->releases ? PyEval_SaveThread() : 0;
    perform_all(plan, given, threads);
    if (state) PyEval_RestoreThread(state);
    return PyBool_FromLong(outside != 0);
}

static void forget(PyObject* capsule) {
    Plan* plan = (Plan*)PyCapsule_GetPointer(capsule, 0);
    free((void*)plan->method.name);
    free(plan);
}

// A new Python function that follows the plan.
extern "C" PyObject* new_run(const char* name, const i64* numbers, i64 count) {
    Plan* plan = (Plan*)malloc(sizeof(Plan) + sizeof(i64) * count);
    plan->method = Method{strdup(name), call, FASTCALL, 0};
    __builtin_memcpy(&plan->pointers, numbers, sizeof(i64) * count);
    PyObject* capsule = PyCapsule_New(plan, 0, forget);
    PyObject* made = capsule ? PyCFunction_NewEx(&plan->method, capsule, 0) : 0;
    if (capsule) Py_DecRef(capsule);
    return made;
}
