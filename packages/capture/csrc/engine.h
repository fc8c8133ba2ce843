/* What the parts of the engine share: the objects they pass to each other and the few calls between them.

   Each .c file owns one subject:

     engine.c    the state of the process
     module.c    the Python module: names, start-up, decisions
     region.c    Region and Outside: which configuration is active on this thread, and while what runs
     rest.c      Rest: a call left to whoever entered the function, who is hook.c
     uninterrupted.c  Uninterrupted: a call after which no other thread runs
     refill.c    containers that get their contents, all at once
     hook.c      the frame evaluator: one Python frame comes in, its compiled form or the frame itself runs
     cache.c     what is known about a code object, kept in the code object's extra slot
     guarded.c   GuardedCode: transformed code and the guards it relies on
     guards.c    the guard tree: built from plain data
     walk.c      the walk over it, on every call
     chain.c     dependency chains: what a walk relied on, so that where nothing changed there is no need for another
     watch.c     the states of dicts where CPython keeps no numbers of them
     checks.c    the single checks a guard tree is made of
     accessors.c how one value is reached from another
     relations.c what has to hold between several values that a walk found
     memory.c    of these: tensors that share memory
     condition.c of these: arithmetic on sizes
     classes.c   of these: classes that behave as before
     binding.c   how tensors are read without Python
     equality.c  whether two constants are interchangeable
     tensors.c   the check of one tensor, read through torch's C interface or through attributes

   What differs between CPython versions is in frame_compat.h (frames) and object_compat.h (everything else). */
#ifndef CAPTURE_ENGINE_H
#define CAPTURE_ENGINE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

/* Another number whenever the Python modules would not get on with an engine of before: with every change of a name, of
   arguments, or of what specs may say.  capture/interface.py holds the one that they need. */
#define INTERFACE 8

/* One call of a Python function, as guards see it: the function and its argument slots (borrowed). */
typedef struct {
    PyObject *function;
    PyObject *const *args;
    Py_ssize_t count;
    PyObject **slots; /* what the walk keeps for relations; NULL: it keeps nothing */
} Call;

typedef struct Check Check;
typedef struct Node Node;
typedef struct Relation Relation;

typedef struct {
    PyObject_HEAD
    Node *root;
    Relation *relations;
    Py_ssize_t relation_count, slot_count;
    int walkers; /* walks under way; the tree may be reordered only by the last one */
    unsigned long long followed; /* chains that answered in the place of a walk */
} Guards;

typedef struct {
    PyObject_HEAD
    PyCodeObject *code; /* NULL: the original itself, with capture off */
    Guards *guards;
    PyObject *owner; /* a weak reference where the owner allows one */
    unsigned long long hits, review; /* at the hit of this number the translator is asked again; 0: never */
} GuardedCode;

typedef struct {
    PyObject_VAR_HEAD
    PyObject *items[1]; /* the function and its arguments; NULL once handed over */
} Rest;

/* Process-wide, because CPython allows one evaluator and because the types must be the same whenever the module is
   imported anew.  Only the main interpreter may load the module. */
typedef struct {
    PyInterpreterState *interp;
    PyTypeObject *region_type;
    PyTypeObject *outside_type;
    PyTypeObject *guards_type;
    PyTypeObject *guarded_code_type;
    PyTypeObject *decision_type;
    PyTypeObject *rest_type;
    PyTypeObject *uninterrupted_type;
    PyObject *skip_once;
    PyObject *skip_always;
    PyObject *translator;
    PyObject *peer_switch; /* exchanges what torch's own compiler is to do with this thread's frames */
    Py_ssize_t extra_index; /* of the slot of code objects that cache.c has */
    bool regions_off; /* regions call their functions as if they were not there: the stance "force_eager" */
    int threads_with_config;
    _PyFrameEvalFunction evaluator_before; /* the one that was there when ours was installed */
    unsigned long long frames, hits, misses, too_deep; /* counted by the hook */
} Engine;

extern Engine engine __attribute__((visibility("hidden"))); /* engine.c */

/* References that do not keep their target alive where its type allows that; not for weak references themselves. */
static inline PyObject *
hold_weakly(PyObject *object)                 /* a weak reference, or the object itself */
{
    return PyType_SUPPORTS_WEAKREFS(Py_TYPE(object)) ? PyWeakref_NewRef(object, NULL) : Py_NewRef(object);
}

static inline PyObject *
held(PyObject *reference)                     /* borrowed; None once the target is gone */
{
    return PyWeakref_CheckRefExact(reference) ? ((PyWeakReference *)reference)->wr_object : reference;
}

/* Parameters of every sort: positional, keyword-only, then *args and **kwargs. */
static inline int
argument_slots(PyCodeObject *code)
{
    return code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS)
        + !!(code->co_flags & CO_VARKEYWORDS);
}

/* region.c */
extern PyType_Spec region_spec, outside_spec;

/* rest.c */
extern PyType_Spec rest_spec;
PyObject *rest_new(PyObject *module, PyObject *const *items, Py_ssize_t count);

/* uninterrupted.c */
extern PyType_Spec uninterrupted_spec;
bool has_other_threads(void);                 /* whether another one of the interpreter's may run when this one waits */

/* refill.c */
PyObject *refill_mapping(PyObject *module, PyObject *args);
PyObject *refill_sequence(PyObject *module, PyObject *args);

/* hook.c */
PyObject *active_config(void);                /* borrowed; NULL when capture is off on this thread */
bool has_other_evaluator(void);              /* whether somebody else sees the frames that we do not run */
PyObject *switch_config(PyObject *config);    /* makes it active, returns the one it replaces; borrowed both */
void forget_other_threads(void);              /* after a fork: of all threads only this one is there */
PyObject *hook_counters(void);

/* This thread's trace and profile functions: only ever compared, never used, so nobody has to hold them. */
typedef struct {
    const void *trace, *profile;
} Observers;

Observers observers_now(void);
Observers switch_observers(Observers known);  /* who is known from now on; returns who was */

/* cache.c */
typedef struct CodeState CodeState;
typedef enum { UNKNOWN, SKIPPED, FOUND } Lookup;

int cache_start(void);
CodeState *cache_state(PyCodeObject *code);   /* NULL where nothing is known yet */
bool cache_runs_as_is(const CodeState *state);
bool cache_runs_outside(const CodeState *state);
Lookup cache_find(CodeState *state, PyObject *owner, const Call *call, GuardedCode **entry);
int cache_add(PyCodeObject *code, GuardedCode *entry);
int cache_skip(PyCodeObject *code, PyObject *owner);
int cache_run_as_is(PyCodeObject *code);
int cache_run_outside(PyCodeObject *code);
int cache_drop(PyCodeObject *code, PyObject *owner); /* NULL owner: of all owners */
PyObject *cache_entries(PyCodeObject *code);

/* guarded.c */
extern PyType_Spec guarded_code_spec;
bool guarded_code_is_owned_by(const GuardedCode *entry, PyObject *owner);

/* guards.c */
extern PyType_Spec guards_spec;

/* walk.c */
bool guards_pass(Guards *guards, const Call *call);

#endif
