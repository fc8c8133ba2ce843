"""``COMPILE_DEBUG=1``: a folder that a person can open."""

import html.parser

import pytest
import torch

import compile_api


def function(x):
    y = torch.sin(x) + 1
    return (y * y).sum()


class Balanced(html.parser.HTMLParser):
    """Fails on tags that do not match."""

    void = frozenset({"meta", "!doctype"})

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture
def folder(tmp_path):
    f = compile_api.compile(function, options={"debug": str(tmp_path / "debug")})
    f(torch.randn(4, requires_grad=True)).backward()
    return next((tmp_path / "debug").glob("graph_0_*"))


def test_it_holds_source_graph_and_kernels_side_by_side(folder):
    page = (folder / "index.html").read_text()
    for part in ("y = torch.sin(x) + 1", "<mark>", "Captured graph", "Forward: kernels", "Backward: kernels", "sin"):
        assert part in page
    assert "<details open>" in page
    parser = Balanced()
    parser.feed(page)
    assert not parser.open
    assert folder.name in (folder.parent / "index.html").read_text()


def test_the_stages_of_both_directions_are_there(folder):
    assert (folder / "graph.py").read_text().count("def forward") == 1
    for direction in ("forward", "backward"):
        assert list((folder / direction).rglob("run.py"))


def test_the_environment_does_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPILE_DEBUG", str(tmp_path / "here"))
    compile_api.compile(lambda x: x + 1, backend="eager")(torch.ones(1))
    assert (tmp_path / "here" / "index.html").is_file()


def test_a_folder_that_cannot_be_written_is_said_and_left_out(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    f = compile_api.compile(lambda x: x + 1, backend="eager", options={"debug": str(tmp_path / "file")})
    with pytest.warns(UserWarning, match="no debug folder for this graph"):
        assert f(torch.ones(1)) == 2


NAMED = """
import torch, compile_api
class Größe(torch.nn.Module):
    def forward(self, x): return x.sin()
print(compile_api.compile(Größe())(torch.zeros(2)).tolist())
"""


@pytest.mark.parametrize("place", ["out", "öut"])
def test_names_that_the_locale_has_no_letters_for(place, tmp_path, python):
    (tmp_path / "program.py").write_text(NAMED, encoding="utf-8")
    settings = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "COMPILE_DEBUG": place}
    done = python("program.py", cwd=tmp_path, **settings)
    assert done.stdout == "[0.0, 0.0]\n", done.stderr
    assert len(list(tmp_path.glob("*ut/graph_0_*"))) == 1 or "no debug folder for this graph" in done.stderr


def test_a_generated_run_script_runs(folder, python):
    script = next((folder / "forward").rglob("run.py"))
    done = python(str(script))
    assert done.returncode == 0, done.stderr


def test_an_input_that_cannot_be_kept_stops_nothing(tmp_path):
    gm = torch.fx.symbolic_trace(lambda x, other: (x + 1,))
    run = compile_api.backend_function("eager", debug=str(tmp_path))(gm, [torch.ones(2), 3])
    with pytest.warns(UserWarning, match="has no graph.pt to minify"):
        assert torch.equal(run(torch.ones(2), (each for each in ()))[0], torch.full((2,), 2.0))


def test_pages_wrap_long_lines_and_complain_of_nothing(tmp_path):
    compile_api.compile(lambda x: x.sin() + 1, options={"debug": str(tmp_path)})(torch.ones(2))
    texts = [path.read_text() for path in tmp_path.rglob("*.*") if path.name in ("index.html", "graph.py")]
    assert texts
    assert not any("No stacktrace found" in text for text in texts)
    (page,) = tmp_path.glob("graph_*/index.html")
    assert "white-space: pre-wrap" in page.read_text()
