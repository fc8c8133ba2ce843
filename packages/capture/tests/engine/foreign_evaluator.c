/* A frame evaluator of somebody else's, as a debugger or another compiler would put in: it counts the frames it sees
   and hands each to the evaluator that was there before. */
#define Py_BUILD_CORE 1
#include <Python.h>

static _PyFrameEvalFunction before;
static long seen;

static PyObject *
evaluate(PyThreadState *tstate, struct _PyInterpreterFrame *frame, int throwing)
{
    seen++;
    return before(tstate, frame, throwing);
}

static PyObject *
install(PyObject *module, PyObject *unused)
{
    before = _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), evaluate);
    Py_RETURN_NONE;
}

static PyObject *
uninstall(PyObject *module, PyObject *unused)
{
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), _PyEval_EvalFrameDefault);
    return PyLong_FromLong(seen);
}

static PyMethodDef methods[] = {
    {"install", install, METH_NOARGS, NULL},
    {"uninstall", uninstall, METH_NOARGS, NULL},
    {NULL},
};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "foreign_evaluator", .m_methods = methods};

PyMODINIT_FUNC
PyInit_foreign_evaluator(void)
{
    return PyModule_Create(&definition);
}
