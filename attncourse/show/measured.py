"""What was measured on a graphics card, beside the question that it answers; or that nobody has measured it yet."""

import json
import math
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

from attncourse.show.figure import STYLE, Figure

NOT_YET = "Not measured yet, for lack of a card:"


class Measured:
    """Questions, each with its table from the files that `benchmarks/flash_gpu.py` wrote.

    Args:
        questions: name of a table: what it answers.
        folder: where ``flash_<card>.json`` lies, a file for each card; it need not exist.
    """

    def __init__(self, questions: dict[str, str], folder: Path):
        files = [json.loads(x.read_text("utf-8")) for x in sorted(folder.glob("flash_*.json"))]
        self.questions, self.found = questions, {}
        for name in questions:
            self.found[name] = [x["tables"][name] for x in files if name in x.get("tables", {})]

    @property
    def open(self) -> list[str]:
        """The questions without an answer."""
        return [self.questions[name] for name, tables in self.found.items() if not tables]

    def __repr__(self) -> str:
        lines = [f"{self.questions[name]} {len(x)} cards" for name, x in self.found.items() if x]
        return "\n".join(lines + [f"{NOT_YET} {' '.join(self.open)}"] * bool(self.open))

    def _repr_markdown_(self) -> str:
        parts = []
        for name, tables in self.found.items():
            if tables:
                parts += [f"**{self.questions[name]}**", *map(as_markdown, tables)]
        if self.open:
            parts += [NOT_YET, "\n".join(f"- {question}" for question in self.open)]
        return "\n\n".join(parts)


def as_markdown(table: dict) -> str:
    """A table of {caption, note, columns, rows}; what is None was not possible, or not measured."""
    lines = [table["columns"], ["---"] * len(table["columns"]), *table["rows"]]
    rows = ("| " + " | ".join("–" if x is None else str(x) for x in line) + " |" for line in lines)
    return "\n".join([f"*{table['caption']}*", "", *rows, "", table["note"]])


def charts(questions: dict[str, str], folder: Path, caption: str = "") -> Figure | Measured:
    """The tables of the first card as a picture, a panel each; as long as there is none, what is missing.

    A table whose rows have numbers for names becomes curves, both axes logarithmic; another one bars.

    Args: as in `Measured`.
    """
    measured = Measured(questions, folder)
    if not all(measured.found.values()):
        return measured
    tables = [measured.found[name][0] for name in questions]
    heights = [
        3.2 if _is_curve(x) else 0.5 + 0.17 * len(x["rows"]) * len(x["columns"]) for x in tables
    ]
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(5.4, sum(heights)), layout="constrained")
        axes = canvas.subplots(len(tables), 1, squeeze=False, height_ratios=heights)[:, 0]
        for ax, table, question in zip(axes, tables, questions.values(), strict=True):
            (_curves if _is_curve(table) else _bars)(ax, table)
            ax.set_title(f"{question}\n{table['caption']}", fontsize=10, loc="left", wrap=True)
            ax.legend(frameon=False, fontsize=9)
    said = " ".join(
        f"{x['caption']}: {len(x['rows'])} rows, the last one {x['rows'][-1]}." for x in tables
    )
    return Figure(canvas, said, caption)


def _is_curve(table: dict) -> bool:
    return isinstance(table["rows"][0][0], int)


def _curves(ax, table: dict) -> None:
    x, *columns = zip(*table["rows"], strict=True)
    for name, y in zip(table["columns"][1:], columns, strict=True):
        ax.plot(x, [math.nan if v is None else v for v in y], marker="o", markersize=4, label=name)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xlabel(table["columns"][0])


def _bars(ax, table: dict) -> None:
    names = table["columns"][1:]
    thick = 0.8 / len(names)
    for k, name in enumerate(names):
        at = [row + k * thick for row in range(len(table["rows"]))]
        drawn = ax.barh(at, [row[k + 1] or 0 for row in table["rows"]], thick, label=name)
        ax.bar_label(drawn, fmt="%.3g", fontsize=8)
    ax.set_yticks([row + 0.4 - thick / 2 for row in range(len(table["rows"]))])
    ax.set_yticklabels([row[0] for row in table["rows"]], fontsize=9)
    ax.invert_yaxis()
