"""The rules that write ATen operators in ONNX: a table of small functions, filled by importing this."""

from compile_api.runtimes.onnx.rules import convolutions as _convolutions
from compile_api.runtimes.onnx.rules import elementwise as _elementwise
from compile_api.runtimes.onnx.rules import matrices as _matrices
from compile_api.runtimes.onnx.rules import norms as _norms
from compile_api.runtimes.onnx.rules import reductions as _reductions
from compile_api.runtimes.onnx.rules import shapes as _shapes

del _convolutions, _elementwise, _matrices, _norms, _reductions, _shapes
