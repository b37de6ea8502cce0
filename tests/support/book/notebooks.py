"""The notebooks of the course, for the tests that read them."""

import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[3]
CHAPTERS = sorted(ROOT.glob("chapters/[0-9][0-9]_*.ipynb"))
# Pages that run, but teach nothing: they have no number, and the form of a chapter is not asked of them.
PAGES = sorted(set(ROOT.glob("chapters/*.ipynb")) - set(CHAPTERS))
MASTERS = sorted(ROOT.glob("exercises/solutions/*.ipynb"))
STUDENTS = sorted(ROOT.glob("exercises/*.ipynb"))
EXECUTED = [*CHAPTERS, *PAGES, *MASTERS]
ALL = [*EXECUTED, *STUDENTS]

# Chapters in the form that they had before they were told anew. One that is told anew loses its line here:
# everything that is not named here, a new chapter too, is held to the rules of `support.book.form`.
OLDER = ("kv_cache", "multi_query", "grouped_query", "latent")
TAUGHT = [path for path in CHAPTERS if path.stem.partition("_")[2] not in OLDER]
OLD = [path for path in CHAPTERS if path not in TAUGHT]


def chapter(path: Path) -> str:
    """``multi_head`` for 03_multi_head.ipynb: the name without the number, which is only the order, if there is one."""
    return re.sub(r"^\d\d_", "", path.stem)


def each(paths):
    return pytest.mark.parametrize("path", paths, ids=lambda p: p.relative_to(ROOT).as_posix())


def read(path: Path):
    return nbformat.read(path, as_version=4)


def cells(path: Path, kind: str) -> list:
    return [cell for cell in read(path).cells if cell.cell_type == kind]
