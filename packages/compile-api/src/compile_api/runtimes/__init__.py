"""Other compilers and runtimes as backends: each a module with an optional dependency, none imported before its use."""
