"""Gives every figure of a notebook its alt text: the plain-text form of the same output.

Without this, the alt text of a notebook's figure on the site would be the path of its file.
"""

import json

from sphinx.util import logging

logger = logging.getLogger(__name__)


def plain(text):
    return " ".join(("".join(text) if isinstance(text, list) else text).split())


def add_alt(notebook):
    """Copy text/plain into the cell metadata that myst-nb reads; return what went wrong, as sentences."""
    problems = []
    for number, cell in enumerate(notebook["cells"]):
        bundles = [out.get("data", {}) for out in cell.get("outputs", [])]
        alts = [plain(data.get("text/plain", "")) for data in bundles if "image/png" in data]
        if len(alts) > 1:
            problems.append(
                f"cell {number} shows {len(alts)} figures; alt text needs one figure for each cell"
            )
        elif alts and (not alts[0] or alts[0].startswith("<")):
            problems.append(
                f"cell {number} shows a figure without alt text; return an attncourse.plots.Figure"
            )
        elif alts:
            image = cell["metadata"].setdefault("mystnb", {}).setdefault("image", {})
            image.setdefault("alt", alts[0])
    return problems


def read(app, docname, source):
    if not str(app.env.doc2path(docname)).endswith(".ipynb"):
        return
    notebook = json.loads(source[0])
    for problem in add_alt(notebook):
        logger.warning(problem, location=docname)
    source[0] = json.dumps(notebook)


def setup(app):
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
