"""``index.html``: source beside graph beside kernels, for a person with a browser and nothing else.

Plain HTML and a few rules of CSS in one file: it can be mailed, diffed and opened without a server.
"""

from __future__ import annotations

import html
import linecache
import re
from dataclasses import dataclass
from pathlib import Path

from torch import fx

from compile_api.ledger import GraphCompiled, total

_STYLE = """
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 16%, transparent);
        --soft: color-mix(in srgb, currentColor 60%, transparent); --mark: #d9770633; }
* { box-sizing: border-box }
body { margin: 0; padding: 1.5rem 2rem; font: 15px/1.5 system-ui, sans-serif }
h1 { font-size: 1.3rem; margin: 0 } h2 { font-size: .95rem; margin: 0 0 .5rem } a { color: inherit }
header { display: flex; gap: 1.5rem; align-items: baseline; margin-bottom: 1.2rem }
header p { margin: 0; color: var(--soft) }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(24rem, 1fr)); gap: 1.2rem; align-items: start }
section { border: 1px solid var(--line); border-radius: .5rem; padding: .9rem 1rem; min-width: 0 }
pre { margin: 0 0 .8rem; white-space: pre-wrap; overflow-wrap: anywhere; tab-size: 4;
      font: 12px/1.5 ui-monospace, monospace }
summary, td, small { overflow-wrap: anywhere }
mark { background: var(--mark); color: inherit; display: inline-block; min-width: 100% }
details { border-top: 1px solid var(--line); padding: .4rem 0 } summary { cursor: pointer }
summary small { color: var(--soft) } table { border-collapse: collapse; width: 100%; margin-bottom: .8rem }
td, th { text-align: left; padding: .15rem .6rem .15rem 0; border-bottom: 1px solid var(--line); font-weight: inherit }
"""


@dataclass(frozen=True, slots=True)
class Source:
    """A function of the user's whose lines are in a graph: the text, and which of its lines."""

    place: str
    lines: tuple[tuple[int, str, bool], ...]


@dataclass(frozen=True, slots=True)
class GraphPage:
    """One graph: the user's lines, the captured graph, and what each direction became."""

    name: str
    sources: tuple[Source, ...]
    graph: str
    compiled: tuple[GraphCompiled, ...] = ()

    def __str__(self) -> str:
        kernels = sum(len(each.kernels) for each in self.compiled)
        about = f"{kernels} kernels in {sum(total(each.seconds) for each in self.compiled):.2f} s"
        columns = [
            _column("Source", "".join(map(_source, self.sources)) or "<p>no source lines are known</p>"),
            _column("Captured graph", _pre(self.graph)),
            *(_column(f"{each.direction.capitalize()}: kernels", _compiled(each)) for each in self.compiled),
        ]
        title = f"<h1>{html.escape(self.name)}</h1><p>{about}</p>"
        head = f"<header>{title}<p><a href='../index.html'>all graphs</a></p></header>"
        return _document(self.name, head + f"<main>{''.join(columns)}</main>")


def readable(gm: fx.GraphModule) -> str:
    """A graph as Python with the shapes of its values, without torch's complaints about lines it does not know."""
    text = str(gm.print_readable(print_output=False))
    return re.sub(r"^[ ]*# No stacktrace found for following nodes[ ]*\n", "", text, flags=re.MULTILINE)


def source_of(gm: fx.GraphModule) -> tuple[Source, ...]:
    """The functions whose lines the graph's operators come from, with those lines marked."""
    seen: dict[tuple[str, str], set[int]] = {}
    for node in gm.graph.nodes:
        location = node.meta.get("location")
        if location is not None:
            seen.setdefault((location.filename, location.function), set()).add(location.line)
    return tuple(_excerpt(filename, function, lines) for (filename, function), lines in seen.items())


def _excerpt(filename: str, function: str, lines: set[int]) -> Source:
    """The lines of a function that are in the graph, with two before them and one behind."""
    around = range(max(1, min(lines) - 2), max(lines) + 2)
    texts = tuple((number, linecache.getline(filename, number).rstrip("\n"), number in lines) for number in around)
    return Source(f"{function} in {filename}", texts)


def write_overview(folder: Path) -> None:
    """``index.html`` of the whole folder: a line for each graph in it."""
    rows = []
    for path in sorted(folder.glob("graph_*/index.html"), key=_number):
        name = html.escape(path.parent.name)
        # The page of each graph says it; other processes may have written some of them.
        about = re.search(r"<p>(\d+ kernels[^<]*)</p>", path.read_text(encoding="utf-8"))
        rows.append(f"<tr><td><a href='{name}/index.html'>{name}</a></td><td>{about[1] if about else ''}</td></tr>")
    table = f"<main><section><table>{''.join(rows)}</table></section></main>"
    page = _document("compiled graphs", f"<header><h1>Compiled graphs</h1></header>{table}")
    (folder / "index.html").write_text(page, encoding="utf-8")


def _number(path: Path) -> int:
    found = re.match(r"graph_(\d+)", path.parent.name)
    return int(found[1]) if found else 0


def _document(title: str, body: str) -> str:
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{html.escape(title)}</title>"
        f"<meta name='viewport' content='width=device-width'><style>{_STYLE}</style><body>{body}</body></html>\n"
    )


def _column(title: str, body: str) -> str:
    return f"<section><h2>{html.escape(title)}</h2>{body}</section>"


def _pre(text: str) -> str:
    return f"<pre>{html.escape(text.strip())}</pre>"


def _source(source: Source) -> str:
    lines = (
        f"<mark>{number:5}  {html.escape(text)}</mark>" if marked else f"{number:5}  {html.escape(text)}"
        for number, text, marked in source.lines
    )  # fmt: skip
    return f"<p><small>{html.escape(source.place)}</small></p><pre>" + "\n".join(lines) + "</pre>"


def _compiled(record: GraphCompiled) -> str:
    rows = [
        ("ATen operators", str(record.nodes)),
        ("library calls", ", ".join(record.library_calls) or "none"),
        ("fallbacks", ", ".join(record.fallbacks) or "none"),
        ("time", ", ".join(f"{name} {seconds:.3f} s" for name, seconds in record.seconds)),
    ]
    table = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in rows)
    folds = [
        _fold("ATen graph", "", record.graph),
        _fold("schedule", "", record.schedule),
        *(_fold(each.name, ", ".join(each.operators), each.source, is_open=True) for each in record.kernels),
    ]
    return f"<table>{table}</table>{''.join(folds)}"


def _fold(title: str, about: str, text: str, *, is_open: bool = False) -> str:
    state = " open" if is_open else ""
    summary = f"{html.escape(title)} <small>{html.escape(about)}</small>"
    return f"<details{state}><summary>{summary}</summary>{_pre(text)}</details>"
