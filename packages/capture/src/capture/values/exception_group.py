"""Groups of exceptions: what they hold, and the parts that ``except*``, ``split`` and ``subgroup`` take out of them.

A part is made by the group's ``derive``, which may be the program's, and shares the group's traceback and links.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from capture.guards.sources import AttrSource, Source
from capture.reasons import Kind
from capture.values.base import LazyValue, Tracer, Value, realize
from capture.values.constant import NONE, ConstantValue, boolean
from capture.values.exception import ExceptionValue
from capture.values.sequence import ListValue, SequenceValue, TupleValue

Question = Callable[[ExceptionValue], bool]


class ExceptionGroupValue(ExceptionValue):
    """A group of exceptions; ``taken_from`` is the group whose history a part shares."""

    def __init__(
        self,
        cls: type[BaseException],
        args: Sequence[Value] = (),
        obj: BaseException | None = None,
        source: Source | None = None,
    ) -> None:
        super().__init__(cls, args, obj, source)
        self.message: Value = NONE
        self.members = TupleValue([])
        self.taken_from: ExceptionValue | None = None

    def plain_attribute(self, ctx: Tracer, name: str) -> Value | None:
        if self.source is None and name == "message":
            return self.message
        if self.source is None and name == "exceptions":
            return self.members
        return super().plain_attribute(ctx, name)

    def exceptions(self, ctx: Tracer) -> list[ExceptionValue]:
        held = self.plain_attribute(ctx, "exceptions")
        assert held is not None
        members = [realize(ctx, member) for member in held.elements(ctx)]
        return [member for member in members if isinstance(member, ExceptionValue)]

    def parts(self) -> Iterator[Value]:
        yield from super().parts()
        yield self.message
        yield self.members
        if self.taken_from is not None:
            yield self.taken_from


def make_group(ctx: Tracer, cls: type[BaseException], message: Value, exceptions: Value) -> ExceptionGroupValue:
    """``BaseExceptionGroup.__new__``; what that refuses is left to CPython, whose message is right."""
    members = _checked_members(ctx, message, exceptions)
    plain = all(issubclass(member.cls, Exception) for member in members)
    if cls is BaseExceptionGroup and plain:
        cls = ExceptionGroup
    if not plain and issubclass(cls, Exception):
        _refused(ctx)
    made = ExceptionGroupValue(cls, [message, exceptions])
    made.message, made.members = message, TupleValue(members)
    return made


def _checked_members(ctx: Tracer, message: Value, exceptions: Value) -> list[ExceptionValue]:
    """The exceptions that a group is made of, where CPython would take them."""
    if not isinstance(exceptions, SequenceValue) or message.python_type() is not str:
        _refused(ctx)
    items = [realize(ctx, item) for item in exceptions.elements(ctx)]
    members = [item for item in items if isinstance(item, ExceptionValue)]
    if not items or len(members) != len(items):
        _refused(ctx)
    return members


def _refused(ctx: Tracer) -> NoReturn:
    ctx.stop(Kind.EXCEPTION_VALUE, "a group of exceptions is made of something else")


def wrapped(ctx: Tracer, naked: ExceptionValue) -> ExceptionGroupValue:
    """The group that ``except*`` makes for an exception that is none."""
    return make_group(ctx, ExceptionGroup, ConstantValue(""), TupleValue([naked]))


def split(
    ctx: Tracer, raised: ExceptionValue, matches: Question, *, rest: bool = True
) -> tuple[ExceptionValue | None, ExceptionValue | None]:
    """The part of an exception that matches, and what is left of it; either may be None.

    What is left is made only where ``rest`` asks for it, as making a group calls ``derive``.
    """
    if matches(raised):
        return raised, None
    if not isinstance(raised, ExceptionGroupValue):
        return None, raised if rest else None
    pairs = [split(ctx, member, matches, rest=rest) for member in raised.exceptions(ctx)]
    taken = _part(ctx, raised, [match for match, _ in pairs if match is not None])
    return taken, _part(ctx, raised, [left for _, left in pairs if left is not None]) if rest else None


def _part(ctx: Tracer, group: ExceptionGroupValue, members: Sequence[Value]) -> ExceptionValue | None:
    """A group of some members of `group`, by its ``derive``; None where there are none."""
    if not members:
        return None
    made = realize(ctx, ctx.call(group.attribute(ctx, "derive"), [ListValue(members)]))
    if not isinstance(made, ExceptionGroupValue):
        ctx.throw(TypeError, "derive must return an instance of BaseExceptionGroup")
    _share_history(ctx, group, made)
    return made


def _share_history(ctx: Tracer, group: ExceptionGroupValue, part: ExceptionGroupValue) -> None:
    """Gives a part the traceback, links and notes of the group, as CPython does."""
    ctx.changed(part)
    part.trace, part.caught, part.taken_from = group.trace, group.caught, group
    # Nothing was added since it came: the part has the very traceback of the real group.
    if group.source is not None and group.trace is group:
        traceback = LazyValue(group.obj.__traceback__, AttrSource(group.source, "__traceback__"))
        part.overlay["__traceback__"] = traceback
    for name in ("__context__", "__cause__"):
        part.overlay[name] = group.attribute(ctx, name)
    part.overlay["__suppress_context__"] = boolean(True)
    notes = group.plain_attribute(ctx, "__notes__")
    if notes is None:
        group.absent(ctx, "__notes__")
    elif isinstance(notes, SequenceValue):
        part.overlay["__notes__"] = ListValue(notes.elements(ctx))


def has_same_history(ctx: Tracer, left: ExceptionValue, right: ExceptionValue) -> bool:
    """True if they have one traceback, cause and context: then both are what came from one ``raise``."""
    links = ((left.attribute(ctx, name), right.attribute(ctx, name)) for name in ("__cause__", "__context__"))
    return _have_one_traceback(ctx, left, right) and all(ctx.is_one_object(*pair) for pair in links)


def _have_one_traceback(ctx: Tracer, left: ExceptionValue, right: ExceptionValue) -> bool:
    """True if nothing was added to one traceback and not to the other."""
    first, second = left.trace, right.trace
    if first is second or not (isinstance(first, ExceptionValue) and isinstance(second, ExceptionValue)):
        return first is second
    return ctx.is_one_object(first.attribute(ctx, "__traceback__"), second.attribute(ctx, "__traceback__"))


def leaves(ctx: Tracer, raised: ExceptionValue) -> Iterator[ExceptionValue]:
    """The exceptions in a group, and in the groups in it, that are no groups themselves."""
    if not isinstance(raised, ExceptionGroupValue):
        yield raised
        return
    for member in raised.exceptions(ctx):
        yield from leaves(ctx, member)
