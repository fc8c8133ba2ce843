"""The table of torch's private names that recording and replaying depend on."""

from __future__ import annotations

from typing import Any

from .errors import CannotRecord, Refusal
from .insides import Inside, Insides

_NOTHING = "nothing is recorded and every call runs as it is"


def _recording(name: str, why: str) -> Inside:
    return Inside(f"torch._C.{name}", why, _NOTHING, essential=True, build="CUDA")


INSIDES = Insides(
    lambda sentence: CannotRecord(Refusal.TORCH_LACKS, sentence),
    [
        _recording("_cuda_beginAllocateCurrentThreadToPool", "which makes a thread's memory come out of a pool"),
        _recording("_cuda_endAllocateToPool", "which ends that"),
        _recording("_cuda_releasePool", "which gives a pool back"),
        _recording("_cuda_getCheckpointState", "which says what a pool holds"),
        _recording("_cuda_setCheckpointPoolState", "which sets a pool back to an earlier moment"),
        _recording("_cuda_clearCublasWorkspaces", "which keeps graphs from sharing a workspace"),
        _recording("_cuda_getCurrentRawStream", "which is the stream that a replay runs on"),
        _recording("_cuda_isCurrentStreamCapturing", "which says whether somebody else records"),
        _recording("_construct_CUDA_Tensor_From_Storage_And_Metadata", "which makes a result's tensor anew"),
        Inside(
            "torch._C._construct_storage_from_data_pointer",
            "which makes a view on a pool's memory",
            _NOTHING,
            essential=True,
        ),
        _recording("_tensors_data_ptrs_at_indices_equal", "which compares addresses"),
        Inside("torch._C._storage_Use_Count", "which says who holds a result", _NOTHING, essential=True),
        _recording("_set_storage_data_ptr_access_error_msg", "which makes using an overwritten result an error"),
        Inside("torch.UntypedStorage._expired", "which says whether a result is gone", _NOTHING, essential=True),
        Inside(
            "torch.UntypedStorage()._cdata", "which is a storage's identity", _NOTHING, essential=True, attribute=True
        ),
        Inside("torch._foreach_copy_", "which copies all inputs at once", _NOTHING, essential=True),
        Inside(
            "torch.Tensor._version",
            "which shows that an input was written to",
            _NOTHING,
            essential=True,
            attribute=True,
        ),
        Inside("torch._ops.OpOverload", "by which operators of a graph are told apart", _NOTHING, essential=True),
        Inside(
            "torch.ops.aten.add.Tensor._schema",
            "which names what an operator writes to",
            _NOTHING,
            essential=True,
            attribute=True,
        ),
    ],
)


def __getattr__(name: str) -> Any:
    return INSIDES.get(name)
