"""Slots of classes: whether C answers for a special name, or code of its own; and so what its objects are as members.

CPython asks the slots of a type.  Code is whatever is not C's own: a function, but also a callable object, a partial or
static method, what a decorator made.  Nothing is taken for missing because it is no plain function.
"""

from __future__ import annotations

from types import WrapperDescriptorType

from capture.values.base import held_by

NOTHING: object = object()


def is_slot_of_c(cls: type, name: str) -> bool:
    """True if what CPython looks up by this special name is what a class in C does there."""
    return is_of_c(cls, name, held_by(cls, name, NOTHING))


def is_of_c(cls: type, name: str, member: object) -> bool:
    """True if a member that was found by this name is what C does in the slot.

    As ``update_one_slot`` has it: the wrapper of another slot (``__setattr__ = dict.__setitem__``) is called as code.
    """
    is_wrapper = isinstance(member, WrapperDescriptorType) and member.__name__ == name
    return is_wrapper and issubclass(cls, member.__objclass__)  # type: ignore[attr-defined]


def has_code_for(cls: type, name: str) -> bool:
    """True if a class has something by this special name that C does not do: a function, or anything else."""
    member = held_by(cls, name, NOTHING)
    return member is not NOTHING and not is_of_c(cls, name, member)


# -- of members --------------------------------------------------------------------------------------------------


def binds(member: object) -> bool:
    """True if a member becomes something else where it is read."""
    return held_by(type(member), "__get__", NOTHING) is not NOTHING


def binds_by_code(member: object) -> bool:
    """True if a ``__get__`` that is none of C's says what a member becomes."""
    return has_code_for(type(member), "__get__")


def takes_assignments(member: object) -> bool:
    """True if a member is told of assignments to the attribute, or of its deletion."""
    return any(held_by(type(member), name, NOTHING) is not NOTHING for name in ("__set__", "__delete__"))


def is_read_first(member: object) -> bool:
    """True if a member comes before an object's own entry of that name."""
    return binds(member) and takes_assignments(member)


def is_descriptor_class(cls: type) -> bool:
    """True if objects of a class mean more than themselves as members of classes."""
    return any(held_by(cls, name, NOTHING) is not NOTHING for name in ("__get__", "__set__", "__delete__"))
