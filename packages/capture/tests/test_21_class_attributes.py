"""Writes to attributes of classes: seen at once inside, real when the frame leaves, and no reason to capture anew."""

import pytest
import torch

import capture


class Base:
    count, cache, scale = 0, None, 2

    @classmethod
    def counted(cls):
        cls.count += 1
        return cls.count

    @property
    def doubled(self):
        return 2 * self.scale


class Derived(Base):
    def read(self):
        return super().scale


class Noting(type):
    def __setattr__(cls, name, value):
        super().__setattr__(name, value)
        super().__setattr__("noted", (*cls.noted, name))


class Noted(metaclass=Noting):
    noted, level = (), 1


class Layer(torch.nn.Module):
    calls = 0

    def forward(self, a):
        type(self).calls += 1
        Layer.last = a
        return a * self.calls


@pytest.fixture(autouse=True)
def as_before():
    classes = {cls: dict(vars(cls)) for cls in (Base, Derived, Noted, Layer)}
    yield
    for cls, members in classes.items():
        for name in vars(cls).keys() - members.keys():
            type.__delattr__(cls, name)
        for name in ("count", "cache", "scale", "noted", "level", "calls"):
            if name in members:
                type.__setattr__(cls, name, members[name])


def counts(a):
    Base.count += 1
    Base.count += 1
    return a * Base.count, Base().count


def counts_on_the_subclass(a):
    thing = Derived()
    type(thing).count += 5
    return a * thing.count, Base.count, Derived.count


def counts_in_a_class_method(a):
    return a + Derived.counted() + Derived().counted() + Base.count


def keeps_a_tensor(a):
    Base.cache = a.sin()
    return Derived.cache + 1, hasattr(Base, "cache")


def by_name(a):
    setattr(Base, "ex" + "tra", 3)
    return a + getattr(Derived(), "extra", 0)


def deletes(a):
    Base.extra = 3
    b = a + Base.extra
    del Base.extra
    return b


def hides_the_base(a):
    Derived.scale = 7
    return a * Derived().scale


def instances_first(a):
    thing = Base()
    thing.scale = 5
    Base.scale = 7
    return a * thing.scale * Base().scale


def through_super(a):
    Base.scale = 7
    return a * Derived().read() + Base().doubled


def through_a_metaclass(a):
    Noted.level = 5
    Noted.level = 6
    return a * Noted.level, Noted.noted


def keeps_a_list(a):
    Base.cache = [a, a + 1]
    Base.cache.append(a + 2)
    return Base.cache


WHOLE = [
    *(counts, counts_on_the_subclass, counts_in_a_class_method, keeps_a_tensor, by_name, deletes),
    *(hides_the_base, instances_first, through_super, through_a_metaclass, keeps_a_list),
]


def members():
    return {
        cls: {name: value for name, value in vars(cls).items() if not name.startswith("__")}
        for cls in (Base, Derived, Noted)
    }


@pytest.mark.parametrize("function", WHOLE)
def test_is_one_graph_and_leaves_what_cpython_leaves(same, x, function, request):
    before = [dict(vars(cls)) for cls in (Base, Derived, Noted)]
    expected = function(x), {cls.__name__: held for cls, held in members().items()}
    for cls, held in zip((Base, Derived, Noted), before, strict=True):
        for name in vars(cls).keys() - held.keys():
            type.__delattr__(cls, name)
        for name in ("count", "cache", "scale", "noted", "level"):
            if name in held:
                type.__setattr__(cls, name, held[name])
    found = capture.explain(function, strict=True)(x)
    same((found.result, {cls.__name__: held for cls, held in members().items()}), expected)
    assert not found.breaks
    assert len(found.graphs) == 1


def describes(a):
    Base.scale = lambda self: 3
    return a * Base().scale()


def replaces_a_property(a):
    Derived.doubled = 3
    return a * Derived().doubled


def deletes_an_override(a):
    Derived.scale = 5
    del Derived.scale
    return a * Derived.scale


def shown(a):
    b = a + vars(Base)["count"]
    Base.count += 1
    return b * vars(Base)["count"]


@pytest.mark.parametrize("function", [describes, deletes_an_override, replaces_a_property, shown])
def test_what_means_more_than_itself_breaks(same, x, function):
    expected = function(x)
    Base.scale, Base.count = 2, 0
    if "doubled" in vars(Derived):
        del Derived.doubled
    found = capture.explain(function, strict=True)(x)
    same(found.result, expected)
    assert {broken.reason.kind for broken in found.breaks} <= {"class attribute", "attribute"}
    assert found.breaks


def test_a_counter_does_not_capture_anew(x):
    layer = Layer()
    captured, before = capture.optimize("eager", strict=True)(layer), len(capture.records())
    for call in range(1, 40):
        assert torch.equal(captured(x), x * call)
        assert Layer.last is x
    assert Layer.calls == 39
    seen = capture.records()[before:]
    assert len([record for record in seen if isinstance(record, capture.GraphRecord)]) <= 3
    assert not [record for record in seen if isinstance(record, (capture.FallbackRecord, capture.BreakRecord))]


def test_what_was_written_by_others_is_seen(x):
    captured = capture.optimize("eager", strict=True)(lambda a: a * Base.scale + Derived().scale)
    assert torch.equal(captured(x), x * 2 + 2)
    Base.scale = 5
    assert torch.equal(captured(x), x * 5 + 5)
    Derived.scale = 1
    assert torch.equal(captured(x), x * 5 + 1)


def test_an_exception_comes_after_the_writes_before_it(x):
    def fails(a):
        Base.count += 1
        b = a * 2
        raise ValueError(b.shape)

    with pytest.raises(ValueError, match="2, 3"):
        capture.optimize("eager", strict=True)(fails)(x)
    assert Base.count == 1


@pytest.mark.parametrize("name", [b"count", 3])
def test_names_that_are_no_texts(check, x, name):
    check(lambda a: (a + 1, setattr(Base, name, 1)), x)
    check(lambda a: (a + 1, delattr(Base, name)), x)
    check(lambda a: (a + 1, type.__setattr__(Base, name, 1)), x)
