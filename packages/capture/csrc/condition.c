/* Conditions on sizes, strides and whole numbers: small programs for a stack of 64-bit integers.

   Arithmetic is Python's: division rounds down, a remainder has the sign of its divisor.  What does not fit in 64 bits,
   or is divided by zero, is not told here. */
#include "binding.h"
#include "relations.h"

#include <string.h>

typedef enum { CONSTANT, NUMBER, SIZE, STRIDE, OFFSET, ADD, MULTIPLY, DIVIDE, REMAINDER, LEAST, GREATEST, EQUAL, UNEQUAL,
               LESS, LESS_OR_EQUAL, AND, OR, NOT } Opcode;

/* What an instruction takes from the stack; it puts one number on it. */
static const struct {
    const char *name;
    int takes;
} opcodes[] = {
    [CONSTANT] = {"constant", 0}, [NUMBER] = {"number", 0}, [SIZE] = {"size", 0}, [STRIDE] = {"stride", 0},
    [OFFSET] = {"offset", 0}, [ADD] = {"add", 2}, [MULTIPLY] = {"multiply", 2}, [DIVIDE] = {"divide", 2},
    [REMAINDER] = {"remainder", 2}, [LEAST] = {"least", 2}, [GREATEST] = {"greatest", 2}, [EQUAL] = {"equal", 2},
    [UNEQUAL] = {"unequal", 2}, [LESS] = {"less", 2}, [LESS_OR_EQUAL] = {"less or equal", 2}, [AND] = {"and", 2},
    [OR] = {"or", 2}, [NOT] = {"not", 1},
};

typedef struct {
    Opcode opcode;
    Py_ssize_t value; /* which of the values is read */
    int64_t operand;  /* the constant, or the dimension */
} Instruction;

#define DEEPEST 32

struct Condition {
    Py_ssize_t count;
    Instruction program[];
};

/* -- building ---------------------------------------------------------------------------------------------------- */

static int
parse_instruction(PyObject *spec, Py_ssize_t values, Instruction *instruction)
{
    PyObject *name;
    long long operand;
    if (!PyTuple_Check(spec)
        || !PyArg_ParseTuple(spec, "UnL;an instruction is a tuple (name, value, operand)", &name, &instruction->value,
                             &operand)) {
        if (!PyErr_Occurred()) {
            PyErr_Format(PyExc_TypeError, "an instruction is a tuple, not %R", spec);
        }
        return -1;
    }
    instruction->operand = operand;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(opcodes); i++) {
        if (PyUnicode_CompareWithASCIIString(name, opcodes[i].name) == 0) {
            instruction->opcode = (Opcode)i;
            bool reads = i >= NUMBER && i <= OFFSET;
            if (!reads || (instruction->value >= 0 && instruction->value < values && operand >= 0)) {
                return 0;
            }
        }
    }
    PyErr_Format(PyExc_ValueError, "instruction %R is unknown, or reads what is not there", spec);
    return -1;
}

/* A program must leave one number, and stay within the stack. */
static int
require_balance(const Condition *condition)
{
    int depth = 0;
    for (Py_ssize_t i = 0; i < condition->count; i++) {
        int takes = opcodes[condition->program[i].opcode].takes;
        depth = depth < takes ? -DEEPEST : depth - takes + 1;
        if (depth < 0 || depth > DEEPEST) {
            break;
        }
    }
    if (depth != 1) {
        PyErr_SetString(PyExc_ValueError, "the program of a condition takes more than there is, or leaves more than one");
    }
    return depth == 1 ? 0 : -1;
}

Condition *
condition_parse(PyObject *payload, Py_ssize_t count)
{
    if (!PyTuple_Check(payload)) {
        PyErr_Format(PyExc_TypeError, "the program of a condition is a tuple, not %R", payload);
        return NULL;
    }
    Py_ssize_t length = PyTuple_GET_SIZE(payload);
    Condition *condition = PyMem_Malloc(sizeof(Condition) + (size_t)length * sizeof(Instruction));
    if (condition == NULL) {
        return (Condition *)PyErr_NoMemory();
    }
    condition->count = length;
    for (Py_ssize_t i = 0; i < length; i++) {
        if (parse_instruction(PyTuple_GET_ITEM(payload, i), count, &condition->program[i]) < 0) {
            condition_free(condition);
            return NULL;
        }
    }
    if (require_balance(condition) < 0) {
        condition_free(condition);
        return NULL;
    }
    return condition;
}

void
condition_free(Condition *condition)
{
    PyMem_Free(condition);
}

/* -- deciding ---------------------------------------------------------------------------------------------------- */

static bool
read_number(PyObject *value, int64_t *found)
{
    int overflow = 1;
    if (PyLong_CheckExact(value)) {
        *found = PyLong_AsLongLongAndOverflow(value, &overflow);
    }
    return overflow == 0;
}

static bool
read_of_tensor(const Instruction *instruction, PyObject *value, int64_t *found)
{
    int64_t rank, *numbers;
    if (!readable_in_c(Py_TYPE(value))) {
        return false;
    }
    void *handle = handle_of(value);
    if (instruction->opcode == OFFSET) {
        return binding.data != NULL && binding.begin(handle, found) == 0;
    }
    if (binding.dim(handle, &rank) != 0 || instruction->operand >= rank
        || (instruction->opcode == SIZE ? binding.sizes : binding.strides)(handle, &numbers) != 0) {
        return false;
    }
    *found = numbers[instruction->operand];
    return true;
}

static bool
read_value(const Instruction *instruction, PyObject *value, int64_t *found)
{
    switch (instruction->opcode) {
    case CONSTANT:
        *found = instruction->operand;
        return true;
    case NUMBER:
        return read_number(value, found);
    default:
        return read_of_tensor(instruction, value, found);
    }
}

static int64_t
divide(int64_t left, int64_t right)
{
    int64_t quotient = left / right;
    return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

static bool
combine(Opcode opcode, int64_t left, int64_t right, int64_t *result)
{
    switch (opcode) {
    case ADD: return !__builtin_add_overflow(left, right, result);
    case MULTIPLY: return !__builtin_mul_overflow(left, right, result);
    case DIVIDE:
    case REMAINDER:
        if (right == 0 || (left == INT64_MIN && right == -1)) {
            return false;
        }
        *result = opcode == DIVIDE ? divide(left, right) : left - divide(left, right) * right;
        return true;
    case LEAST: *result = left < right ? left : right; return true;
    case GREATEST: *result = left > right ? left : right; return true;
    case EQUAL: *result = left == right; return true;
    case UNEQUAL: *result = left != right; return true;
    case LESS: *result = left < right; return true;
    case LESS_OR_EQUAL: *result = left <= right; return true;
    case AND: *result = left && right; return true;
    case OR: *result = left || right; return true;
    default: return false;
    }
}

int
condition_holds(const Condition *condition, PyObject *const *values, const Py_ssize_t *chosen)
{
    int64_t stack[DEEPEST + 1], *top = stack; /* the next free place */
    for (const Instruction *at = condition->program, *end = at + condition->count; at < end; at++) {
        int takes = opcodes[at->opcode].takes;
        if (takes == 2) {
            top--;
            if (!combine(at->opcode, top[-1], top[0], &top[-1])) {
                return -1;
            }
        }
        else if (takes == 1) {
            top[-1] = !top[-1];
        }
        else if (!read_value(at, at->opcode == CONSTANT ? NULL : values[chosen[at->value]], top++)) {
            return -1;
        }
    }
    return stack[0] != 0;
}
