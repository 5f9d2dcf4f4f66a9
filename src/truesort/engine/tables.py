"""Tables of results: on a terminal and in Markdown from the same rows."""

from dataclasses import dataclass, field

from rich import box
from rich.console import Console
from rich.table import Table

WIDTH_IN_A_PIPE = 140


@dataclass(frozen=True)
class Sheet:
    """Rows of texts under columns; the first `labels` columns say what a row is about, the others hold numbers."""

    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    labels: int = 2

    def markdown(self) -> str:
        """As docs show it."""
        rule = [":---"] + ["---:"] * (len(self.columns) - 1)
        return "\n".join(f"| {' | '.join(row)} |" for row in (self.columns, rule, *self.rows))

    def show(self, title: str = "") -> None:
        """Print it, under its columns if they have names."""
        table = Table(title=title or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
        table.show_header = any(self.columns)
        for number, column in enumerate(self.columns):
            table.add_column(column, justify="right" if number >= self.labels else "left", overflow="fold")
        for row in self.rows:
            table.add_row(*row)
        console = Console()
        Console(width=None if console.is_terminal else WIDTH_IN_A_PIPE, highlight=False).print(table)
