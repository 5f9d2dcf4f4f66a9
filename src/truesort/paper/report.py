"""Every table with our numbers beside the paper's, as text and as Markdown.

A cell is what was run and nothing else: a dash where there is no run, and a letter that leads to a note wherever fewer
seeds, fewer steps or another setting than the recipe's stand behind the number.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from truesort import models
from truesort.paper.cells import Group, groups
from truesort.paper.recipes import SEEDS
from truesort.paper.records import Record
from truesort.paper.tables import TABLES, Table

DASH = "–"
DETAILS = (
    "cell", "settings", "seeds", "steps", "exact match", "by element", "exact match, ties", "right picture",
    "validation", "steps to the paper's", "steps/s", "hardware",
)  # fmt: skip
GENERAL = (
    "Ours: mean ± standard deviation over seeds of exact match on 10,000 fixed test sequences, element-wise accuracy "
    "in parentheses, both in percent. The best step is chosen on validation sequences, the test set is looked at once, "
    "and attention stays within the sequence. The paper's numbers are means of five seeds; its code reports the best "
    "test score over training."
)


@dataclass
class Notes:
    """Footnotes by letter; the same text gets the same letter."""

    texts: list[str] = field(default_factory=list)

    def letter(self, text: str) -> str:
        """The letters of a text."""
        if text not in self.texts:
            self.texts.append(text)
        number = self.texts.index(text)
        return (chr(ord("a") + number // 26 - 1) if number >= 26 else "") + chr(ord("a") + number % 26)

    def lines(self) -> list[tuple[str, str]]:
        """Letters and texts."""
        return [(self.letter(text), text) for text in self.texts]


@dataclass(frozen=True)
class Rendered:
    """A table ready to be written in any form: a line of ours and one of the paper's for each row."""

    table: Table
    lines: list[tuple[str, list[str], list[str]]]
    notes: Notes
    details: list[list[str]]


def render(table: Table, records: Sequence[Record]) -> Rendered:
    """Fill a table."""
    notes, lines, details = Notes(), [], []
    for row, label in table.rows.items():
        ours, paper = [], []
        for column in table.columns:
            cell = groups(table, row, column, records)
            ours.append(_ours(cell[0], table, row, column, notes) if cell else DASH)
            paper.append(_paper(table.published(row, column)))
            details += [_detail(group, table, row, column) for group in cell]
        lines.append((label, ours, paper))
    return Rendered(table, lines, notes, details)


def _ours(group: Group, table: Table, row: str, column: str, notes: Notes) -> str:
    exact, element = group.percent(), group.percent("element_wise")
    remark = remarks(group, table, row, column)
    mark = f" [{notes.letter(remark)}]" if remark else ""
    if exact is None or element is None:
        return f"failed{mark}"
    return f"{_with_deviation(exact)} ({element[0]:.1f}){mark}"


def remarks(group: Group, table: Table, row: str, column: str) -> str:
    """How a group departs from five seeds of the recipe, in words; empty if it does not."""
    full, parts = table.recipe(row, column), []
    seeds = [str(record.config.seed) for record in group.records]
    if len(seeds) < len(SEEDS):
        parts.append(f"seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)} only")
    if group.steps != full.config.steps:
        parts.append(f"{group.steps:,} steps instead of {full.config.steps:,}")
    parts += group.differences
    return "; ".join([*parts, *_failures(group)])


def _with_deviation(found: tuple[float, float | None]) -> str:
    mean, deviation = found
    return f"{mean:.1f}" if deviation is None else f"{mean:.1f} ± {deviation:.1f}"


def _paper(found: tuple[float, float] | None) -> str:
    return DASH if found is None else f"{found[0]:.1f} ({found[1]:.1f})"


def _detail(group: Group, table: Table, row: str, column: str) -> list[str]:
    def shown(metric: str, split: str = "test") -> str:
        found = group.percent(metric, split)
        return DASH if found is None else _with_deviation(found)

    return [
        f"{table.rows[row]}, {table.columns[column]}",
        "; ".join([*group.differences, *_failures(group)]) or "the recipe's",
        str(len(group.records)),
        f"{group.steps:,}",
        *(shown(metric) for metric in ("exact_match", "element_wise", "exact_match_ties", "same_picture")),
        shown("exact_match", "validation"),
        _steps_to_paper(group, table.published(row, column)),
        _speed(group),
        "; ".join(dict.fromkeys(f"{record.hardware}, {record.config.precision}" for record in group.records)),
    ]


def _failures(group: Group) -> list[str]:
    return [f"seed {record.config.seed}: {record.failed}" for record in group.records if record.failed]


def _steps_to_paper(group: Group, paper: tuple[float, float] | None) -> str:
    """The step at which each seed's validation first reached the paper's exact match: the median of those who did."""
    if paper is None or not group.finished:
        return DASH
    steps = sorted(step for record in group.finished if (step := record.first_step_at(paper[0] / 100)) is not None)
    if not steps:
        return "not reached"
    share = "" if len(steps) == len(group.finished) else f" ({len(steps)} of {len(group.finished)})"
    return f"{steps[len(steps) // 2]:,}{share}"


def _speed(group: Group) -> str:
    found = [record.steps_per_second for record in group.finished]
    shared = max((record.at_once for record in group.finished), default=1)
    beside = f", {shared} at once" if shared > 1 else ""
    return f"{sum(found) / len(found):,.0f}{beside}" if found else DASH


def markdown(records: Sequence[Record], names: Iterable[str] = TABLES) -> str:
    """All tables as Markdown."""
    parts = [GENERAL, *(_markdown_table(render(TABLES[name], records)) for name in names), _capacity()]
    return "\n\n".join(parts) + "\n"


def _markdown_table(rendered: Rendered) -> str:
    table = rendered.table
    parts = [f"### {table.title}"]
    if table.note:
        parts.append(table.note)
    rows = [
        [label, *(_stacked(mine, theirs) for mine, theirs in zip(ours, paper, strict=True))]
        for label, ours, paper in rendered.lines
    ]
    parts.append(_grid(["ours<br>*paper*", *table.columns.values()], rows))
    if notes := rendered.notes.lines():
        parts.append("\n".join(f"- [{letter}] {text}" for letter, text in notes))
    if sources := _sources(table):
        parts.append(sources)
    if rendered.details:
        parts.append("Runs behind this table:\n\n" + _grid(DETAILS, rendered.details))
    return "\n\n".join(parts)


def _stacked(ours: str, paper: str) -> str:
    mine = DASH if ours == DASH else f"**{ours}**"
    return f"{mine}<br>*{paper}*"


def _grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _sources(table: Table) -> str:
    """Who chose what the paper's text leaves open, over all rows."""
    found: dict[str, set[str]] = {}
    for row in table.rows:
        for column in table.columns:
            for name, source in table.recipe(row, column).sources.items():
                found.setdefault(source, set()).add(f"`{name}`")
    chosen = "; ".join(f"{', '.join(sorted(names))} ({source})" for source, names in sorted(found.items()))
    return f"What the paper's text leaves open, and whose values these are: {chosen}." if chosen else ""


def _capacity() -> str:
    rows = [
        [row.task, row.model, str(row.length), f"{row.parameters:,}", row.paper_parameters,
         f"{row.multiply_adds:,}", row.paper_multiply_adds]
        for row in models.rows()
    ]  # fmt: skip
    head = ["task", "model", "n", "parameters", "paper", "multiply-adds of one sequence", "paper"]
    return "### Sizes of the scorers\n\n" + _grid(head, rows)


def text(records: Sequence[Record], names: Iterable[str] = TABLES, details: bool = False) -> str:
    """The tables for a terminal: ours above, the paper's below."""
    return "\n".join(_text_table(render(TABLES[name], records), details) for name in names)


def _text_table(rendered: Rendered, details: bool) -> str:
    table = rendered.table
    rows = [["", *table.columns.values()]]
    for label, ours, paper in rendered.lines:
        rows += [[label, *ours], ["  paper", *paper]]
    parts = [f"{table.title}  [{table.name}]", _aligned(rows)]
    parts += [f"  [{letter}] {note}" for letter, note in rendered.notes.lines()]
    if details and rendered.details:
        parts += ["", _aligned([list(DETAILS), *rendered.details])]
    return "\n".join(parts) + "\n"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    first, *rest = widths
    lines = [
        "  ".join([head.ljust(first), *(cell.rjust(width) for cell, width in zip(cells, rest, strict=True))])
        for head, *cells in rows
    ]
    return "\n".join(line.rstrip() for line in lines)
