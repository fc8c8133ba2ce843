/* What relates several values of a walk, and its larger kinds. */
#ifndef CAPTURE_RELATIONS_H
#define CAPTURE_RELATIONS_H

#include "guards.h"

/* relations.c */
Relation *relations_parse(PyObject *specs, Py_ssize_t slot_count, Py_ssize_t *count);
const Check *relations_first_failing(Relation *relations, Py_ssize_t count, const Call *call);
int relations_traverse(Relation *relations, Py_ssize_t count, visitproc visit, void *arg);
void relations_free(Relation *relations, Py_ssize_t count);

/* Of these two the answer is 1 or 0, or -1 where it cannot be told in C.  Neither runs any Python code. */

/* memory.c: which tensors lie in one another's memory, and where. */
typedef struct Memory Memory;
Memory *memory_parse(PyObject *payload, Py_ssize_t count);
int memory_is_as_before(Memory *memory, PyObject *const *values, const Py_ssize_t *chosen);
void memory_free(Memory *memory);

/* condition.c: arithmetic on sizes. */
typedef struct Condition Condition;
Condition *condition_parse(PyObject *payload, Py_ssize_t count);
int condition_holds(const Condition *condition, PyObject *const *values, const Py_ssize_t *chosen);
void condition_free(Condition *condition);

/* classes.c: a class that is what it was.  It relates nothing, but neither is it found on a path: whatever leads to the
   class is guarded as that class. */
typedef struct Class Class;
Class *class_parse(PyObject *payload);
bool class_is_as_before(Class *class);
int class_traverse(const Class *class, visitproc visit, void *arg);
void class_free(Class *class);

#endif
