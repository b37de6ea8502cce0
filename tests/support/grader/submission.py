"""Notebooks made by hand, for tests of how they are read."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[3]
SETUP = "import torch\nfrom attncourse.grading import check"
ANSWER = "def causal_mask(n, m):\n    return torch.arange(m) <= torch.arange(n)[:, None]"
CHECK = 'check("causal_mask", causal_mask)'
SOLVED = ROOT / "exercises" / "solutions" / "02_masks.ipynb"


def cell(source, kind="code", grade_id=""):
    metadata = {"nbgrader": {"grade_id": grade_id}} if grade_id else {}
    return {"cell_type": kind, "metadata": metadata, "source": source}


def write(path: Path, *cells, **other) -> Path:
    cells = [cell(x) if isinstance(x, str) else x for x in cells]
    path.write_text(json.dumps({"nbformat": 4, "cells": cells} | other), encoding="utf-8")
    return path


def sources(submission) -> list[str]:
    return [cell.source for cell in submission.cells]
