"""The cells in the bytes of a notebook, whatever shape it is in.

Done by hand, not by nbformat, which refuses a notebook for one bad cell and takes longer to check
its schema than all else here takes together.
"""

import json
from typing import Any

from attngrade.repair import Piece, worth_a_look

MOST_CELLS = 2000
LARGEST_CELL = 50_000
MOST_CODE = 300_000


class Unreadable(Exception):
    """Nothing of this file can be graded; the message says why, in a whole sentence."""


def pieces_of(data: bytes, problems: list[str]) -> list[Piece]:
    """The cells as they stand in the file; ``problems`` gets a sentence for each that is left out.

    Raises:
        Unreadable: this is no notebook, or an absurd one.
    """
    pieces, room = [], MOST_CODE
    for number, cell in enumerate(_cells(_notebook(data, problems)), start=1):
        piece = _piece(number, cell, problems)
        if piece is None:
            continue
        if not worth_a_look(piece):
            pieces.append(piece)
            continue
        if len(piece.source) > min(LARGEST_CELL, room):
            why = "holds more text than anyone types" if room > LARGEST_CELL else "is too much"
            problems.append(f"Cell {number} {why} ({len(piece.source):,} characters); left out.")
            continue
        room -= len(piece.source)
        pieces.append(piece)
    return pieces


def _notebook(data: bytes, problems: list[str]) -> dict:
    if not data.strip():
        raise Unreadable("The file is empty; expected a notebook.")
    try:
        notebook = json.loads(data)
    except UnicodeDecodeError:
        notebook = _loads(data.decode("utf-8", "replace").removeprefix("\ufeff"))
        problems.append("The file holds bytes that are no text; they were replaced.")
    except (ValueError, RecursionError):
        notebook = _loads(data)
    if not isinstance(notebook, dict):
        raise Unreadable("The file is JSON, but no notebook: expected an object with cells.")
    return notebook


def _loads(text: bytes | str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise Unreadable("The file nests lists in lists too deeply; expected a notebook.") from None
    except ValueError as error:
        where = f" ({error})" if isinstance(error, json.JSONDecodeError) else ""
        raise Unreadable(
            f"The file is no notebook: it cannot be read as JSON{where}. Expected an .ipynb file."
        ) from None


def _cells(notebook: dict) -> list:
    """The cells of nbformat 4, or those of the worksheets of nbformat 3."""
    cells = notebook.get("cells")
    if cells is None and isinstance(notebook.get("worksheets"), list):
        sheets = [x for x in notebook["worksheets"] if isinstance(x, dict)]
        lists = [x["cells"] for x in sheets if isinstance(x.get("cells"), list)]
        cells = [cell for some in lists for cell in some]
    if not isinstance(cells, list):
        raise Unreadable("The file is JSON, but no notebook: expected an object with cells.")
    if len(cells) > MOST_CELLS:
        raise Unreadable(
            f"The notebook has {len(cells):,} cells; at most {MOST_CELLS:,} were expected."
        )
    return cells


def _piece(number: int, cell: Any, problems: list[str]) -> Piece | None:
    if not isinstance(cell, dict):
        problems.append(f"Cell {number} is no cell but {_kind(cell)}; left out.")
        return None
    source = cell.get("source", cell.get("input", ""))  # nbformat 3 calls it input
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        ended = any(line.endswith("\n") for line in source[:-1])
        source = ("" if ended else "\n").join(source)
    if not isinstance(source, str):
        problems.append(f"The source of cell {number} is no text but {_kind(source)}; left out.")
        return None
    if "\0" in source:
        problems.append(f"Cell {number} held null bytes, which were left out.")
    source = source.replace("\0", "").replace("\ufeff", "")
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    source = source.encode("utf-8", "replace").decode()  # half a character, which no text may hold
    return Piece(number, str(cell.get("cell_type", ""))[:20], source, _grade_id(cell))


def _grade_id(cell: dict) -> str:
    metadata = cell.get("metadata")
    mark = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    grade_id = mark.get("grade_id") if isinstance(mark, dict) else None
    return grade_id if isinstance(grade_id, str) else ""


def _kind(x: Any) -> str:
    return {dict: "an object", list: "a list", str: "text", type(None): "nothing"}.get(
        type(x), "a number"
    )
