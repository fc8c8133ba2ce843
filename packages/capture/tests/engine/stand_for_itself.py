"""Runs tests of CPython's standard library twice: plainly, and inside a region where every function is replaced by
itself, its parameters all positional.  Prints what failed the second time only, and how many calls were replaced.

    python stand_for_itself.py ENGINE MODULE...
"""

import importlib.util
import io
import sys
import unittest


class Config:
    """Stands for a configuration."""


def load_engine(path):
    spec = importlib.util.spec_from_file_location("capture._engine", path)
    engine = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(engine)
    return engine


def all_positional(code):
    """The same code with a plain positional parameter for every argument slot."""
    starred = sum(bool(code.co_flags & flag) for flag in (0x04, 0x08))
    slots = code.co_argcount + code.co_kwonlyargcount + starred
    return code.replace(co_argcount=slots, co_kwonlyargcount=0, co_flags=code.co_flags & ~0x0C)


def failures(name):
    suite = unittest.defaultTestLoader.loadTestsFromName(name)
    result = unittest.TextTestRunner(stream=io.StringIO()).run(suite)
    return {str(test) for test, _ in result.failures + result.errors}


def main(engine_path, *names):
    engine = load_engine(engine_path)
    guards = engine.Guards((("root",), (), ()))

    def translator(config, function, args):
        return engine.GuardedCode(all_positional(function.__code__), guards, config)

    engine.set_translator(translator)
    captured = engine.Region(failures, Config())
    for name in names:
        plain = failures(name)
        print(*sorted(captured(name) - plain), sep="\n", end="")
    print("hits:", engine.counters()["hits"])


if __name__ == "__main__":
    main(*sys.argv[1:])
