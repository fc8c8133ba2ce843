/* The Python module capture._engine: its names, its start-up, and the two decisions a translator can return. */
#include "engine.h"

#include "binding.h"
#include "guards.h"

static PyObject *
decision_repr(PyObject *self)
{
    return PyUnicode_FromString(self == engine.skip_once ? "SKIP_ONCE" : "SKIP_ALWAYS");
}

static void
decision_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot decision_slots[] = {
    {Py_tp_repr, decision_repr},
    {Py_tp_dealloc, decision_dealloc},
    {Py_tp_doc, "What a translator returns instead of GuardedCode: SKIP_ONCE or SKIP_ALWAYS."},
    {0, NULL},
};

static PyType_Spec decision_spec = {
    .name = "capture._engine.Decision",
    .basicsize = sizeof(PyObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = decision_slots,
};

static PyObject *
set_translator(PyObject *module, PyObject *translator)
{
    if (translator != Py_None && !PyCallable_Check(translator)) {
        PyErr_Format(PyExc_TypeError, "a translator is callable or None, unlike %R", translator);
        return NULL;
    }
    Py_XSETREF(engine.translator, translator == Py_None ? NULL : Py_NewRef(translator));
    Py_RETURN_NONE;
}

static PyObject *
set_peer_switch(PyObject *module, PyObject *callable)
{
    Py_XSETREF(engine.peer_switch, Py_NewRef(callable));
    Py_RETURN_NONE;
}

static PyObject *
active_config_method(PyObject *module, PyObject *unused)
{
    PyObject *config = active_config();
    return Py_NewRef(config == NULL ? Py_None : config);
}

static PyObject *
forget_other_threads_method(PyObject *module, PyObject *unused)
{
    forget_other_threads();
    Py_RETURN_NONE;
}

static PyObject *
has_other_threads_method(PyObject *module, PyObject *unused)
{
    return PyBool_FromLong(has_other_threads());
}

static PyObject *
counters_method(PyObject *module, PyObject *unused)
{
    return hook_counters();
}

static PyCodeObject *
as_code(PyObject *object)
{
    if (!PyCode_Check(object)) {
        PyErr_Format(PyExc_TypeError, "expected a code object, not %R", object);
        return NULL;
    }
    return (PyCodeObject *)object;
}

static PyObject *
entries_method(PyObject *module, PyObject *object)
{
    PyCodeObject *code = as_code(object);
    return code == NULL ? NULL : cache_entries(code);
}

static PyObject *
run_outside_method(PyObject *module, PyObject *object)
{
    PyCodeObject *code = as_code(object);
    return code == NULL || cache_run_outside(code) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *
run_as_is_method(PyObject *module, PyObject *object)
{
    PyCodeObject *code = as_code(object);
    return code == NULL || cache_run_as_is(code) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *
add_entry_method(PyObject *module, PyObject *args)
{
    PyObject *code, *entry;
    if (!PyArg_ParseTuple(args, "O!O!:add_entry", &PyCode_Type, &code, engine.guarded_code_type, &entry)
        || cache_add((PyCodeObject *)code, (GuardedCode *)entry) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
drop_entries_method(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"code", "owner", NULL};
    PyObject *code, *owner = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|O:drop_entries", names, &PyCode_Type, &code, &owner)
        || cache_drop((PyCodeObject *)code, owner == Py_None ? NULL : owner) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
switch_regions_method(PyObject *module, PyObject *on)
{
    int truth = PyObject_IsTrue(on);
    if (truth < 0) {
        return NULL;
    }
    engine.regions_off = !truth;
    Py_RETURN_NONE;
}

static PyObject *
are_interchangeable(PyObject *module, PyObject *args)
{
    PyObject *value, *constant;
    if (!PyArg_ParseTuple(args, "OO:are_interchangeable", &value, &constant)) {
        return NULL;
    }
    bool same = interchangeable(value, constant);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(same);
}

static PyMethodDef methods[] = {
    {"are_interchangeable", are_interchangeable, METH_VARARGS,
     "are_interchangeable(value, constant, /)\n--\n\n"
     "Whether one may stand for the other in code that was specialised on it: a guard's EQUALS."},
    {"set_peer_switch", set_peer_switch, METH_O,
     "set_peer_switch(callable, /)\n--\n\nWhat exchanges the callback of another compiler, called with None around regions."},
    {"set_translator", set_translator, METH_O,
     "set_translator(translator, /)\n--\n\nWho is asked, as translator(config, function, args), about new calls."},
    {"active_config", active_config_method, METH_NOARGS,
     "active_config()\n--\n\nThe configuration capture runs under on this thread, or None."},
    {"switch_regions", switch_regions_method, METH_O,
     "switch_regions(on, /)\n--\n\nWhether regions turn capture on; in every thread, from their next call."},
    {"forget_other_threads", forget_other_threads_method, METH_NOARGS,
     "forget_other_threads()\n--\n\nAfter a fork: of all threads only this one is there."},
    {"has_other_threads", has_other_threads_method, METH_NOARGS,
     "has_other_threads()\n--\n\nWhether another thread may run Python when this one waits."},
    {"refill_mapping", refill_mapping, METH_VARARGS,
     "refill_mapping(object, base, contents, /)\n--\n\n"
     "Makes the dict's contents all that an object holds, by the methods of its builtin class."},
    {"refill_sequence", refill_sequence, METH_VARARGS,
     "refill_sequence(object, base, contents, moved=False, /)\n--\n\n"
     "Makes the list's contents all that a list, deque or set holds, by the methods of its builtin class."},
    {"counters", counters_method, METH_NOARGS,
     "counters()\n--\n\nSo far: frames seen, hits, misses, and frames nested too deep for capture."},
    {"entries", entries_method, METH_O, "entries(code, /)\n--\n\nEvery GuardedCode kept for a code object."},
    {"add_entry", add_entry_method, METH_VARARGS,
     "add_entry(code, entry, /)\n--\n\nKeeps a GuardedCode, to be tried first, for its owner."},
    {"drop_entries", (PyCFunction)(void (*)(void))drop_entries_method, METH_VARARGS | METH_KEYWORDS,
     "drop_entries(code, owner=None)\n--\n\n"
     "Forgets what is kept for a code object: of one owner and of the dead, or of all."},
    {"run_outside", run_outside_method, METH_O,
     "run_outside(code, /)\n--\n\nRuns this code object, and what it calls, with capture off."},
    {"run_as_is", run_as_is_method, METH_O,
     "run_as_is(code, /)\n--\n\nNever looks at this code object; what it calls is looked at."},
    {"rest", (PyCFunction)(void (*)(void))rest_new, METH_FASTCALL,
     "rest(function, /, *args)\n--\n\nA call that is left to the engine, which does it once the frame is gone."},
    {"bind_tensors", (PyCFunction)(void (*)(void))bind_tensors, METH_FASTCALL,
     "bind_tensors(offset, addresses, types, /)\n--\n\nHow tensors of these types are read; see docs/engine.md."},
    {NULL},
};

static PyTypeObject *
make_type(PyType_Spec *spec)
{
    return (PyTypeObject *)PyType_FromSpec(spec);
}

static int
start(void)
{
    if ((engine.region_type = make_type(&region_spec)) == NULL
        || (engine.outside_type = make_type(&outside_spec)) == NULL
        || (engine.guards_type = make_type(&guards_spec)) == NULL
        || (engine.guarded_code_type = make_type(&guarded_code_spec)) == NULL
        || (engine.decision_type = make_type(&decision_spec)) == NULL
        || (engine.rest_type = make_type(&rest_spec)) == NULL
        || (engine.uninterrupted_type = make_type(&uninterrupted_spec)) == NULL
        || (engine.skip_once = PyType_GenericAlloc(engine.decision_type, 0)) == NULL
        || (engine.skip_always = PyType_GenericAlloc(engine.decision_type, 0)) == NULL || cache_start() < 0) {
        return -1;
    }
    engine.interp = PyInterpreterState_Get();
    return 0;
}

static int
module_exec(PyObject *module)
{
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError, "capture._engine can be loaded by the main interpreter only");
        return -1;
    }
    if (engine.interp == NULL && start() < 0) {
        return -1;
    }
    if (PyModule_AddType(module, engine.region_type) < 0 || PyModule_AddType(module, engine.outside_type) < 0
        || PyModule_AddType(module, engine.guards_type) < 0 || PyModule_AddType(module, engine.guarded_code_type) < 0
        || PyModule_AddType(module, engine.uninterrupted_type) < 0
        || PyModule_AddType(module, engine.decision_type) < 0
        || PyModule_AddObjectRef(module, "SKIP_ONCE", engine.skip_once) < 0
        || PyModule_AddObjectRef(module, "SKIP_ALWAYS", engine.skip_always) < 0
        || PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0) {
        return -1;
    }
    return 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
#if PY_VERSION_HEX >= 0x030c0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "capture._engine",
    .m_doc = "The part of capture that CPython must be told in C: frames, guards and the state of code objects.",
    .m_methods = methods,
    .m_slots = module_slots,
};

PyMODINIT_FUNC
PyInit__engine(void)
{
    return PyModuleDef_Init(&definition);
}
