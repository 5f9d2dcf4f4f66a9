"""Every Python block of README and docs runs, and prints what its comments say.

The blocks of a page run in order in one namespace, in an empty folder, so that a page reads as one session. Where a
line `print(...)  # text` stands in a block, the block's output must be those texts, line by line.
"""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*).*?\n(?P<code>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
SAYS = re.compile(r"^print\(.*\)  # (.+)$", re.MULTILINE)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> Iterator[tuple[int, str, str]]:
    """`(line, language, code)` of each fenced block."""
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        yield text.count("\n", 0, found.start("code")), found["language"], textwrap.dedent(found["code"])


def code_pages() -> list[Path]:
    return [page for page in PAGES if any(language == "python" for _, language, _ in blocks(page))]


@pytest.mark.parametrize("page", code_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line, language, code in blocks(page):
        if language == "python":
            exec(compile("\n" * line + code, str(page), "exec"), namespace)
            printed = capsys.readouterr().out.splitlines()
            assert not SAYS.search(code) or printed == SAYS.findall(code), f"{page.name}, block at line {line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_block_escapes(page: Path) -> None:
    """Other spellings of the language would silently not run."""
    assert {language for _, language, _ in blocks(page)} <= {"python", "sh", "text", "toml", "yaml", "json", "bibtex"}
