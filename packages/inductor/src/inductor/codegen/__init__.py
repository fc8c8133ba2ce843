"""Code generation: all text that becomes C++, Triton or the Python wrapper is written here and nowhere else."""
