"""Lets the API pages show docstrings that are written to be read in an editor.

Three things change before napoleon reads the Google sections: an indented equation becomes a code
block; a one-line label such as ``Cost: ...`` becomes its own paragraph; the keys in a ``Source:`` line
become citations and the name in a ``Chapter:`` line becomes a link. A key that is not in
``references.bib`` is a warning, and so an error.
"""

import re

LABEL = re.compile(r"(Args|Returns|Raises|Cost|Reduces to|Source|Chapter): (\S.*)")
BIB_KEY = re.compile(r"\b[a-z]+(?:19|20)\d\d[a-z]?\b")
CHAPTER = re.compile(r"\b\d\d_\w+")
SECTION = re.compile(r"[A-Z]\w+:$")
CODE = re.compile(r"(`+.*?`+)")


def link(label, text, found_docs):
    if label == "Source":
        return BIB_KEY.sub(lambda key: f":cite:t:`{key[0]}`", text)
    if label == "Chapter":
        return CHAPTER.sub(
            lambda name: (
                f":doc:`/chapters/{name[0]}`" if f"chapters/{name[0]}" in found_docs else name[0]
            ),
            text,
        )
    return text


def escape_bars(text):
    """|x| is an absolute value here, and the start of a substitution in reStructuredText."""
    return "".join(
        part if CODE.match(part) else part.replace("|", r"\|") for part in CODE.split(text)
    )


def rewrite(lines, found_docs=()):
    """The docstring as reStructuredText plus Google sections."""
    out, label, section, block = [], None, False, False
    for line in lines:
        indented = line.startswith(" ")
        if not indented or section:
            line = escape_bars(line)
        if not line.strip():
            label = None
        elif not indented:
            section = block = False
            match = LABEL.match(line)
            if match:
                label = match[1]
                line = f"**{label}.** {link(label, match[2], found_docs)}"
                out.append("")
            else:
                section = bool(SECTION.match(line))
                line = link(label, line, found_docs)
        elif label:  # the continuation of a one-line label
            line = link(label, line.strip(), found_docs)
        elif not section:  # an equation
            if not block:
                out += ["", ".. code-block:: text", ""]
            block, line = True, "    " + line
        out.append(line)
    return out


def process(app, what, name, obj, options, lines):
    lines[:] = rewrite(lines, app.env.found_docs)


def setup(app):
    app.connect("autodoc-process-docstring", process, priority=400)  # napoleon comes at 500
    return {"parallel_read_safe": True, "parallel_write_safe": True}
