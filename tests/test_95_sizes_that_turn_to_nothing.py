"""Sizes that vary and turn to nothing: kernels refuse tensors without elements that torch's rules in Python, by which
sizes that vary are traced, take.  The error is eager's, and so is the result where there is one."""

import random
import warnings

import pytest
import torch
import torch.nn.functional as F

import compile_api

SIZES = {2: (5, 3), 3: (5, 4, 3), 4: (2, 3, 6, 5), 5: (2, 3, 4, 6, 5)}
RESIZED = {
    f"{mode} of {dims}, {name}": (dims, lambda x, mode=mode, given=given: F.interpolate(x, mode=mode, **given))
    for mode, ranks in {
        "nearest": (3, 4, 5), "nearest-exact": (3, 4, 5), "area": (3, 4), "linear": (3,), "bilinear": (4,),
        "bicubic": (4,), "trilinear": (5,),
    }.items()
    for dims in ranks
    for name, given in {"to a size": {"size": 4}, "by a factor": {"scale_factor": 2}}.items()
}  # fmt: skip
OTHERS = {
    "bilinear, smoothed": (4, lambda x: F.interpolate(x, (4, 4), mode="bilinear", antialias=True)),
    "bicubic, smoothed": (4, lambda x: F.interpolate(x, (4, 4), mode="bicubic", antialias=True)),
    "bilinear, an operator": (4, lambda x: torch.ops.aten.upsample_bilinear2d.default(x, [4, 4], False)),
    "nearest, a function": (3, lambda x: torch._C._nn.upsample_nearest1d(x, [4])),
    "of one more dimension": (2, lambda x: F.interpolate(x[None], 4)),
    "padded by reflection": (3, lambda x: F.pad(x, (1, 1), mode="reflect")),
    "padded by replication": (4, lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate")),
    "max_pool2d": (4, lambda x: F.max_pool2d(x, 2)),
    "adaptive_max_pool2d": (4, lambda x: F.adaptive_max_pool2d(x, 2)),
    "avg_pool3d": (5, lambda x: F.avg_pool3d(x, 2)),
    "conv2d": (4, lambda x: F.conv2d(x, torch.ones(3, 3, 2, 2))),
    "unfold": (4, lambda x: F.unfold(x, 2)),
    "fold": (3, lambda x: F.fold(x[:, :, :2], (4, 2), 2, stride=2)),
    "grid_sample": (4, lambda x: F.grid_sample(x, torch.zeros(x.shape[0], 2, 2, 2), align_corners=False)),
    "instance_norm": (3, lambda x: F.instance_norm(x)),
    "cross_entropy": (2, lambda x: F.cross_entropy(x, torch.zeros(x.shape[0], dtype=torch.long))),
    "largest": (2, lambda x: x.amax(0)),
    "largest, where": (2, lambda x: x.argmax(1)),
    "in the middle": (2, lambda x: x.median(0).values),
    "of a norm": (2, lambda x: torch.linalg.vector_norm(x, float("inf"), 0)),
}
PROGRAMS = RESIZED | OTHERS


def outcome(function, size):
    try:
        made = function(torch.linspace(0, 1, max(torch.Size(size).numel(), 1))[: torch.Size(size).numel()].view(size))
    except (RuntimeError, IndexError, ValueError) as error:
        return type(error), str(error)
    return made


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_refused_as_in_eager(name, backend):
    dims, program = PROGRAMS[name]
    size = SIZES[dims]
    for dim in random.Random(name).sample(range(dims), 2 if backend == "aot_eager" else 1):
        compile_api.reset()
        compiled = compile_api.compile(program, backend=backend)
        for length in (size[dim], size[dim] + 2, 0):
            given = (*size[:dim], length, *size[dim + 1 :])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected, found = outcome(program, given), outcome(compiled, given)
            if isinstance(expected, tuple):
                assert found == expected, given
            else:
                torch.testing.assert_close(found, expected, equal_nan=True)
