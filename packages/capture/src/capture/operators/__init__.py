"""What torch computes on fake tensors: kernels that it lacks, dynamic sizes, the program's own Triton kernels."""
