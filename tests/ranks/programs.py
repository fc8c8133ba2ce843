"""What programs of several ranks do with a model: each wraps and trains it, compiled or not, and tells what came of it.

Run as a script with a backend and names of programs, it starts two ranks over gloo, runs each program in eager and
compiled, and rank by rank prints a line: the program, the largest difference, and what was warned of.
"""

import datetime
import socket
import sys
import warnings
from functools import partial

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

import compile_api

RANKS = 2
PROGRAMS = {}


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 2 * width)
        self.back = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.back(F.gelu(self.wide(self.norm(x))))


class Net(nn.Module):
    def __init__(self, width=16, depth=2):
        super().__init__()
        self.embed = nn.Embedding(32, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 32, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def as_it_is(function):
    return function


def in_place(*modules, compile):
    if compile is not as_it_is:
        for module in modules:
            compile_api.compile_in_place(module, **compile.keywords)


def loss_of(model, tokens):
    return F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())


def batch(rank, number, rows=4):
    generator = torch.Generator().manual_seed(10 * number + rank)
    return torch.randint(0, 32, (rows, 8), generator=generator)


def sharded(model, **options):
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def whole(tensor):
    tensor = tensor.detach()
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor.clone()


def told(losses, model):
    return [torch.stack([loss.detach() for loss in losses]), *(whole(p) for p in model.parameters())]


def train(model, rank, loss_of=loss_of, *, clipped=False, rows=lambda number: 4):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for number in range(3):
        optimizer.zero_grad()
        losses.append(loss_of(model, batch(rank, number, rows(number))))
        losses[-1].backward()
        if clipped:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
    return told(losses, model)


def accumulate(model, rank, wait):
    """Two batches a step, of which the first does not make the ranks exchange gradients."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for number in range(3):
        optimizer.zero_grad()
        losses.append(wait(lambda: loss_of(model, batch(rank, 2 * number))))
        losses.append(loss_of(model, batch(rank, 2 * number + 1)))
        losses[-1].backward()
        optimizer.step()
    return told(losses, model)


def whole_steps(model, rank, compile):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    @compile
    def step(tokens):
        optimizer.zero_grad()
        loss = loss_of(model, tokens)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return told([step(batch(rank, number)) for number in range(3)], model)


# -- replicas ---------------------------------------------------------------------------------------------------------


@program
def replicas_of_a_compiled_model(rank, compile):
    return train(DistributedDataParallel(compile(Net())), rank)


@program
def replicas_compiled(rank, compile):
    return train(compile(DistributedDataParallel(Net())), rank)


@program
def replicas_in_a_compiled_loss(rank, compile):
    return train(DistributedDataParallel(Net()), rank, compile(loss_of))


@program
def replicas_of_blocks_compiled_in_place(rank, compile):
    model = Net()
    in_place(*model.blocks, compile=compile)
    return train(DistributedDataParallel(model), rank)


@program
def replicas_in_whole_steps(rank, compile):
    return whole_steps(DistributedDataParallel(Net()), rank, compile)


@program
def replicas_of_unequal_batches(rank, compile):
    return train(compile(DistributedDataParallel(Net())), rank, rows=lambda number: 3 + rank * number)


@program
def replicas_that_accumulate(rank, compile):
    model = DistributedDataParallel(Net())

    def wait(run):
        with model.no_sync():
            loss = run()
            loss.backward()
        return loss

    return accumulate(compile(model), rank, wait)


# -- shards -----------------------------------------------------------------------------------------------------------


@program
def shards_compiled(rank, compile):
    return train(compile(sharded(Net())), rank)


@program
def shards_made_after_compiling(rank, compile):
    model = Net()
    compiled = compile(model)
    sharded(model)
    return train(compiled, rank)


@program
def shards_of_a_compiled_model(rank, compile):
    return train(fully_shard(compile(Net())), rank)


@program
def shards_of_blocks_compiled_in_place(rank, compile):
    model = sharded(Net())
    in_place(*model.blocks, compile=compile)
    return train(model, rank)


@program
def shards_compiled_in_place(rank, compile):
    model = sharded(Net())
    in_place(model, compile=compile)
    return train(model, rank)


@program
def shards_in_a_compiled_loss(rank, compile):
    return train(sharded(Net()), rank, compile(loss_of))


@program
def shards_clipped(rank, compile):
    return train(compile(sharded(Net())), rank, clipped=True)


@program
def shards_in_whole_steps(rank, compile):
    return whole_steps(sharded(Net()), rank, compile)


@program
def shards_that_accumulate(rank, compile):
    model = sharded(Net())

    def wait(run):
        model.set_requires_gradient_sync(False)
        loss = run()
        loss.backward()
        model.set_requires_gradient_sync(True)
        return loss

    return accumulate(compile(model), rank, wait)


@program
def shards_with_checkpoints(rank, compile):
    model = Net()
    model.blocks = nn.ModuleList(map(checkpoint_wrapper, model.blocks))
    return train(compile(sharded(model)), rank)


@program
def shards_in_half_precision(rank, compile):
    policy = MixedPrecisionPolicy(param_dtype=torch.float16, reduce_dtype=torch.float32)
    return train(compile(sharded(Net(), mp_policy=policy)), rank)


# -- tensor parallel --------------------------------------------------------------------------------------------------


def parallel(model):
    mesh = init_device_mesh("cpu", (RANKS,))
    for block in model.blocks:
        parallelize_module(block, mesh, {"wide": ColwiseParallel(), "back": RowwiseParallel()})
    return model


@program
def columns_and_rows(rank, compile):
    return train(compile(parallel(Net())), 0)


@program
def columns_and_rows_in_whole_steps(rank, compile):
    return whole_steps(parallel(Net()), 0, compile)


# -- collectives ------------------------------------------------------------------------------------------------------


@program
def collectives_in_place(rank, compile):
    @compile
    def exchange(x):
        y = x * 2
        dist.all_reduce(y)
        parts = [torch.empty_like(x) for _ in range(RANKS)]
        dist.all_gather(parts, y + rank)
        dist.broadcast(y, 1)
        return y + parts[0] - 3 * parts[1], y

    return [part for number in range(3) for part in exchange(torch.arange(4.0) + rank + number)]


@program
def collectives_in_functions(rank, compile):
    @compile
    def exchange(x):
        y = functional.all_reduce(x * 2, "sum", dist.group.WORLD)
        return functional.reduce_scatter_tensor(y.sin(), "sum", 0, dist.group.WORLD) + y[:2]

    return [exchange(torch.arange(4.0) + rank + number) for number in range(3)]


# -- ranks ------------------------------------------------------------------------------------------------------------


def run(name, rank, compile):
    torch.manual_seed(0)
    return PROGRAMS[name](rank, compile)


def compared(name, rank, backend):
    wanted = run(name, rank, as_it_is)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        seen = run(name, rank, partial(compile_api.compile, backend=backend))
    said = sorted({str(w.message) for w in caught if issubclass(w.category, compile_api.CaptureWarning)})
    assert len(seen) == len(wanted)
    return max((a.double() - b.double()).abs().max().item() for a, b in zip(seen, wanted)), said


def one_rank(rank, backend, names, port):
    torch.set_num_threads(1)
    where = f"tcp://127.0.0.1:{port}"
    limit = datetime.timedelta(seconds=120)
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=RANKS, timeout=limit)
    for name in names:
        difference, said = compared(name, rank, backend)
        sys.stdout.write(f"{name}\t{difference}\t{' '.join(said)}\n")
        sys.stdout.flush()
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    _, backend, *names = sys.argv
    torch.multiprocessing.spawn(partial(one_rank, backend=backend, names=names, port=port), nprocs=RANKS)
