"""Make a CUDA build of torch importable on a box without CUDA's libraries, for tests under other Pythons.

    pip install --no-deps torch==2.13.0 nvidia-cuda-runtime==13.0.96
    pip install numpy filelock typing-extensions sympy networkx jinja2 fsspec setuptools
    python torch_stubs.py <site-packages>/torch/lib          # needs gcc and binutils

The index has no CPU build of torch for Python 3.12 or 3.13, and the CUDA build wants gigabytes of libraries
before it imports.  This reads which symbols torch's libraries expect from them and compiles tiny libraries
that define those symbols.  torch then imports, reports no GPU and runs everything on the CPU.  Every stub
answers 0 ("success"): for CPU tests only, never on a machine with a GPU.
"""

import collections
import pathlib
import re
import subprocess
import sys

PREFIX = {
    "libcublas": "cublas(?!Lt)",
    "libcublasLt": "cublasLt",
    "libcusparse": "cusparse(?!Lt)",
    "libnccl": "p?nccl",
    "libcufile": "cuFile",
    "libnvshmem_host": "nvshmem",
    **{"lib" + n: n for n in ["cudnn", "cufft", "curand", "cusparseLt", "cusolver", "cupti", "nvrtc"]},
}


def run(*args):
    return subprocess.run(args, capture_output=True, text=True, check=True).stdout


def survey(lib):
    """What torch's libraries need: library names, version tags by library, undefined symbols."""
    versions, undefined, needed = collections.defaultdict(set), set(), set()
    for path in lib.glob("*.so*"):
        needed |= set(re.findall(r"NEEDED.*\[(.*?)\]", run("readelf", "-dW", path)))
        source = None
        for line in run("readelf", "-VW", path).splitlines():
            if found := re.search(r"File: (\S+)", line):
                source = found[1]
            if (found := re.search(r"Name: (\S+)", line)) and source:
                versions[source].add(found[1])
        undefined |= {line.split()[-1] for line in run("nm", "-D", "--undefined-only", path).splitlines()}
    return versions, undefined, needed


def build(lib, name, tags, undefined):
    by_tag = {tag: set() for tag in tags} | {"": set()}
    for symbol in undefined:
        plain, _, tag = symbol.replace("@@", "@").partition("@")
        if tag in tags or (not tag and re.match(PREFIX[name.split(".so")[0]], plain)):
            by_tag[tag].add(plain)
    source, script = lib / "stub.c", lib / "stub.map"
    source.write_text("".join(f"long {n}(void){{return 0;}}\n" for names in by_tag.values() for n in names))
    script.write_text(
        "".join(
            f"{tag} {{ {'global: ' + '; '.join(names) + ';' if names else ''} }};\n"
            for tag, names in by_tag.items()
            if tag
        )
    )
    versioned = [f"-Wl,--version-script={script}"] if any(by_tag) else []
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-fno-builtin", "-w", "-o", lib / name, source, f"-Wl,-soname,{name}", *versioned],
        check=True,
    )
    source.unlink()
    script.unlink()


def main():
    lib = pathlib.Path(sys.argv[1])
    versions, undefined, needed = survey(lib)
    for name in sorted(needed):
        if name.split(".so")[0] in PREFIX and not (lib / name).exists():  # libcudart stays real: a 3 MB wheel
            build(lib, name, versions[name], undefined)
            print("stubbed", name)


main()
