// Starts of kernels on GPUs, called from Python: what a start costs the host is most of what a small graph costs.
//
// A launcher knows its kernel and how many programs run; it is given a stream, addresses and integers.  Some addresses
// are of numbers on the host, which the driver copies while it starts the kernel.  What is seldom
// (memory that is not aligned, a driver that refuses) it leaves to a Python function.
//
// The little that is needed of Python belongs to its stable ABI, so none of its headers is.
typedef long long i64;
typedef struct _object PyObject;
extern "C" {
PyObject* PyCapsule_New(void*, const char*, void (*)(PyObject*));
void* PyCapsule_GetPointer(PyObject*, const char*);
PyObject* PyCFunction_NewEx(void*, PyObject*, PyObject*);
void Py_IncRef(PyObject*);
void Py_DecRef(PyObject*);
PyObject* PyErr_Occurred();
void PyErr_SetString(PyObject*, const char*);
extern PyObject* PyExc_TypeError;
extern PyObject _Py_NoneStruct;
void* PyEval_SaveThread();
void PyEval_RestoreThread(void*);
long long PyLong_AsLongLong(PyObject*);
void* PyLong_AsVoidPtr(PyObject*);
PyObject* PyObject_Vectorcall(PyObject*, PyObject* const*, unsigned long, PyObject*);
void* malloc(unsigned long);
void free(void*);
char* strdup(const char*);
}

typedef PyObject* (*Callable)(PyObject* self, PyObject* const* arguments, long count);
struct Method { const char* name; Callable call; int flags; const char* doc; };
static const int FASTCALL = 0x80;
static const int NO_CONTEXT = 201;  // this thread has not used the device yet
static const i64 ALIGNMENT = 16;
static const i64 HIDDEN = 2;  // Triton's kernels end with two pointers to scratch memory; ours use none, and get null

typedef int (*Launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
typedef int (*Enter)(void*);

// As Python fills it in.
struct Start { Launch launch; Enter enter; void *function, *context; i64 blocks, threads, shared, pointers, numbers, integers; };
struct Launcher { Method method; PyObject* otherwise; Start start; };

static int launched(const Start& start, void* stream, void** slots) {
    return start.launch(start.function, start.blocks, 1, 1, start.threads, 1, 1, start.shared, stream, slots, 0);
}

// The arguments are a stream, addresses and integers.
static PyObject* call(PyObject* self, PyObject* const* arguments, long count) {
    const Launcher* launcher = (const Launcher*)PyCapsule_GetPointer(self, 0);
    if (!launcher) return 0;
    const Start& start = launcher->start;
    const i64 first = start.pointers + start.numbers, total = first + start.integers;
    if (count != 1 + total) {
        PyErr_SetString(PyExc_TypeError, "a kernel was launched with another number of arguments than it takes");
        return 0;
    }
    i64* values = (i64*)__builtin_alloca(sizeof(i64) * (total + HIDDEN));
    void** slots = (void**)__builtin_alloca(sizeof(void*) * (total + HIDDEN));
    i64 bits = 0;
    for (i64 k = 0; k < total + HIDDEN; k++) {
        values[k] = k < total ? PyLong_AsLongLong(arguments[1 + k]) : 0;
        if (k < start.pointers) bits |= values[k];
        slots[k] = start.pointers <= k && k < first ? (void*)values[k] : values + k;
    }
    void* stream = PyLong_AsVoidPtr(arguments[0]);
    if (PyErr_Occurred()) return 0;
    int status = -1;
    if (bits % ALIGNMENT == 0) {
        void* state = PyEval_SaveThread();
        status = launched(start, stream, slots);
        if (status == NO_CONTEXT && start.enter(start.context) == 0) status = launched(start, stream, slots);
        PyEval_RestoreThread(state);
    }
    if (status) return PyObject_Vectorcall(launcher->otherwise, arguments, count, 0);
    Py_IncRef(&_Py_NoneStruct);
    return &_Py_NoneStruct;
}

static void forget(PyObject* capsule) {
    Launcher* launcher = (Launcher*)PyCapsule_GetPointer(capsule, 0);
    Py_DecRef(launcher->otherwise);
    free((void*)launcher->method.name);
    free(launcher);
}

// A new Python function; ``otherwise`` is called with the same arguments where it cannot do its work.
extern "C" PyObject* new_launcher(const char* name, const Start* start, PyObject* otherwise) {
    Launcher* launcher = (Launcher*)malloc(sizeof(Launcher));
    launcher->method = Method{strdup(name), call, FASTCALL, 0};
    launcher->start = *start;
    launcher->otherwise = otherwise;
    Py_IncRef(otherwise);
    PyObject* capsule = PyCapsule_New(launcher, 0, forget);
    PyObject* made = capsule ? PyCFunction_NewEx(&launcher->method, capsule, 0) : 0;
    if (capsule) Py_DecRef(capsule);
    return made;
}
