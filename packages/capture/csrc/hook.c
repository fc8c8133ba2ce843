/* The frame evaluator (PEP 523): a Python frame comes in, and either runs as it is or becomes transformed code.

   It is installed only while some thread has an active configuration, because an installed evaluator makes every
   call of a Python function slower.  Whatever evaluator was there before keeps seeing every frame. */
#include "engine.h"

#include "frame_compat.h"

/* An evaluator makes nested Python calls nest on the C stack too, which CPython would not do.  Beyond this many, what
   is deeper runs with capture off, so that recursion ends where it would without us. */
#define DEEPEST 400

typedef struct {
    PyObject *config; /* borrowed from the Region that is running; NULL: capture is off */
    int depth;        /* nested frames that the evaluator runs on this thread */
    Frame *passed_on; /* the frame just given to somebody else's evaluator */
    Observers known;  /* who looked on when the Region was entered */
} ThreadState;

static _Thread_local ThreadState here;

/* Arguments of a call under way that its frame is to own alone: see rest.c. */
static _Thread_local struct {
    PyObject *function;
    PyObject **args;
    Py_ssize_t count;
} handed;

static PyObject *evaluate(PyThreadState *tstate, Frame *frame, int throwing);

Observers
observers_now(void)
{
    PyThreadState *tstate = PyThreadState_Get();
    return (Observers){tstate->c_traceobj, tstate->c_profileobj};
}

Observers
switch_observers(Observers known)
{
    Observers previous = here.known;
    here.known = known;
    return previous;
}

/* Whether the program itself had somebody look on since: a trace function that it set must see what it asked for. */
static bool
is_observed_anew(const PyThreadState *tstate)
{
    return (tstate->c_traceobj != NULL && tstate->c_traceobj != here.known.trace)
        || (tstate->c_profileobj != NULL && tstate->c_profileobj != here.known.profile);
}

PyObject *
active_config(void)
{
    return here.config;
}

/* The next frame of this function takes these references over; NULL: none does any more. */
static void
hand_over(PyObject *function, PyObject **args, Py_ssize_t count)
{
    handed.function = function;
    handed.args = args;
    handed.count = count;
}

/* Whether this is the frame of a rest that is being done.  It holds references of its own, so nothing ends here. */
static bool
take_over(Frame *frame)
{
    if (handed.function == NULL || frame_function(frame) != handed.function) {
        return false;
    }
    for (Py_ssize_t i = 0; i < handed.count; i++) {
        Py_CLEAR(handed.args[i]);
    }
    handed.function = NULL;
    return true;
}

static void
install(void)
{
    _PyFrameEvalFunction current = _PyInterpreterState_GetEvalFrameFunc(engine.interp);
    if (current != evaluate) {
        engine.evaluator_before = current;
        _PyInterpreterState_SetEvalFrameFunc(engine.interp, evaluate);
    }
}

bool
has_other_evaluator(void)
{
    _PyFrameEvalFunction current = _PyInterpreterState_GetEvalFrameFunc(engine.interp);
    return (current == evaluate ? engine.evaluator_before : current) != _PyEval_EvalFrameDefault;
}

static void
uninstall(void)
{
    /* Somebody else's evaluator on top of ours stays.  Should it go on calling ours, ours just passes frames on. */
    if (_PyInterpreterState_GetEvalFrameFunc(engine.interp) == evaluate) {
        _PyInterpreterState_SetEvalFrameFunc(engine.interp, engine.evaluator_before);
    }
}

PyObject *
switch_config(PyObject *config)
{
    PyObject *previous = here.config;
    here.config = config;
    if (previous == NULL && config != NULL) {
        if (engine.threads_with_config++ == 0) {
            install();
        }
    }
    else if (previous != NULL && config == NULL) {
        if (--engine.threads_with_config == 0) {
            uninstall();
        }
    }
    return previous;
}

void
forget_other_threads(void)
{
    engine.threads_with_config = here.config != NULL;
    if (engine.threads_with_config == 0) {
        uninstall();
    }
}

/* Hands a frame to the evaluator before ours.  That may be one that was put on top of ours once and still hands its
   frames to us; then evaluate() sees this frame again and ends the circle. */
static PyObject *
pass_on(PyThreadState *tstate, Frame *frame, int throwing)
{
    if (engine.evaluator_before == _PyEval_EvalFrameDefault) {
        return _PyEval_EvalFrameDefault(tstate, frame, throwing);
    }
    here.passed_on = frame;
    PyObject *result = engine.evaluator_before(tstate, frame, throwing);
    here.passed_on = NULL;
    return result;
}

/* Runs a frame, plain or transformed, while capture stays on for what it calls. */
static PyObject *
run(PyThreadState *tstate, Frame *frame, int throwing)
{
    PyObject *result;
    if (here.depth < DEEPEST) {
        here.depth++;
        result = pass_on(tstate, frame, throwing);
        here.depth--;
    }
    else {
        engine.too_deep++;
        PyObject *previous = switch_config(NULL);
        result = pass_on(tstate, frame, throwing);
        switch_config(previous);
    }
    return result;
}

/* Runs a frame with capture off, for what it calls too. */
static PyObject *
run_outside(PyThreadState *tstate, Frame *frame)
{
    PyObject *previous = switch_config(NULL);
    PyObject *result = pass_on(tstate, frame, 0);
    switch_config(previous);
    return result;
}

/* Runs a frame that was not captured, as is or with capture off. */
static PyObject *
run_plain(PyThreadState *tstate, Frame *frame, PyCodeObject *code)
{
    CodeState *state = cache_state(code);
    return state != NULL && cache_runs_outside(state) ? run_outside(tstate, frame) : run(tstate, frame, 0);
}

/* Calls transformed code as a function, for a frame that could not become it. */
static PyObject *
call_instead(PyThreadState *tstate, Frame *frame, PyCodeObject *code, const Call *call)
{
    PyFunctionObject *original = (PyFunctionObject *)call->function;
    PyObject *result = NULL;
    PyObject *function = PyFunction_NewWithQualName((PyObject *)code, original->func_globals, original->func_qualname);
    if (function != NULL) {
        ((PyFunctionObject *)function)->func_closure = Py_XNewRef(original->func_closure);
        Py_SETREF(((PyFunctionObject *)function)->func_builtins, Py_NewRef(original->func_builtins));
        result = PyObject_Vectorcall(function, call->args, (size_t)call->count, NULL);
        Py_DECREF(function);
    }
    frame_discard(tstate, frame);
    return result;
}

/* Runs other code in the frame's place.  Consumes the code. */
static PyObject *
run_code(PyThreadState *tstate, Frame *frame, PyCodeObject *code, const Call *call)
{
    PyObject *result =
        frame_become(tstate, frame, code) ? run(tstate, frame, 0) : call_instead(tstate, frame, code, call);
    Py_DECREF(code);
    return result;
}

/* Consumes the entry. */
static PyObject *
run_entry(PyThreadState *tstate, Frame *frame, GuardedCode *entry, const Call *call)
{
    PyCodeObject *code = (PyCodeObject *)Py_XNewRef(entry->code);
    Py_DECREF(entry);
    return code == NULL ? run_outside(tstate, frame) : run_code(tstate, frame, code, call);
}

/* What the translator says about a call that no entry fits: GuardedCode, a decision, or code for this call alone. */
static PyObject *
translate(PyObject *config, const Call *call)
{
    PyObject *args = PyTuple_New(call->count);
    if (args == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < call->count; i++) {
        PyTuple_SET_ITEM(args, i, Py_NewRef(call->args[i]));
    }
    PyObject *translator = Py_NewRef(engine.translator);
    PyObject *previous = switch_config(NULL);
    PyObject *verdict = PyObject_CallFunctionObjArgs(translator, config, call->function, args, NULL);
    switch_config(previous);
    Py_DECREF(translator);
    Py_DECREF(args);
    return verdict;
}

/* Puts the translator's verdict on record. */
static int
remember(PyCodeObject *code, PyObject *config, PyObject *verdict)
{
    if (verdict == engine.skip_once) {
        return 0;
    }
    if (verdict == engine.skip_always) {
        return cache_skip(code, config);
    }
    if (!Py_IS_TYPE(verdict, engine.guarded_code_type)) {
        PyErr_Format(PyExc_TypeError, "the translator must return GuardedCode, code, SKIP_ONCE or SKIP_ALWAYS, not %R",
                     verdict);
        return -1;
    }
    if (!guarded_code_is_owned_by((GuardedCode *)verdict, config)) {
        PyErr_SetString(PyExc_ValueError, "the translator returned GuardedCode of another owner than the active one");
        return -1;
    }
    return cache_add(code, (GuardedCode *)verdict);
}

static PyObject *
miss(PyThreadState *tstate, Frame *frame, PyObject *config, const Call *call)
{
    PyObject *verdict = translate(config, call);
    if (verdict == NULL && PyErr_ExceptionMatches(PyExc_RecursionError)) {
        PyErr_Clear(); /* no room for the translator: whether there is some for the frame, CPython finds out */
        return run_plain(tstate, frame, frame_code(frame));
    }
    if (verdict != NULL && PyCode_Check(verdict)) {
        return run_code(tstate, frame, (PyCodeObject *)verdict, call); /* for this call alone */
    }
    if (verdict == NULL || remember(frame_code(frame), config, verdict) < 0) {
        Py_XDECREF(verdict);
        frame_discard(tstate, frame);
        return NULL;
    }
    if (Py_IS_TYPE(verdict, engine.guarded_code_type)) {
        /* Made for this very call: its guards hold. */
        return run_entry(tstate, frame, (GuardedCode *)verdict, call);
    }
    Py_DECREF(verdict);
    return run_plain(tstate, frame, frame_code(frame)); /* the translator may have said how */
}

/* A call of an ordinary function: generators resume too often and classes and modules run once. */
static bool
is_candidate(const Frame *frame, const PyCodeObject *code)
{
    int kinds = CO_OPTIMIZED | CO_NEWLOCALS | CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
    return (code->co_flags & kinds) == (CO_OPTIMIZED | CO_NEWLOCALS) && frame_is_call(frame);
}

/* What the guards of the entries say; what they run is none of the user's code, so capture is off meanwhile. */
static Lookup
look_up(CodeState *state, PyObject *config, const Call *call, GuardedCode **entry)
{
    here.config = NULL;
    Lookup lookup = cache_find(state, config, call, entry);
    here.config = config;
    return lookup;
}

static PyObject *
run_candidate(PyThreadState *tstate, Frame *frame, PyObject *config, PyCodeObject *code)
{
    CodeState *state = cache_state(code);
    if (state != NULL && (cache_runs_as_is(state) || cache_runs_outside(state))) {
        return run_plain(tstate, frame, code);
    }
    engine.frames++;
    Call call = {frame_function(frame), frame_arguments(frame), argument_slots(code)};
    GuardedCode *entry = NULL;
    Lookup lookup = state == NULL ? UNKNOWN : look_up(state, config, &call, &entry);
    if (lookup == FOUND) {
        engine.hits++;
        return run_entry(tstate, frame, entry, &call);
    }
    if (lookup == SKIPPED || engine.translator == NULL) {
        return run(tstate, frame, 0);
    }
    engine.misses++;
    return miss(tstate, frame, config, &call);
}

/* Does what is left to do, until there is a result.  Consumes what is given, which may be NULL. */
static PyObject *
finish(PyObject *result)
{
    while (result != NULL && Py_IS_TYPE(result, engine.rest_type)) {
        Rest *rest = (Rest *)result;
        if (rest->items[0] == NULL) {
            PyErr_SetString(PyExc_RuntimeError, "this rest was done already");
            Py_DECREF(rest);
            return NULL;
        }
        PyObject *function = rest->items[0];
        Py_ssize_t count = Py_SIZE(rest) - 1;
        rest->items[0] = NULL;
        hand_over(function, rest->items + 1, count);
        result = PyObject_Vectorcall(function, rest->items + 1, (size_t)count, NULL);
        hand_over(NULL, NULL, 0);
        Py_DECREF(function);
        Py_DECREF(rest);
    }
    return result;
}

static PyObject *
evaluate(PyThreadState *tstate, Frame *frame, int throwing)
{
    if (here.passed_on == frame) {
        here.passed_on = NULL;
        return _PyEval_EvalFrameDefault(tstate, frame, throwing);
    }
    bool is_rest = take_over(frame);
    PyObject *config = here.config;
    if (config == NULL || tstate->tracing) { /* tracing: this is a trace function's own frame */
        return pass_on(tstate, frame, throwing);
    }
    PyCodeObject *code = frame_code(frame);
    if (throwing || here.depth >= DEEPEST || !is_candidate(frame, code) || is_observed_anew(tstate)) {
        return run(tstate, frame, throwing);
    }
    PyObject *result = run_candidate(tstate, frame, config, code);
    /* What is left is done when the frame is off the stack: the program sees its caller below what is left of it. */
    return is_rest ? result : finish(result);
}

PyObject *
hook_counters(void)
{
    return Py_BuildValue("{s:K, s:K, s:K, s:K}", "frames", engine.frames, "hits", engine.hits, "misses",
                         engine.misses, "too deep", engine.too_deep);
}
