"""The runtime of generated code: the C++ headers that every kernel includes."""
