"""The example of tree.md: a training loop on the simulated device, and the tree that it leaves.

On a GPU the same is ``print(cudagraphs.show())`` after a few steps of any program.
"""

from __future__ import annotations

from cudagraphs import Manager, Options, capture_on
from cudagraphs.show import show_tree
from cudagraphs.simulated import Device, Tensor


def forward(weight: Tensor, x: Tensor) -> list[Tensor]:
    saved = weight * x
    return [saved * saved, saved + 1]


def backward(saved: Tensor) -> list[Tensor]:
    return [saved * 2]


def smooth(loss: Tensor) -> Tensor:
    return loss * 9 + 1


def main() -> None:
    device = Device()
    manager = Manager(device)
    options = Options(warmups=1, gain_samples=0, copy_below=0, branches=100)
    run_forward = capture_on(manager, forward, [None, None], static_inputs=[0], options=options)
    run_backward = capture_on(manager, backward, [None], options=options)
    run_smooth = capture_on(manager, smooth, [None], options=options)
    weight, best = device.tensor([3, 3]), None
    for step in range(8):
        loss, saved = run_forward(weight, device.tensor([step, step]))
        if step % 2:
            run_smooth(loss)
        run_backward(saved)
        if step == 5:
            best = loss  # kept over the following steps: these must not overwrite it
        del loss, saved
    print(show_tree(manager.tree))
    print()
    print(manager.report())
    assert best is not None
    assert best.tolist() == [225, 225]


if __name__ == "__main__":
    main()
