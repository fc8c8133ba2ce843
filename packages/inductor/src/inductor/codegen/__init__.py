"""Text for targets: everything that becomes C++, Triton or the Python wrapper is written here and nowhere else."""
