"""Every part of a kind of value is in the one table: its class, how it is met, what rules do, how it is built."""

import inspect
from importlib import import_module
from pkgutil import iter_modules

import pytest

import capture.values
from capture.entry.kinds_of_values import KINDS
from capture.evaluator import wrap_rules
from capture.evaluator.builtin_rules import registry
from capture.evaluator.builtin_rules.families import FAMILIES
from capture.values.base import Value
from capture.writing import emit

OF_EVERY_KIND = {"capture.values.base", "capture.values.effects"}  # what is not looked at yet; where an item was taken
NAMES = [module.name for module in iter_modules(capture.values.__path__, "capture.values.")]
HANDLERS = [handler for rules in registry.RULES.values() for _, handler in rules]
WRITTEN = {
    "values": [kind for name in NAMES for kind in vars(import_module(name)).values() if inspect.isclass(kind)],
    "wraps": list(wrap_rules.RULES.values()),
    "rules": [handler for handler in [*HANDLERS, *FAMILIES] if handler.__module__ != "capture.entry.steering"],
    "builds": [*emit._BUILDERS.values(), *emit._REPLAYS.values()],
}


def modules_of(part):
    return [module.__name__ for parts in KINDS.values() for module in getattr(parts, part)]


@pytest.mark.parametrize("part", WRITTEN)
def test_every_module_that_has_such_a_part_is_in_the_table(part):
    found = [each for each in WRITTEN[part] if part != "values" or issubclass(each, Value)]
    assert {each.__module__ for each in found} - OF_EVERY_KIND == set(modules_of(part))


def test_a_module_of_values_is_of_one_kind():
    assert len(modules_of("values")) == len(set(modules_of("values")))


@pytest.mark.parametrize("kind", KINDS)
def test_what_builds_a_kind_is_in_its_row(kind):
    parts = KINDS[kind]
    classes = [cls for module in parts.values for cls in vars(module).values() if inspect.isclass(cls)]
    own = [
        cls for cls in classes if issubclass(cls, Value) and cls.__module__ in {each.__name__ for each in parts.values}
    ]
    writers = [table[cls] for cls in own for table in (emit._BUILDERS, emit._REPLAYS) if cls in table]
    assert {each.__module__ for each in writers} == {module.__name__ for module in parts.builds}
