"""The ``{measured}`` directive: a table of numbers that a run has written to a JSON file.

The file holds ``{"caption": str, "note": str, "columns": [str, ...], "rows": [[...], ...]}``; its path
counts from the root of the repository. The first cell of a row names the row. ``results/flash_*.json#forward`` is the
table of that name among the ``"tables"`` of each such file: one for each machine that was measured.
"""

import json
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


def cell_text(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "–" if value is None else str(value)


def table_html(data):
    """An accessible table: a caption, and headers that say whether they head a row or a column."""
    caption = escape(data["caption"])
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in data["columns"])
    body = ""
    for name, *values in data["rows"]:
        if len(values) + 1 != len(data["columns"]):
            raise ValueError(
                f"row {name!r}: {len(values) + 1} cells under {len(data['columns'])} columns"
            )
        body += f'<tr><th scope="row">{escape(cell_text(name))}</th>'
        for value in values:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            body += f"<td{' class=number' if number else ''}>{escape(cell_text(value))}</td>"
        body += "</tr>\n"
    note = f'<p class="measured-note">{escape(data["note"])}</p>' if data.get("note") else ""
    return (
        f'<div class="measured" role="region" aria-label="{caption}" tabindex="0">'
        f'<table class="table"><caption><span>{caption}</span></caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>{note}"
    )


def find_tables(root, argument):
    """The tables that an argument of the directive means, in the order of the files' names."""
    pattern, _, name = argument.partition("#")
    for path in sorted(root.glob(pattern)):
        data = json.loads(path.read_text(encoding="utf-8"))
        if not name:
            yield data
        elif name in data.get("tables", {}):
            yield data["tables"][name]


class Measured(SphinxDirective):
    required_arguments = 1

    def run(self):
        root, argument = Path(self.env.srcdir), self.arguments[0]
        # Of a pattern there is no such file, so the page is read again each time, as it should be.
        self.env.note_dependency(str(root / argument))
        try:
            tables = [table_html(data) for data in find_tables(root, argument)]
        except (KeyError, TypeError, ValueError) as error:
            raise self.error(f"{argument} is not a table: {error!r}") from error
        if not tables:
            return [nodes.paragraph("", "", nodes.emphasis(text="Not measured yet."))]
        return [nodes.raw("", html, format="html") for html in tables]


def setup(app):
    app.add_directive("measured", Measured)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
