"""What stands behind a convolution is given an image that lies as in eager, however convolutions like theirs best.

Values, strides and the state of the generator show it: kernels of torch's read rows, draw numbers in the order of
memory, and lay out what they give as what they are given.
"""

import os
import random

import pytest
import torch
import torch.nn.functional as F
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves

import compile_api


def attention(y):
    q, k, v = y.reshape(2, 3, 2, 4, 64).unbind(1)
    return F.scaled_dot_product_attention(q, k, v)


@torch.library.custom_op("behind_convolutions::told", mutates_args=())
def told(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor(x.stride()) + x.view(-1)[0].long() * 0


@told.register_fake
def _(x):
    return torch.empty(4, dtype=torch.int64)


def kernels(channels, *sizes):
    return torch.linspace(-1, 1, channels * torch.Size(sizes).numel()).view(channels, *sizes)


def patches(y):
    """Two by two elements of each image, cut by the strides that it has."""
    n, c, h, w = y.stride()
    return y.as_strided((*y.shape[:2], y.shape[2] // 2, y.shape[3] // 2, 2, 2), (n, c, 2 * h, 2 * w, h, w))


def written(y):
    y = y * 1
    y.as_strided((2,), (2,)).zero_()
    return y


def volumes(function, *more):
    return lambda y: function(y[:, :, None], *more)


IMAGES = {
    "convolution": lambda y: F.conv2d(y, kernels(4, y.shape[1], 1, 1)),
    "convolution with a border": lambda y: F.conv2d(y, kernels(4, y.shape[1], 3, 3), padding=1),
    "convolution by channel": lambda y: F.conv2d(y, kernels(y.shape[1], 1, 1, 1), groups=y.shape[1]),
    "convolution of rows": lambda y: F.conv1d(y.flatten(2), kernels(4, y.shape[1], 1)),
    "convolution of volumes": lambda y: F.conv3d(y[:, :, None], kernels(4, y.shape[1], 1, 1, 1)),
    "transposed": lambda y: F.conv_transpose2d(y, kernels(y.shape[1], 3, 2, 2), stride=2),
    "transposed by groups": lambda y: F.conv_transpose2d(y, kernels(y.shape[1], 1, 2, 2), groups=y.shape[1]),
    "transposed, of rows": lambda y: F.conv_transpose1d(y.flatten(2), kernels(y.shape[1], 3, 2)),
    "transposed, of volumes": lambda y: F.conv_transpose3d(y[:, :, None], kernels(y.shape[1], 2, 1, 2, 2)),
    "transposed, beside its image": lambda y: (y, F.conv_transpose2d(y, kernels(y.shape[1], 3, 2, 2))),
    "max_pool": lambda y: F.max_pool2d(y, 2, ceil_mode=True),
    "max_pool of volumes": volumes(F.max_pool3d, 1),
    "max_unpool": lambda y: F.max_unpool2d(*F.max_pool2d(y, 1, return_indices=True), 1),
    "avg_pool": lambda y: F.avg_pool2d(y, 2, ceil_mode=True),
    "adaptive_avg_pool": lambda y: F.adaptive_avg_pool2d(y, (1, 3)),
    "adaptive_max_pool": lambda y: F.adaptive_max_pool2d(y, 1),
    "nearest": lambda y: F.interpolate(y, scale_factor=2),
    "bilinear": lambda y: F.interpolate(y, (5, 6), mode="bilinear"),
    "bicubic": lambda y: F.interpolate(y, (5, 6), mode="bicubic"),
    "antialias": lambda y: F.interpolate(y, (3, 3), mode="bilinear", antialias=True),
    "grid_sample": lambda y: F.grid_sample(y, torch.linspace(-1, 1, len(y) * 8).view(-1, 2, 2, 2), align_corners=True),
    "batch_norm": lambda y: F.batch_norm(y, None, None, training=True),
    "group_norm": lambda y: F.group_norm(y, 1),
    "pad": lambda y: F.pad(y, (1, 1, 0, 2)),
    "replicate": lambda y: F.pad(y, (1, 1, 1, 1), mode="replicate"),
    "circular": lambda y: F.pad(y, (1, 1, 1, 1), mode="circular"),
    "pixel_shuffle": lambda y: F.pixel_shuffle(y.repeat(1, 4, 1, 1), 2),
    "pixel_unshuffle": lambda y: F.pixel_unshuffle(y.repeat(1, 1, 2, 2), 2),
    "fold": lambda y: F.fold(F.unfold(y, 1), y.shape[2:], 1),
    "as_strided": lambda y: y.as_strided((2, 2), (y.numel() // 3, 1), 1),
    "as_strided, patches": patches,
    "as_strided, copied": lambda y: torch.as_strided_copy(y, (3,), (2,), 1),
    "as_strided, scattered": lambda y: torch.as_strided_scatter(y, torch.zeros(3), (3,), (2,), 1),
    "as_strided, written": written,
    "as_strided of a channel": lambda y: y[:, -1].as_strided((2, 2), (1, 1)),
    "as_strided of a channel, from the start": lambda y: y[:, -1].as_strided((2, 2), (1, 1), 0),
    "as_strided of the last, computed": lambda y: (y + 1)[-1:].as_strided((2, 2), (1, 1), 0),
    "as_strided of a chunk": lambda y: y.unsafe_chunk(2, 0)[-1].as_strided((4,), (1,)),
    "as_strided of rows": lambda y: y.flatten().as_strided((4,), (1,), 1),
    "as_strided of a concatenation": lambda y: torch.cat([y, y], 1).as_strided((4,), (1,), 3),
    "as_strided of a pool": lambda y: F.max_pool2d(y, 1).as_strided((4,), (1,), 1),
    "another dtype": lambda y: y.view(torch.int32) >> 20,
    "its strides": lambda y: torch.tensor(y.stride()),
    "its memory format": lambda y: torch.tensor(y.is_contiguous()),
    "rows": lambda y: y.view(len(y), -1),
    "channels last": lambda y: y.contiguous(memory_format=torch.channels_last),
    "unflattened": lambda y: y.unflatten(1, (1, -1)),
    "flipped": lambda y: y.flip(1),
    "cumsum": lambda y: y.cumsum(1),
    "not a local product": lambda y: (y.flatten(2).mT @ y.flatten(2)).softmax(-1) @ y.flatten(2).mT,
}
"""Operators on images of any size."""

OPERATORS = {
    "attention": attention,
    "attention of images": lambda y: F.scaled_dot_product_attention(y, y, y, is_causal=True),
    "attention, expanded": lambda y: F.scaled_dot_product_attention(y, y[:, :1].expand_as(y), y),
    "randn_like": torch.randn_like,
    "randn_like of a part": lambda y: y[:, :4] + torch.randn_like(y[:, :4]) * y[:, 4:8].exp(),
    "rand_like": torch.rand_like,
    "randint_like": lambda y: torch.randint_like(y, 9),
    "normal_": lambda y: torch.empty_like(y).normal_(),
    "exponential_": lambda y: y.clone().exponential_(),
    "dropout": F.dropout,
    "dropout2d": F.dropout2d,
    "bernoulli": lambda y: y.sigmoid().bernoulli(),
    "gumbel_softmax": F.gumbel_softmax,
    "rrelu": lambda y: F.rrelu(y, training=True),
    "fake_quantize": lambda y: torch.fake_quantize_per_tensor_affine(y, 0.1, 0, -8, 7),
    "sort": lambda y: y.sort(1),
    "complex": lambda y: torch.complex(y, y),
    "an operator of the program": told,
}
# What is in memory; what is far off for other last digits; a GPU's own; of no image, and sparse.
LEFT_OUT = (
    *("empty", "new_empty", "linalg", "svd", "pca", "geqrf", "lu", "qr", "ormqr", "cholesky", "pinverse", "logdet"),
    *("jiterator", "bernoulli", "to_sparse", "unsafe_"),
)
OF_ONE = [each for each in op_db if torch.float32 in each.dtypes and not each.name.startswith(LEFT_OUT)]


def strides(tensors):
    """Those that say where elements are."""
    return [
        [(dim, step) for dim, (size, step) in enumerate(zip(each.shape, each.stride(), strict=True)) if size != 1]
        for each in tensors
        if each.numel()
    ]


def outcome(program, x):
    torch.manual_seed(3)
    results = [each for each in tree_leaves(program(x)) if isinstance(each, torch.Tensor)]
    return results, strides(results), torch.get_rng_state()


def behind_relu(convolution, operator):
    return lambda x: operator(convolution(x).relu())


def differences(operator, sizes=(2, 8, 8, 8), channels=24, among=behind_relu):
    """What differs from eager where an operator reads the image of a convolution that likes its channels innermost."""
    program, x = among(torch.nn.Conv2d(8, channels, 1), operator), torch.randn(sizes)

    compile_api.reset()
    compiled = compile_api.compile(program, dynamic=False)
    for gradients in (False, True):
        with torch.set_grad_enabled(gradients):
            found, expected = outcome(compiled, x), outcome(program, x)
        pairs = zip(found[0], expected[0], strict=True)
        if not all(torch.allclose(*pair, rtol=1e-3, atol=1e-3, equal_nan=True) for pair in pairs):
            yield gradients, "values"
        if found[1] != expected[1]:
            yield gradients, found[1], expected[1]
        if not found[2].equal(expected[2]):
            yield gradients, "random numbers"


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_to_which_layouts_matter(name):
    assert not list(differences(OPERATORS[name]))


def takes_an_image(operator):
    try:
        return isinstance(operator.op(torch.rand(2, 24, 8, 8)), torch.Tensor)
    except Exception:  # noqa: BLE001 - it takes something else, or more
        return False


@pytest.mark.filterwarnings("ignore")  # of what is in beta, deprecated
def test_operators_of_one_image():
    drawn = [each for each in random.sample(OF_ONE, 60) if takes_an_image(each)]
    found = {operator.full_name: list(differences(operator.op)) for operator in drawn[:8]}
    assert not {name: each for name, each in found.items() if each}


def again(y):
    """Another convolution of an image, or as good as that."""
    if y.dim() != 4 or y.dtype != torch.float32:
        return y + 1
    return F.conv2d(y, kernels(4, y.shape[1], 1, 1))


PLACES = {
    "behind a convolution": lambda convolution, operator: lambda x: operator(convolution(x)),
    "behind relu": behind_relu,
    "before relu": lambda convolution, operator: lambda x: [y.relu() for y in tree_leaves(operator(convolution(x)))],
    "between convolutions": lambda convolution, operator: (
        lambda x: [again(again(y).relu()) for y in tree_leaves(operator(convolution(x).relu()))]
    ),
    "before a window": lambda convolution, operator: (
        lambda x: [(y * 1).reshape(-1).as_strided((2,), (1,)) for y in tree_leaves(operator(convolution(x).relu()))]
    ),
}
SIZES = {"images": (2, 8, 8, 8), "points": (2, 8, 1, 1), "rows": (2, 8, 1, 9), "one image": (1, 8, 9, 8)}
EVERY = [
    (name, place, sizes, channels) for name in IMAGES for place in PLACES for sizes in SIZES for channels in (8, 1)
]


def of_images(name, place, sizes, channels):
    """What differs for an operator on images of certain sizes; nothing where eager refuses them."""
    program = PLACES[place](torch.nn.Conv2d(8, channels, 1), IMAGES[name])
    try:
        program(torch.randn(SIZES[sizes]))
    except RuntimeError:
        return []
    return list(differences(IMAGES[name], SIZES[sizes], channels, PLACES[place]))


@pytest.mark.parametrize("name", IMAGES)
def test_what_is_made_of_an_image(name):
    assert not of_images(name, "behind relu", "images", 8)


@pytest.mark.parametrize("name", [each for each in IMAGES if each.startswith("as_strided")])
def test_what_is_computed_of_a_window_on_an_image(name):
    assert not of_images(name, "before relu", "images", 8)


def test_wherever_it_stands_and_of_whatever_sizes():
    """Some, drawn anew in each run; all of them with ``SWEEPS=all``."""
    drawn = EVERY if os.environ.get("SWEEPS") == "all" else random.sample(EVERY, 12)
    assert not {each: found for each in drawn if (found := of_images(*each))}
