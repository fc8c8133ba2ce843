"""Every Python block of the README, the documentation and the packages' pages runs."""

import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("packages/*/README.md"))]
# design.md shows contracts, with dots for bodies; index.md is printed by the tool and compared in the next file.
NOT_PROGRAMS = {"design.md", "index.md"}
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks():
    for page in PAGES:
        if page.name in NOT_PROGRAMS:
            continue
        for number, block in enumerate(BLOCK.findall(page.read_text()), 1):
            yield pytest.param(block, page, id=f"{page.relative_to(ROOT)}:{number}")


@pytest.mark.parametrize(("block", "page"), list(blocks()))
def test_the_block_runs(block, page, tmp_path, monkeypatch):
    if ".cuda()" in block and not torch.cuda.is_available():
        pytest.skip("the block uses a CUDA device")
    monkeypatch.chdir(tmp_path)
    # Written to a file, since functions without source lines cannot be reported on by line.
    path = tmp_path / f"{page.stem}.py"
    path.write_text(block)
    exec(compile(block, str(path), "exec"), {"__name__": "__main__"})


def links(page):
    """Those to files of this repository; code is no prose."""
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [link for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) if "://" not in link]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file(page):
    assert [link for link in links(page) if not (page.parent / link).exists()] == []


def test_the_glossary_is_short_and_links_each_word_to_its_module():
    text = (ROOT / "docs" / "glossary.md").read_text()
    entries = re.findall(r"^\* \*\*(.+?)\*\*: .+ \(\[`.+`\]\(\.\./packages/.+\.(?:pyi?|c)\)\)$", text, re.MULTILINE)
    assert len(entries) == len(set(entries)) == text.count("\n* ") <= 60


def test_there_are_blocks():
    assert len(list(blocks())) > 5


def test_every_message_of_the_troubleshooting_page_is_one_of_ours():
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    sources = " ".join(path.read_text() for path in ROOT.glob("packages/*/src/**/*.py"))
    for message in re.findall(r"^### `(.+)`$", page, re.MULTILINE):
        words = re.sub(r"needs onnx, onnxruntime", "needs {", message)
        assert words in sources, message


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        assert str(page.relative_to(ROOT / "docs")) in navigation
