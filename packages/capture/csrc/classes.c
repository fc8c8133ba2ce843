/* Classes that are what they were: for the names that code relied on, each class of the order in which members are
   looked up holds the same function or descriptor as before, or still none.

   CPython gives a class a number, which it takes away from it and from what derives from it with any change.  While
   the number is there nothing has to be looked at.  When it is not, the members are, and where all are as before the
   class gets a number again: a counter among the members of a class changes nothing that is relied on here.  CPython
   has numbers for so many changes only; then the members are looked at every time.

   Names that Python itself looks up (`__len__`) are relied on whatever is there.  Of other names only functions and
   descriptors count: any other member is guarded where it is read.

   Nothing here keeps a class or a member alive, or else a class whose method was compiled would live forever. */
#include "relations.h"

/* One member, as it was. */
typedef struct {
    PyObject *name;
    PyTypeObject *type;  /* only compared */
    PyObject *parts[3];  /* what tells it from others (take_apart): weak references where they can be had */
    int count;
} Member;

typedef struct {
    PyTypeObject *type;  /* only compared */
    PyObject *alive;     /* a weak reference; NULL: there for good */
    bool watched;        /* of the others the members are not looked at */
    Member *members;     /* those that it has, in the order of the names */
    Py_ssize_t count;
} Owner;

struct Class {
    PyObject *alive; /* a weak reference */
    PyTypeObject *metaclass; /* only compared */
    unsigned int number; /* 0: none */
    PyObject *names[2]; /* tuples */
    Owner *owners; /* in the order of lookup, itself first */
    Py_ssize_t count;
};

/* -- a member ---------------------------------------------------------------------------------------------------- */

/* Whether a member by this name means more than itself. */
static bool
is_relied_on(PyObject *name, PyObject *member)
{
    Py_ssize_t length = PyUnicode_GET_LENGTH(name);
    bool special = length > 4 && PyUnicode_READ_CHAR(name, 0) == '_' && PyUnicode_READ_CHAR(name, 1) == '_'
        && PyUnicode_READ_CHAR(name, length - 1) == '_' && PyUnicode_READ_CHAR(name, length - 2) == '_';
    return special || Py_TYPE(member)->tp_descr_get != NULL || Py_TYPE(member)->tp_descr_set != NULL;
}

static PyObject *
part(PyObject *member, const char *name)
{
    PyObject *found = PyObject_GetAttrString(member, name); /* of a builtin type: runs no code of the program */
    if (found == NULL) {
        PyErr_Clear();
        found = Py_NewRef(Py_None);
    }
    return found;
}

/* New references to what tells a member from others: what lies in those that allow no weak reference themselves. */
static int
take_apart(PyObject *member, PyObject **parts)
{
    if (Py_IS_TYPE(member, &PyProperty_Type)) {
        parts[0] = part(member, "fget");
        parts[1] = part(member, "fset");
        parts[2] = part(member, "fdel");
        return 3;
    }
    if (Py_IS_TYPE(member, &PyClassMethod_Type) || Py_IS_TYPE(member, &PyStaticMethod_Type)) {
        parts[0] = part(member, "__func__");
        return 1;
    }
    if (Py_IS_TYPE(member, &PyMemberDescr_Type) || Py_IS_TYPE(member, &PyGetSetDescr_Type)) {
        parts[0] = Py_NewRef((PyObject *)PyDescr_TYPE(member));
        parts[1] = Py_NewRef(PyDescr_NAME(member));
        return 2;
    }
    parts[0] = Py_NewRef(member);
    return 1;
}

static bool
is_part(PyObject *before, PyObject *part)
{
    return held(before) == part && (part != Py_None || before == Py_None); /* None is what is gone, too */
}

static bool
is_as_before(const Member *before, PyObject *member)
{
    if (Py_TYPE(member) != before->type) {
        return false;
    }
    PyObject *parts[3];
    int count = take_apart(member, parts);
    bool same = count == before->count;
    for (int i = 0; i < count; i++) {
        same = same && is_part(before->parts[i], parts[i]);
        Py_DECREF(parts[i]);
    }
    return same;
}

static void
forget_member(Member *member)
{
    Py_XDECREF(member->name);
    for (int i = 0; i < member->count; i++) {
        Py_XDECREF(member->parts[i]);
    }
}

static int
note_member(Member *note, PyObject *name, PyObject *member)
{
    *note = (Member){.name = Py_NewRef(name), .type = Py_TYPE(member)};
    note->count = take_apart(member, note->parts);
    int status = 0;
    for (int i = 0; i < note->count; i++) {
        PyObject *whole = note->parts[i];
        note->parts[i] = hold_weakly(whole);
        Py_DECREF(whole);
        status = note->parts[i] == NULL ? -1 : status;
    }
    return status;
}

/* -- a class of the order ---------------------------------------------------------------------------------------- */

/* The member that is relied on; a new reference, or NULL, maybe with an error set. */
static PyObject *
relied_on(PyTypeObject *type, PyObject *name)
{
    PyObject *member = PyDict_GetItemWithError(type->tp_dict, name);
    return member != NULL && is_relied_on(name, member) ? Py_NewRef(member) : NULL;
}

/* Whether of some names it has the members that come next among those that it had. */
static bool
has_next(const Owner *owner, PyObject *names, const Member **next)
{
    const Member *end = owner->members + owner->count;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i), *member = relied_on(owner->type, name);
        if (member == NULL) {
            if (PyErr_Occurred()) {
                return false;
            }
            continue; /* if it had one, that is next and stays so */
        }
        bool same = *next < end && (*next)->name == name && is_as_before(*next, member);
        Py_DECREF(member);
        if (!same) {
            return false;
        }
        ++*next;
    }
    return true;
}

static bool
owner_is_as_before(const Class *class, const Owner *owner)
{
    const Member *next = owner->members;
    return !owner->watched
        || (has_next(owner, class->names[0], &next) && has_next(owner, class->names[1], &next)
            && next == owner->members + owner->count);
}

static int
note_members(Owner *owner, PyObject *names)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i), *member = relied_on(owner->type, name);
        if (member == NULL) {
            if (PyErr_Occurred()) {
                return -1;
            }
            continue;
        }
        Member *more = PyMem_Realloc(owner->members, ((size_t)owner->count + 1) * sizeof(Member));
        int status = more == NULL ? -1 : note_member(&more[owner->count], name, member);
        Py_DECREF(member);
        if (more != NULL) {
            owner->members = more;
            owner->count++;
        }
        if (status < 0) {
            return -1;
        }
    }
    return 0;
}

/* -- a class ----------------------------------------------------------------------------------------------------- */

static bool
has_the_same_order(const Class *class, PyTypeObject *type)
{
    PyObject *order = type->tp_mro;
    if (order == NULL || PyTuple_GET_SIZE(order) != class->count) {
        return false;
    }
    for (Py_ssize_t i = 0; i < class->count; i++) {
        const Owner *owner = &class->owners[i];
        PyObject *now = PyTuple_GET_ITEM(order, i);
        if (now != (PyObject *)owner->type || (owner->alive != NULL && held(owner->alive) != now)) {
            return false;
        }
    }
    return true;
}

static bool
looks_as_before(const Class *class, PyTypeObject *type)
{
    bool same = has_the_same_order(class, type);
    for (Py_ssize_t i = 0; same && i < class->count; i++) {
        same = owner_is_as_before(class, &class->owners[i]);
    }
    return same;
}

bool
class_is_as_before(Class *class)
{
    PyTypeObject *type = (PyTypeObject *)held(class->alive);
    if ((PyObject *)type == Py_None || Py_TYPE(type) != class->metaclass) {
        return false;
    }
    if (class->number != 0 && class_number(type) == class->number) {
        return true;
    }
    Py_INCREF(type);
    unsigned int number = number_class(type); /* before the look: whatever changes meanwhile takes it away again */
    bool same = looks_as_before(class, type);
    class->number = same ? number : 0;
    Py_DECREF(type);
    return same;
}

/* Whether a class is among others; they may compare by code. */
static bool
is_among(PyObject *classes, PyTypeObject *type)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes); i++) {
        if (PyTuple_GET_ITEM(classes, i) == (PyObject *)type) {
            return true;
        }
    }
    return false;
}

static int
note_owner(Owner *owner, PyTypeObject *type, PyObject *watched, Class *class)
{
    bool heap = PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE);
    *owner = (Owner){.type = type, .watched = heap && is_among(watched, type)};
    if (heap && (owner->alive = PyWeakref_NewRef((PyObject *)type, NULL)) == NULL) {
        return -1;
    }
    return !owner->watched ? 0 : note_members(owner, class->names[0]) < 0 ? -1 : note_members(owner, class->names[1]);
}

static int
note_class(Class *class, PyTypeObject *type, PyObject *watched)
{
    PyObject *order = type->tp_mro;
    class->metaclass = Py_TYPE(type);
    class->alive = PyWeakref_NewRef((PyObject *)type, NULL);
    class->owners = PyMem_Calloc((size_t)PyTuple_GET_SIZE(order), sizeof(Owner));
    if (class->alive == NULL || class->owners == NULL) {
        return -1;
    }
    class->number = number_class(type);
    while (class->count < PyTuple_GET_SIZE(order)) {
        PyTypeObject *base = (PyTypeObject *)PyTuple_GET_ITEM(order, class->count);
        if (note_owner(&class->owners[class->count++], base, watched, class) < 0) {
            return -1;
        }
    }
    return 0;
}

Class *
class_parse(PyObject *payload)
{
    PyObject *type, *watched, *special, *others;
    if (!PyTuple_Check(payload)
        || !PyArg_ParseTuple(payload, "O!O!O!O!;what is relied on of a class is told by four items", &PyType_Type, &type,
                             &PyTuple_Type, &watched, &PyTuple_Type, &special, &PyTuple_Type, &others)) {
        if (!PyErr_Occurred()) {
            PyErr_Format(PyExc_TypeError, "what is relied on of a class is told by a tuple, not %R", payload);
        }
        return NULL;
    }
    Class *class = PyMem_Calloc(1, sizeof(Class));
    if (class == NULL) {
        return (Class *)PyErr_NoMemory();
    }
    class->names[0] = Py_NewRef(special);
    class->names[1] = Py_NewRef(others);
    if (note_class(class, (PyTypeObject *)type, watched) < 0) {
        if (!PyErr_Occurred()) {
            PyErr_NoMemory();
        }
        class_free(class);
        return NULL;
    }
    return class;
}

static int
visit_members(const Owner *owner, visitproc visit, void *arg)
{
    for (Py_ssize_t i = 0; i < owner->count; i++) {
        for (int j = 0; j < owner->members[i].count; j++) {
            Py_VISIT(owner->members[i].parts[j]);
        }
    }
    return 0;
}

int
class_traverse(const Class *class, visitproc visit, void *arg)
{
    for (Py_ssize_t i = 0; class != NULL && i < class->count; i++) {
        int stop = visit_members(&class->owners[i], visit, arg);
        if (stop) {
            return stop;
        }
    }
    return 0;
}

void
class_free(Class *class)
{
    if (class == NULL) {
        return;
    }
    for (Py_ssize_t i = 0; i < class->count; i++) {
        Owner *owner = &class->owners[i];
        for (Py_ssize_t j = 0; j < owner->count; j++) {
            forget_member(&owner->members[j]);
        }
        PyMem_Free(owner->members);
        Py_XDECREF(owner->alive);
    }
    PyMem_Free(class->owners);
    Py_XDECREF(class->alive);
    Py_XDECREF(class->names[0]);
    Py_XDECREF(class->names[1]);
    PyMem_Free(class);
}
