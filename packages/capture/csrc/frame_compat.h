/* Everything about interpreter frames that differs between CPython versions, and nothing else.

   Frames live on a per-thread data stack.  When an evaluator is called, the frame it is given is the topmost one
   there, holds the arguments in its first slots and has not started: nobody else can see it yet.  The engine runs
   transformed code by giving that very frame another code object.  It is then evaluated, cleared and popped by
   CPython as any frame is.  Only where that frame cannot grow does the engine have to give one up by itself. */
#ifndef CAPTURE_FRAME_COMPAT_H
#define CAPTURE_FRAME_COMPAT_H

#include <Python.h>
#include <stdbool.h>

#if PY_VERSION_HEX < 0x030b0000 || PY_VERSION_HEX >= 0x030e0000
#error "the engine knows the frames of CPython 3.11, 3.12 and 3.13: extend frame_compat.h for this version"
#endif

#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE

typedef struct _PyInterpreterFrame Frame;

static inline PyCodeObject *
frame_code(const Frame *frame)
{
#if PY_VERSION_HEX >= 0x030d0000
    return (PyCodeObject *)frame->f_executable;
#else
    return frame->f_code;
#endif
}

static inline PyObject *
frame_function(const Frame *frame)
{
#if PY_VERSION_HEX >= 0x030c0000
    return frame->f_funcobj;
#else
    return (PyObject *)frame->f_func;
#endif
}

/* The argument slots, in co_varnames order, of a frame that has not started. */
static inline PyObject *const *
frame_arguments(const Frame *frame)
{
    return frame->localsplus;
}

/* A frame of an ordinary function call: not a generator's own frame, nor one the interpreter uses internally. */
static inline bool
frame_is_call(const Frame *frame)
{
    return frame->owner == FRAME_OWNED_BY_THREAD && frame->f_locals == NULL && PyFunction_Check(frame_function(frame));
}

/* Words a frame of this code takes on the data stack. */
static inline Py_ssize_t
frame_words(const PyCodeObject *code)
{
#if PY_VERSION_HEX >= 0x030c0000
    return code->co_framesize;
#else
    return code->co_nlocalsplus + code->co_stacksize + (Py_ssize_t)FRAME_SPECIALS_SIZE;
#endif
}

static inline void
frame_set_code(Frame *frame, PyCodeObject *code)
{
    Py_INCREF(code);
#if PY_VERSION_HEX >= 0x030d0000
    frame->f_executable = (PyObject *)code;
    frame->instr_ptr = _PyCode_CODE(code);
#else
    frame->f_code = code;
    frame->prev_instr = _PyCode_CODE(code) - 1; /* the instruction before the next one */
#endif
    frame->stacktop = code->co_nlocalsplus;
}

/* Lets the topmost, not yet started frame run other code, whose parameters are this frame's argument slots in order.
   False where the data stack has no room for it: nothing was changed then. */
static inline bool
frame_become(PyThreadState *tstate, Frame *frame, PyCodeObject *code)
{
    PyCodeObject *old = frame_code(frame);
    PyObject **base = (PyObject **)frame;
    Py_ssize_t words = frame_words(code);
    if (base + frame_words(old) != tstate->datastack_top || words >= tstate->datastack_limit - base) {
        return false;
    }
    for (int i = old->co_nlocalsplus; i < code->co_nlocalsplus; i++) {
        frame->localsplus[i] = NULL; /* slots that the old code had beyond its arguments are empty already */
    }
    tstate->datastack_top = base + words;
    frame_set_code(frame, code);
    Py_DECREF(old);
    return true;
}

/* Gives up a frame that was never started.  Up to 3.11 the caller of the evaluator does it; from 3.12 on the
   evaluator must, and CPython exports nothing to do it with. */
static inline void
frame_discard(PyThreadState *tstate, Frame *frame)
{
#if PY_VERSION_HEX >= 0x030c0000
    PyCodeObject *code = frame_code(frame);
    for (int i = 0; i < code->co_nlocalsplus; i++) {
        Py_CLEAR(frame->localsplus[i]);
    }
    Py_CLEAR(frame->f_funcobj);
    Py_DECREF(code);
    _PyStackChunk *chunk = tstate->datastack_chunk;
    if ((PyObject **)frame != &chunk->data[0]) {
        tstate->datastack_top = (PyObject **)frame;
        return;
    }
    /* The frame had opened a new chunk of the data stack, which goes with it. */
    _PyStackChunk *previous = chunk->previous;
    tstate->datastack_chunk = previous;
    tstate->datastack_top = &previous->data[previous->top];
    tstate->datastack_limit = (PyObject **)((char *)previous + previous->size);
    PyObjectArenaAllocator arena;
    PyObject_GetArenaAllocator(&arena);
    arena.free(arena.ctx, chunk, chunk->size);
#else
    (void)tstate;
    (void)frame;
#endif
}

#endif
