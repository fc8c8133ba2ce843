"""What generated code leans on: the C++ headers that every kernel includes."""
