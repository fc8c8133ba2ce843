"""Compiles an ATen FX graph into fused kernels: C++ on CPUs, Triton on GPUs."""

__version__ = "0.1.0"
