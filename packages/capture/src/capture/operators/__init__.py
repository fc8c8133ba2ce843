"""Operators on fake tensors: kernels that torch lacks, dynamic sizes, the program's own Triton kernels."""
