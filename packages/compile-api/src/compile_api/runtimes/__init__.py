"""Other compilers and runtimes as backends: each a module with an optional dependency, none imported before its use."""

from compile_api.runtimes import ipex as _ipex
from compile_api.runtimes import nvfuser as _nvfuser
from compile_api.runtimes import ofi as _ofi
from compile_api.runtimes import onnxrt as _onnxrt
from compile_api.runtimes import openvino as _openvino
from compile_api.runtimes import tvm as _tvm

del _ipex, _nvfuser, _ofi, _onnxrt, _openvino, _tvm
