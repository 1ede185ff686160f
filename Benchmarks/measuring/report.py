"""Medians with their spread, and the table."""

from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Spread:
    """The median of several measurements with the least and the most."""

    values: tuple

    @classmethod
    def of(cls, values):
        return cls(tuple(values))

    @classmethod
    def ratios(cls, ours, theirs):
        """Round by round: what disturbs a round disturbs both of its halves."""
        return cls(tuple(mine / other for mine, other in zip(ours, theirs)))

    @property
    def median(self):
        return median(self.values)

    def text(self, unit="", digits=2):
        least, middle, most = (f"{value:,.{digits}f}" for value in (min(self.values), self.median, max(self.values)))
        return f"{middle}{unit} ({least}–{most})"


@dataclass(frozen=True)
class Row:
    """A line of the table: what it came to, what it should come to."""

    work: str
    figure: str
    aim: str = ""
    is_met: bool | None = None
    ours: str = ""
    reference: str = ""

    @property
    def cells(self):
        verdict = {True: "yes", False: "no", None: ""}[self.is_met]
        return [self.work, self.figure, self.aim, verdict, self.ours, self.reference]


def table(heads, rows):
    """A table in Markdown, its columns aligned for a terminal."""
    widths = [max(map(len, column)) for column in zip(heads, *rows)]
    lines = [heads, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in lines)
