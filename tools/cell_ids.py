"""Ids of cells: each is given once and stays, so that a new cell changes no line but its own."""

import json
import re
from pathlib import Path

import nbformat
from nbformat.v4.nbbase import random_cell_id

VALID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def read(path: Path):
    """The notebook, in which every cell has a valid id of its own: the one it has, else a random one."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    notebook["nbformat_minor"] = max(5, notebook["nbformat_minor"])  # the first with ids
    seen = set()
    for cell in notebook["cells"]:
        if not VALID.fullmatch(str(cell.get("id", ""))) or cell["id"] in seen:
            cell["id"] = random_cell_id()
        seen.add(cell["id"])
    return nbformat.reads(json.dumps(notebook), as_version=4)
