"""Kernels made of members as Triton: the programs are shared out among them, in the members' order.

A program finds its member by halving; what it does then is printed once for all members of a family, by arguments that
bear the names of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from inductor.codegen.printer import Lines
from inductor.codegen.triton_shape import Shape, Tile
from inductor.ir.kernel import Kernel
from inductor.schedule.together import COUNT, STEP, elements_of, family_key, family_of


@dataclass(frozen=True, slots=True)
class _Share:
    """A member's programs, from ``first`` on, and the names of its arguments in the whole kernel."""

    member: Kernel
    first: int
    behind: int
    arguments: tuple[str, ...]


def print_members(lines: Lines, kernel: Kernel, shape: Shape, body: Callable[[Kernel, Shape], None]) -> None:
    """The whole of such a kernel; ``body`` prints a member's work on the block ``block`` of its elements."""
    lines.line("program = tl.program_id(0)")
    shares = _shares(kernel, shape)
    for _, group in groupby(shares, key=lambda share: family_key(share.member)):
        family = list(group)
        with lines.block(f"if (program >= {family[0].first}) & (program < {family[-1].behind}):"):
            _family(lines, family, shape, body)


def _shares(kernel: Kernel, shape: Shape) -> list[_Share]:
    shares: list[_Share] = []
    first = 0
    for number, member in enumerate(kernel.members):
        behind = first + shape.programs_of(elements_of(member))
        names = tuple(f"{argument.name}_{number}" for argument in member.arguments)
        shares.append(_Share(member, first, behind, names))
        first = behind
    return shares


def _family(lines: Lines, shares: Sequence[_Share], shape: Shape, body: Callable[[Kernel, Shape], None]) -> None:
    general = family_of(shares[0].member)
    steps = elements_of(shares[0].member) % STEP == 0
    _choose(lines, shares, [argument.name for argument in general.arguments], steps)
    lines.line("block = program - first")
    lines.line(f"{COUNT} = steps * {STEP}" if steps else f"{COUNT} = steps")
    tile = Tile("x", general.axes, shape.constants["XBLOCK"])
    body(general, replace(shape, tiles=(tile,), elements=()))


def _choose(lines: Lines, shares: Sequence[_Share], names: Sequence[str], steps: bool) -> None:
    """Gives the family's names to the arguments of the member whose program this is."""
    if len(shares) > 1:
        half = len(shares) // 2
        with lines.block(f"if program < {shares[half].first}:"):
            _choose(lines, shares[:half], names, steps)
        with lines.block("else:"):
            _choose(lines, shares[half:], names, steps)
        return
    (share,) = shares
    elements = elements_of(share.member)
    lines.line(f"{', '.join(names)} = {', '.join(share.arguments)}")
    lines.line(f"first, steps = {share.first}, {elements // STEP if steps else elements}")
