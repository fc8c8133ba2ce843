"""Copies at the head of a graph whose sources change from launch to launch.

A copy that is a node of the graph costs the host a third of one that is started by itself: pointing the node at
another source is one short call of the CUDA driver, and only needed where the source moved.  Must not know torch's
graphs; it is given the stream that is being recorded, and later the graph that can be launched.
"""

from __future__ import annotations

import ctypes
from functools import cache

from .errors import CannotRecord, Refusal

_SIZE, _POINTER, _ADDRESS = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_uint64


class _Copy(ctypes.Structure):
    """CUDA_MEMCPY3D of the driver's interface."""

    _fields_ = (
        *((name, _SIZE) for name in ("srcXInBytes", "srcY", "srcZ", "srcLOD")),
        ("srcMemoryType", ctypes.c_int),
        ("srcHost", _POINTER),
        ("srcDevice", _ADDRESS),
        ("srcArray", _POINTER),
        ("reserved0", _POINTER),
        *((name, _SIZE) for name in ("srcPitch", "srcHeight", "dstXInBytes", "dstY", "dstZ", "dstLOD")),
        ("dstMemoryType", ctypes.c_int),
        ("dstHost", _POINTER),
        ("dstDevice", _ADDRESS),
        ("dstArray", _POINTER),
        ("reserved1", _POINTER),
        *((name, _SIZE) for name in ("dstPitch", "dstHeight", "WidthInBytes", "Height", "Depth")),
    )


class Feed:
    """One such copy, recorded on a stream when it is made."""

    __slots__ = ("_context", "_copy", "_launchable", "_node", "_set", "address")

    def __init__(self, destination: int, source: int, nbytes: int, stream: int) -> None:
        driver = _driver()
        _check(driver.cuMemcpyDtoDAsync_v2(destination, source, nbytes, stream), "record the copy of an input")
        self._node = _last_node(driver, stream)
        self._copy = _Copy()
        _check(driver.cuGraphMemcpyNodeGetParams(self._node, ctypes.byref(self._copy)), "look at a copy")
        self._launchable, self._context = _POINTER(), _POINTER()
        _check(driver.cuCtxGetCurrent(ctypes.byref(self._context)), "find the context")
        self._set = driver.cuGraphExecMemcpyNodeSetParams
        self.address = source

    def belongs_to(self, launchable: int) -> None:
        """Tells the copy the handle under which its graph is launched, once that is complete."""
        self._launchable = _POINTER(launchable)

    def point_at(self, source: int) -> None:
        """Has later launches copy from another address; those under way are not affected."""
        self._copy.srcDevice = source
        status = self._set(self._launchable, self._node, ctypes.byref(self._copy), self._context)
        _check(status, "copy an input from elsewhere")
        self.address = source


def _last_node(driver: ctypes.CDLL, stream: int) -> ctypes.c_void_p:
    """The node that the next operation on a recorded stream will depend on: the copy that was recorded last."""
    status, count = ctypes.c_int(), _SIZE()
    nodes = ctypes.POINTER(_POINTER)()
    _check(
        driver.cuStreamGetCaptureInfo_v2(
            stream, ctypes.byref(status), None, None, ctypes.byref(nodes), ctypes.byref(count)
        ),
        "look at a recording",
    )
    if count.value != 1:
        raise CannotRecord(Refusal.DEVICE_FAILED, f"{count.value} operations at the head of a recording")
    return _POINTER(nodes[0])


def _check(status: int, action: str) -> None:
    if status:
        raise CannotRecord(Refusal.DEVICE_FAILED, f"the CUDA driver could not {action} (error {status})")


@cache
def _driver() -> ctypes.CDLL:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise CannotRecord(Refusal.DEVICE_FAILED, f"the CUDA driver cannot be loaded: {error}") from error
    driver.cuMemcpyDtoDAsync_v2.argtypes = [_ADDRESS, _ADDRESS, _SIZE, _POINTER]
    driver.cuCtxGetCurrent.argtypes = [_POINTER]
    driver.cuStreamGetCaptureInfo_v2.argtypes = [_POINTER] * 6
    driver.cuGraphMemcpyNodeGetParams.argtypes = [_POINTER] * 2
    driver.cuGraphExecMemcpyNodeSetParams.argtypes = [_POINTER] * 4
    return driver
