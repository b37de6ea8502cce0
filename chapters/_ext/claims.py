"""The ``{claims}`` directive: what the documents say as one table, and a cell of a notebook for each row.

The YAML file that it names holds ``documents`` and ``claims``; a claim has ``id, by, claim, verdict, why, cells``, and
``code``, the document whose code is wrong, where that is the verdict. A cell is ``name of the notebook#its id``: every
code cell of the site has an anchor made of its id. By ``synonyms`` a row is found under other names, too.
"""

import json
import re
from html import escape
from pathlib import Path

import yaml
from docutils import nodes
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from sphinx.util.docutils import SphinxDirective

VERDICTS = {
    "true": "true",
    "conditional": "conditional",
    "false": "false",
    "code": "false of its code",
}
KEYS = {"id", "by", "claim", "verdict", "why", "cells"}
WRITTEN = MarkdownIt("commonmark", {"html": False}).use(
    dollarmath_plugin, renderer=lambda formula, _: rf"\({escape(formula)}\)"
)


def anchor(cell_id):
    """The id that the site gives to a code cell."""
    return f"cell-{cell_id}"


def name_cells(app, doctree):
    """Give the code cells of a notebook their anchors, so that a link can lead to one of them, one in Markdown, too."""
    source = Path(app.env.doc2path(app.env.docname))
    if source.suffix != ".ipynb":
        return
    cells = json.loads(source.read_text(encoding="utf-8"))["cells"]
    for node in doctree.findall(nodes.container):
        if node.get("nb_element") == "cell_code":
            name = anchor(cells[node["cell_index"]]["id"])
            node["ids"].append(name)
            # The targets that MyST knows in a document: line, id and text.
            app.env.metadata[app.env.docname].setdefault("myst_slugs", {})[name] = (0, name, "")


def read(path):
    """The documents and the claims of a file; what a claim lacks or has too much is an error."""
    data = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    for claim in data["claims"]:
        keys = KEYS | ({"code"} if claim.get("verdict") == "code" else set())
        if claim.keys() != keys or claim["verdict"] not in VERDICTS or not claim["cells"]:
            raise ValueError(
                f"claim {claim.get('id')}: a claim has {sorted(keys)}, its verdict is one of {sorted(VERDICTS)}, and "
                f"there is a cell; got {claim}"
            )
        if claim.get("code", claim["by"][0]) not in claim["by"]:
            raise ValueError(
                f"claim {claim['id']}: {claim['code']}, whose code it is, does not say it"
            )
        unknown = set(claim["by"]) - data["documents"].keys()
        if unknown:
            raise ValueError(f"claim {claim['id']}: there are no documents {sorted(unknown)}")
    return data


def links(claim, notebooks):
    """Links to the cells of a claim, each with a name of its own."""
    names, shown = [], []
    for cell in claim["cells"]:
        stem, _, cell_id = cell.partition("#")
        number, _, _ = stem.partition("_")
        names.append(f"chapter {int(number)}" if number.isdigit() else notebooks[stem])
        again = f" ({names.count(names[-1])})" if names.count(names[-1]) > 1 else ""
        shown.append(f'<a href="{stem}.html#{anchor(cell_id)}">{escape(names[-1])}{again}</a>')
    return ", <br>".join(shown)


def judged(claim):
    """The verdict in words, which tell whose code it is."""
    kind = claim["verdict"]
    said = f"true; false of the code of {claim['code']}" if kind == "code" else VERDICTS[kind]
    return f'<span class="verdict {kind}">{said}</span>'


def words(claim, synonyms):
    """By what a row is found besides its text: formulas as they are written, other names of what it speaks of."""
    text = f"{claim['claim']} {claim['why']}"
    names = [other for name, other in synonyms.items() if name in text.lower()]
    return escape(" ".join([*re.findall(r"\$(.+?)\$", text), *names]))


def row(claim, data):
    """One claim as a row; the labels are what a phone shows in front of each cell."""
    said = WRITTEN.renderInline(claim["claim"])
    why = WRITTEN.renderInline(claim["why"])
    by = ", ".join(claim["by"])
    shown = links(claim, data["notebooks"])
    return (
        f'<tr id="claim-{claim["id"]}" data-verdict="{claim["verdict"]}" data-code="{claim.get("code", "")}" '
        f'data-by="{" ".join(claim["by"])}" data-words="{words(claim, data["synonyms"])}">'
        f'<th scope="row">{claim["id"]}</th>'
        f'<td data-label="claim">{said}</td><td data-label="by">{by}</td>'
        f'<td data-label="verdict">{judged(claim)}</td>'
        f'<td data-label="why">{why}</td><td data-label="shown in">{shown}</td></tr>'
    )


def table(data):
    """The claims as a plain table, which a script may narrow down."""
    head = "".join(
        f'<th scope="col">{x}</th>' for x in ("no.", "claim", "by", "verdict", "why", "shown in")
    )
    rows = "\n".join(row(claim, data) for claim in data["claims"])
    return (
        '<div class="claims" role="region" aria-label="Claims" tabindex="0" '
        f'data-verdicts="{escape(json.dumps(VERDICTS))}"><table class="table"><caption>'
        "What the documents claim</caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def counts(data):
    """How often each verdict was given, in words."""
    found = [claim["verdict"] for claim in data["claims"]]
    return ", ".join(f"{found.count(kind)} {name}" for kind, name in VERDICTS.items())


class Claims(SphinxDirective):
    required_arguments = 1

    def run(self):
        path = Path(self.env.srcdir) / self.arguments[0]
        self.env.note_dependency(str(path))
        try:
            data = read(path)
        except (KeyError, TypeError, ValueError) as error:
            raise self.error(f"{self.arguments[0]}: {error}") from error
        note = nodes.paragraph("", f"{len(data['claims'])} claims: {counts(data)}.")
        return [note, nodes.raw("", table(data), format="html")]


def setup(app):
    app.add_directive("claims", Claims)
    app.connect("doctree-read", name_cells)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
