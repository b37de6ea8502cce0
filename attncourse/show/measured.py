"""What was measured on a graphics card, beside the question that it answers; or that nobody has measured it yet."""

import json
from pathlib import Path

NOT_YET = "not measured yet"


class Measured:
    """Questions, each with its table from the files that `benchmarks/flash_gpu.py` wrote.

    Args:
        questions: name of a table: what it answers.
        folder: where ``flash_<card>.json`` lies, a file for each card; it need not exist.
    """

    def __init__(self, questions: dict[str, str], folder: Path):
        self.questions = questions
        files = [
            json.loads(x.read_text(encoding="utf-8")) for x in sorted(folder.glob("flash_*.json"))
        ]
        self.found = {name: [x["tables"][name] for x in files if name in x.get("tables", {})]
                      for name in questions}  # fmt: skip

    def __repr__(self) -> str:
        counts = {name: f"{len(x)} cards" if x else NOT_YET for name, x in self.found.items()}
        return "\n".join(f"{self.questions[name]} {counts[name]}" for name in self.questions)

    def _repr_markdown_(self) -> str:
        parts = []
        for name, question in self.questions.items():
            tables = [as_markdown(table) for table in self.found[name]]
            parts.append(
                "\n\n".join([f"**{question}**", *tables]) if tables else f"**{question}** {NOT_YET}"
            )
        return "\n\n".join(parts)


def as_markdown(table: dict) -> str:
    """A table of {caption, note, columns, rows}; what is None was not possible, or not measured."""
    lines = [table["columns"], ["---"] * len(table["columns"]), *table["rows"]]
    rows = ("| " + " | ".join("–" if x is None else str(x) for x in line) + " |" for line in lines)
    return "\n".join([f"*{table['caption']}*", "", *rows, "", table["note"]])
