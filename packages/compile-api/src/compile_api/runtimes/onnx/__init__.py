"""ATen graphs as ONNX models: a library that knows graphs and ONNX, and nothing of backends or of ONNX Runtime.

* ``model``: ``converted(gm)`` makes the model; ``rule`` fills the table of what operators are.
* ``supported``: ``takes(node)`` says whether a node can be written; others stay with whoever asks.  Some of these
  torch can write with simpler operators first: ``written_with_others()``.
* ``nodes``: types, sizes and arguments of a node.
* ``rules/``: the table, a module for each kind of operators.  Importing it fills it, which takes a moment: who makes
  models does so, ``import compile_api`` does not.

A graph has fixed sizes here: attributes of ONNX's operators are plain numbers.  To add an operator is to add a function
to a module of ``rules``; a row of ``OPERATORS`` in ``tests/test_runtimes.py`` compares it with eager.
"""
