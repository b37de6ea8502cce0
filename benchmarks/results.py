"""Where measured tables are kept: the book renders them, so prose never copies a number."""

import json
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def write_table(
    name: str, *, caption: str, note: str, columns: list[str], rows: list[list]
) -> None:
    """Write ``results/NAME.json`` in the form that the book's tables have."""
    table = {"caption": caption, "note": note, "columns": columns, "rows": rows}
    text = json.dumps(table, indent=1, ensure_ascii=False)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
