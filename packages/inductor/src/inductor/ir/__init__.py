"""The intermediate representation: exact index expressions, expression trees, and kernels made of loops.

Nothing here knows C++, Triton or FX.  Every node is frozen, compares by structure and prints as text.
"""
