"""What torch computes on fake tensors: kernels that it lacks, sizes that vary, the program's own Triton kernels."""
