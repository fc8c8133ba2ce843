"""The environment: what is read of it is a variable on a path, relied on as any other value.

Its own code would look it up in a table of all variables, of which a version would then rely on every one.
"""

from __future__ import annotations

import os

from capture.evaluator.builtin_rules.registry import rule
from capture.evaluator.world import World
from capture.guards.kinds import GuardKind
from capture.guards.sources import EnvironmentSource
from capture.reasons import Kind
from capture.values.base import Value, realize
from capture.values.constant import ConstantValue
from capture.values.user_object import UserObject


@rule(type(os.environ).__getitem__, kinds=(UserObject, None))
def variable(ctx: World, environment: UserObject, name: Value) -> Value:
    name = realize(ctx, name)
    if environment.obj is not os.environ or not isinstance(name, ConstantValue) or type(name.value) is not str:
        ctx.stop(Kind.BUILTIN, f"{environment.describe()} is asked for {name.describe()}")
    if environment.source is not None:
        ctx.guard(environment.source, GuardKind.IS, os.environ)
    source = EnvironmentSource(name.value)
    found = ctx.wrap(source.function(), source)
    assert isinstance(found, ConstantValue)
    if found.value is None:
        ctx.throw(KeyError, name.value)
    return ConstantValue(os.environ.decodevalue(found.value))
