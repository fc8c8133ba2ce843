"""Joint kernels as Triton: the programs are shared out among the members, in their order.

A program finds its member by bisection.  The work is printed once for all members of a family, on arguments renamed to
the family's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from inductor.codegen.printer import Lines
from inductor.ir.kernel import COUNT, Family, Kernel
from inductor.ir.layout import Shape, Tile


@dataclass(frozen=True, slots=True)
class _Share:
    """A member's programs: the first one and the one behind the last, its number of elements, and the names of its
    arguments in the whole kernel."""

    elements: int
    first: int
    behind: int
    arguments: tuple[str, ...]


def print_members(lines: Lines, kernel: Kernel, shape: Shape, body: Callable[[Kernel, Shape], None]) -> None:
    """Prints a joint kernel; ``body`` prints a member's work on the block ``block`` of its elements."""
    lines.line("program = tl.program_id(0)")
    shares = _shares(kernel, shape)
    for family in kernel.families:
        own, shares = shares[: family.count], shares[family.count :]
        with lines.block(f"if (program >= {own[0].first}) & (program < {own[-1].behind}):"):
            _family(lines, family, own, shape, body)


def _shares(kernel: Kernel, shape: Shape) -> list[_Share]:
    """The share of every member, in their order."""
    shares: list[_Share] = []
    first = 0
    for number, (member, elements) in enumerate(zip(kernel.members, shape.elements, strict=True)):
        behind = first + shape.programs_of(elements)
        names = tuple(f"{argument.name}_{number}" for argument in member.arguments)
        shares.append(_Share(elements, first, behind, names))
        first = behind
    return shares


def _family(
    lines: Lines, family: Family, shares: Sequence[_Share], shape: Shape, body: Callable[[Kernel, Shape], None]
) -> None:
    general = family.general
    _choose(lines, shares, [argument.name for argument in general.arguments], family.step)
    lines.line("block = program - first")
    lines.line(f"{COUNT} = steps * {family.step}" if family.step > 1 else f"{COUNT} = steps")
    tile = Tile("x", general.axes, shape.constants["XBLOCK"])
    body(general, replace(shape, tiles=(tile,), elements=()))


def _choose(lines: Lines, shares: Sequence[_Share], names: Sequence[str], step: int) -> None:
    """Prints a bisection that gives the family's names to the arguments of the member whose program this is."""
    if len(shares) > 1:
        half = len(shares) // 2
        with lines.block(f"if program < {shares[half].first}:"):
            _choose(lines, shares[:half], names, step)
        with lines.block("else:"):
            _choose(lines, shares[half:], names, step)
        return
    (share,) = shares
    lines.line(f"{', '.join(names)} = {', '.join(share.arguments)}")
    lines.line(f"first, steps = {share.first}, {share.elements // step}")
