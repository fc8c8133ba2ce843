"""``torch.nn.Module``: an object with parameters, buffers and submodules in three dicts, and hooks on its call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.nn.modules import module as torch_module

from capture._engine import Region
from capture.guards.kinds import GuardKind
from capture.guards.sources import AttrSource, ConstSource, DictSource, KeySource
from capture.reasons import Kind
from capture.values.base import Tracer, Value, held_by, realize, type_name
from capture.values.mapping import DictValue
from capture.values.tensor import TensorValue
from capture.values.user_object import UserObject

_TABLES = ("_parameters", "_buffers", "_modules")
_OWN_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_HOLDER_OF_HOOKS = ConstSource(torch_module, "torch.nn.modules.module")
_CALLS = ("__call__", "_call_impl")
_PATHS_OF_CALLS = {name: AttrSource(ConstSource(torch.nn.Module, "torch.nn.Module"), name) for name in _CALLS}
_OWN_CALLS = ("_call_impl", "_compiled_call_impl")  # which torch's call asks the module itself for
_KNOWN = (*_CALLS, "__getattr__", "__setattr__", "__delattr__")
_GLOBAL_HOOKS = tuple(
    AttrSource(_HOLDER_OF_HOOKS, f"_global_{kind}_hooks")
    for kind in ("forward", "forward_pre", "backward", "backward_pre")
)


def _as_torch_wrote_it(name: str) -> Any:
    """The method of torch's own class by this name; an object that nothing else is, if a program replaced it.

    That may have happened before this module was imported: the file of the code tells.
    """
    function = getattr(torch.nn.Module, name)
    home = torch_module.register_module_forward_hook.__code__.co_filename
    code = getattr(function, "__code__", None)
    return function if code is not None and code.co_filename == home else object()


def _written_for_torch(compiled: object) -> Any:
    """The function that torch's own compiler was given for this one, in this or in older versions of torch."""
    return getattr(compiled, "__dict__", {}).get("_torchdynamo_orig_callable")


TORCHS = {name: _as_torch_wrote_it(name) for name in _KNOWN}
"""Methods of torch's class of modules that are known here, and that programs replace."""


class ModuleValue(UserObject):
    """A module.

    Calls go straight to ``forward`` where no hook is registered (guarded), else through the module's own machinery.
    """

    def call(self, ctx: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        held = [name for name in _CALLS if getattr(torch.nn.Module, name) is TORCHS[name]]
        for name in held:
            ctx.guard(_PATHS_OF_CALLS[name], GuardKind.IS, TORCHS[name])
            ctx.rely_on_member(self.cls, name)
        # Made here, or written to: what is said of tables and hooks of the real object need not hold.
        own_call = any(getattr(self.cls, name) is not TORCHS[name] for name in _CALLS)
        if own_call or self.source is None or self.overlay:
            return super().call(ctx, args, kwargs)
        if any(self._is_called_by(ctx, name) for name in _OWN_CALLS):
            return super().call(ctx, args, kwargs)
        if self._has_hooks(ctx):
            implementation = self.attribute(ctx, "_call_impl")
            return ctx.call(implementation, args, kwargs)
        return ctx.call(self.attribute(ctx, "forward"), args, kwargs)

    def _has_hooks(self, ctx: Tracer) -> bool:
        """True if hooks run around ``forward``; either answer is relied on."""
        for source in _GLOBAL_HOOKS:
            hooks = getattr(torch_module, source.name)
            ctx.guard(source, GuardKind.TRUE if hooks else GuardKind.FALSE)
            if hooks:
                return True
        assert self.source is not None
        for name in _OWN_HOOKS:
            if self.obj.__dict__.get(name):
                ctx.guard(self._entry(name), GuardKind.TRUE)
                return True
        # One guard for the four tables: every call of a module has it.
        ctx.guard(DictSource(self.source), GuardKind.EMPTY, _OWN_HOOKS)
        return False

    def _is_called_by(self, ctx: Tracer, name: str) -> bool:
        """True if the module itself has something that it is called by instead.

        A module that was compiled as it is has the very same call, wrapped: that does not count.
        """
        held = self._instance_dict().get(name)
        if name in self._instance_dict():
            ctx.guard(self._entry(name), GuardKind.IS, held)
        else:
            ctx.guard(self._entry(name), GuardKind.ABSENT)
        written = getattr(held, "function", None) if type(held) is Region else _written_for_torch(held)
        return held is not None and written != TORCHS["_call_impl"].__get__(self.obj)

    def _fallback(self, ctx: Tracer, name: str) -> Value:
        """A name that is no plain attribute, found in the tables as torch's ``__getattr__`` finds it."""
        if held_by(self.cls, "__getattr__") is not TORCHS["__getattr__"]:
            return super()._fallback(ctx, name)
        found = self._in_tables(ctx, name)
        if found is None:
            self.absent(ctx, name)
            ctx.throw(AttributeError, f"'{type_name(self.cls)}' object has no attribute '{name}'")
        return found

    def _in_tables(self, ctx: Tracer, name: str) -> Value | None:
        for table in _TABLES:
            if (found := self._in_table(ctx, table, name)) is not None:
                return found
        self._rely_on_tables_without(ctx, name)
        return None

    def _in_table(self, ctx: Tracer, table: str, name: str) -> Value | None:
        """The entry of one of the tables, which the evaluated code may have replaced or changed."""
        written = self.overlay.get(table)
        if written is not None:
            known = realize(ctx, written)
            return known.get_constant(ctx, name) if isinstance(known, DictValue) else None
        contents = self.obj.__dict__.get(table) if self.obj is not None else None
        if contents is None:
            return None
        seen = ctx.known(contents)
        if isinstance(seen, DictValue):
            return seen.get_constant(ctx, name)
        return ctx.wrap(contents[name], KeySource(self._entry(table), name)) if name in contents else None

    def _rely_on_tables_without(self, ctx: Tracer, name: str) -> None:
        """Guards that no table of the real module has the name."""
        for table in _TABLES:
            if self.source is not None and table not in self.overlay and name not in self.obj.__dict__.get(table, ()):
                ctx.guard(KeySource(self._entry(table), name), GuardKind.ABSENT)

    def set_attribute(self, ctx: Tracer, name: str, value: Value | None) -> None:
        """A plain attribute is told by a look at the tables; for all others torch's own code is evaluated."""
        hook = "__setattr__" if value is not None else "__delattr__"
        standard = held_by(self.cls, hook) is TORCHS[hook]
        if standard and self.obj is not None and value is not None:
            value = realize(ctx, value)
            if isinstance(value, ModuleValue) or name in self.obj.__dict__.get("_parameters", {}):
                ctx.stop(Kind.MODULE_ATTRIBUTE, f"the parameter or submodule `{name}` of {self.describe()} is assigned")
            if self._stays_plain(ctx, name, value):
                self.plain_set(ctx, name, value)
                return
        super().set_attribute(ctx, name, value)

    def _stays_plain(self, ctx: Tracer, name: str, value: Value) -> bool:
        """True if the value goes to ``__dict__``: no table knows the name, nor wants a value of its type."""
        kinds = (torch.nn.Parameter, torch.nn.Module, torch.nn.Buffer)
        # Torch asks a tensor for marks of parameters and buffers, which it has among its own attributes.
        marked = isinstance(value, TensorValue) and (value.written or getattr(value.obj, "__dict__", None))
        if marked or issubclass(value.python_type(), kinds):
            return False
        return self._in_tables(ctx, name) is None
