"""What one machine's cache holds is one file, and another machine's cache takes it up."""

import hashlib
import os
import subprocess
import sys

import pytest

import compile_api
from compile_api.commands.main import main
from compile_api.warm_start import bundles
from inductor.cache import digest_of

PROGRAM = """
import sys
import torch
import compile_api

torch.manual_seed(0)
net = torch.nn.Linear(4, 2)
call = compile_api.compile(net, options={"warm_start": True})
call(torch.ones(3, 4)).square().sum().backward()
report = compile_api.report(call)
built = sum("take up" not in dict(graph.seconds) for graph in report.compiled)
print(net.weight.grad.sum().item(), built, *(record.outcome for record in report.kept))
"""


@pytest.fixture
def run(tmp_path):
    """The program, with a cache of this name."""
    (tmp_path / "program.py").write_text(PROGRAM)

    def act(name, *command):
        env = {**os.environ, "COMPILE_API_CACHE": str(tmp_path / name)}
        command = [sys.executable, *(command or ["program.py"])]
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.split("\n")[:-1]

    return act


def test_another_cache_takes_up_a_bundle(run):
    (first,) = run("one")
    gradient, built, *outcomes = first.split()
    assert (built, outcomes) == ("2", ["stored"])
    (packed,) = run("one", "-m", "compile_api", "cache", "pack", "bundle")
    assert "who loads it loads code" in packed
    (loaded,) = run("other", "-m", "compile_api", "cache", "load", "bundle")
    assert "code that later processes run" in loaded
    assert run("other") == [f"{gradient} 0 taken up"]
    assert any(
        "Linear.forward" in line and "guards" in line for line in run("other", "-m", "compile_api", "cache", "show")
    )
    assert run("other", "-m", "compile_api", "cache", "load", "bundle")[0].startswith("0 entries added")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPILE_API_CACHE", str(tmp_path / "cache"))
    return tmp_path


def named(*files):
    """A bundle with these files."""
    import json

    index = json.dumps({"files": [[name, len(data)] for name, data in files]}).encode()
    body = b"%d\n" % len(index) + index + b"".join(data for _, data in files)
    return bundles._HEAD + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


KEY = "a" * 40


def frame(*data):
    whole = bundles.joined(data)
    return whole + digest_of(f"{KEY}.frame", whole)


def test_versions_of_a_frame_join_those_that_are_there(folder):
    for data in (frame(b"one"), frame(b"two", b"one"), frame(b"two")):
        (folder / "bundle").write_bytes(named((f"{KEY}.frame", data)))
        compile_api.load_cache(folder / "bundle")
    assert [*bundles.versions(bundles.cache().find_data(f"{KEY}.frame"))] == [b"one", b"two"]


@pytest.mark.parametrize("name", ["../away.so", "/tmp/away.so", "away.so", f"{KEY}.so/../../away", f"{KEY}.pth", ""])
def test_names_that_lead_elsewhere_are_refused(folder, name, capsys):
    (folder / "bundle").write_bytes(named((name, b"data")))
    assert main(["cache", "load", str(folder / "bundle")]) == 2
    assert "no name of a cache entry" in capsys.readouterr().err
    assert not [path for path in folder.rglob("*") if "away" in path.name]


def test_a_bundle_that_was_damaged_is_not_loaded(folder):
    good = named((f"{KEY}.so", b"data"), (f"{KEY}.cpp", b"more"))
    for place in range(0, len(good), 7):
        for bad in (good[:place], good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :]):
            (folder / "bundle").write_bytes(bad)
            with pytest.raises(compile_api.CompileApiError, match="nothing of it was loaded"):
                compile_api.load_cache(folder / "bundle")
    (folder / "bundle").write_bytes(good)
    assert compile_api.load_cache(folder / "bundle") == 2


def test_files_that_are_missing_or_cannot_be_written_are_told(folder, capsys):
    (folder / "cache").mkdir(exist_ok=True)
    assert main(["cache", "load", str(folder / "none")]) == 2
    assert main(["cache", "pack", str(folder / "no" / "folder")]) == 2
    assert main(["cache", "pack"]) == 2
    told = capsys.readouterr().err
    assert all(text in told for text in ("cannot read the bundle", "cannot write the bundle", "name the file"))
