"""The command line: ``compile-api`` and ``python -m compile_api``, a module per command."""
