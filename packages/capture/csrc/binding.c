/* Where a tensor's Python object keeps its tensor, and the functions that torch exports to read one.

   They take an at::Tensor *, which is the address of one word inside the Python object; bind_tensors is told where. */
#include "binding.h"

#include <string.h>

Binding binding;

const char *const bit_names[BITS] = {"is_neg", "is_conj", "_is_zerotensor"};

bool
readable_in_c(PyTypeObject *type)
{
    if (binding.generation == 0) {
        return false;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(binding.types); i++) {
        if (PyTuple_GET_ITEM(binding.types, i) == (PyObject *)type) {
            return true;
        }
    }
    return false;
}

const Word *
tensor_binding(void)
{
    return &binding.generation;
}

/* Stores the address of one C function in a function pointer; false where there is none. */
static bool
take_address(PyObject *addresses, const char *name, void *function)
{
    PyObject *number = PyDict_GetItemString(addresses, name);
    void *address = number == NULL ? NULL : PyLong_AsVoidPtr(number);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

static bool
take_addresses(PyObject *addresses)
{
    return take_address(addresses, "aoti_torch_get_dtype", &binding.dtype)
        && take_address(addresses, "aoti_torch_get_device_type", &binding.device_type)
        && take_address(addresses, "aoti_torch_get_device_index", &binding.device_index)
        && take_address(addresses, "aoti_torch_get_layout", &binding.layout)
        && take_address(addresses, "aoti_torch_get_dim", &binding.dim)
        && take_address(addresses, "aoti_torch_get_sizes", &binding.sizes)
        && take_address(addresses, "aoti_torch_get_strides", &binding.strides);
}

/* What tells the memory of tensors; without it Python code does. */
static void
take_memory(PyObject *addresses)
{
    bool complete = take_address(addresses, "aoti_torch_get_data_ptr", &binding.data)
        && take_address(addresses, "aoti_torch_get_storage_offset", &binding.begin)
        && take_address(addresses, "aoti_torch_get_storage_size", &binding.room)
        && take_address(addresses, "aoti_torch_layout_strided", &binding.strided);
    if (!complete) {
        binding.data = NULL;
    }
}

/* The one getter that serves requires_grad of all the types; NULL where they differ or have none. */
static PyObject *
common_getter(PyObject *types)
{
    PyObject *common = NULL, *name = PyUnicode_InternFromString("requires_grad");
    for (Py_ssize_t i = 0; name != NULL && i < PyTuple_GET_SIZE(types); i++) {
        PyObject *getter = optional_attribute(PyTuple_GET_ITEM(types, i), name);
        bool fits = getter != NULL && Py_IS_TYPE(getter, &PyGetSetDescr_Type) && (common == NULL || common == getter);
        Py_XSETREF(common, fits ? Py_NewRef(getter) : NULL);
        Py_XDECREF(getter);
        if (!fits) {
            break;
        }
    }
    Py_XDECREF(name);
    PyErr_Clear();
    return common;
}

/* bind_tensors(offset | None, {name: address}, types) -> whether tensors are now read in C. */
PyObject *
bind_tensors(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 3 || !PyDict_Check(args[1]) || !(PyTuple_Check(args[2]) || PyType_Check(args[2]))) {
        PyErr_SetString(PyExc_TypeError, "bind_tensors(offset or None, {name: address}, type or tuple of types)");
        return NULL;
    }
    Py_ssize_t offset = args[0] == Py_None ? -1 : PyNumber_AsSsize_t(args[0], PyExc_OverflowError);
    PyObject *types = PyTuple_Check(args[2]) ? Py_NewRef(args[2]) : PyTuple_Pack(1, args[2]);
    if (types == NULL || PyErr_Occurred()) {
        Py_XDECREF(types);
        return NULL;
    }
    bool complete = take_addresses(args[1]) && offset >= 0;
    (void)take_address(args[1], "requires_grad", &binding.grad);
    for (int bit = 0; bit < BITS; bit++) {
        (void)take_address(args[1], bit_names[bit], &binding.bits[bit]);
    }
    take_memory(args[1]);
    binding.generation = complete ? ++binding.bindings : 0;
    binding.offset = offset;
    Py_XSETREF(binding.types, types);
    Py_XSETREF(binding.requires_grad, common_getter(types));
    return PyErr_Occurred() ? NULL : PyBool_FromLong(complete);
}
