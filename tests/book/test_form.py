"""The rules of a chapter, each on a small notebook that keeps all of them and then breaks one."""

import base64

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from support.book import form, glossary

pytestmark = pytest.mark.quick

TERMS = ["attention", "KV cache", "key", "query", "self-attention", "sliding window"]
PICTURE = new_output("display_data", {"image/png": base64.b64encode(b"x").decode()})
FILLER = "Plain words follow each other here. " * 70
ENDING = "\n\n".join(f"## {heading}\n\n{FILLER}" for heading in form.HEADINGS)


def run(source: str, *tags: str, figure: bool = False):
    outputs = [PICTURE] if figure else []
    return new_code_cell(source, metadata={"tags": list(tags)}, outputs=outputs)


@pytest.fixture
def notebook():
    """Title, installation, situation, picture, imports, question, run, answer, verdict, more."""
    return new_notebook(
        cells=[
            new_markdown_cell("# Attention: one idea\n\nSomebody waits."),
            run("import os\n" * 30, "bootstrap", "remove-cell"),
            new_markdown_cell("Why so long?"),
            run("from x import y\ny()", "hide-input", figure=True),
            run("import torch", "hide-input"),
            new_markdown_cell(f"{form.PREDICTION} What comes? (a) 1 (b) 2"),
            run("1 + 1", "hide-output"),
            new_markdown_cell("<details><summary>Answer</summary>\n\n(b)\n\n</details>"),
            run("assert 1 + 1 == 2", "hide-cell"),
            *[run("a = 1\nb = 2") for _ in range(form.CELLS[0])],
            new_markdown_cell(ENDING),
        ]
    )


@pytest.mark.parametrize("rule", form.RULES, ids=lambda rule: rule.__name__)
def test_rule_is_kept(rule, notebook):
    assert rule(notebook) == []


def change(k: int, **changes):
    """Something else in a cell: its source, its tags or its outputs."""

    def changed(cells):
        tags = changes.pop("tags", None)
        if tags is not None:
            cells[k].metadata["tags"] = tags
        cells[k].update(changes)

    return changed


def insert(k: int, cell):
    return lambda cells: cells.insert(k, cell)


LINES = "\n".join("a = 1" for _ in range(21))
BROKEN = {
    "long opening": ("opening", change(2, source="word " * 109), "before the picture; got 111"),
    "no words": ("opening", lambda cells: (cells.pop(2), cells[0].update(source="# A")), "got 0;"),
    "no picture": ("opening", change(3, outputs=[]), "a picture from the first code cell; got from x import y"),
    "imports first": ("opening", insert(3, run("import torch")), "first code cell; got import torch"),
    "code of the picture": ("opening", change(3, tags=[]), "y; tag the cell hide-input"),
    "folded picture": ("opening", change(3, tags=["hide-cell"]), "tag the cell hide-input"),
    "long cell": ("small_cells", change(10, source=LINES), "21 lines: a = 1"),
    "long and output folded": ("small_cells", change(10, source=LINES, tags=["hide-output"]), "21 lines"),
    "very long folded": ("small_cells", change(8, source=f"{LINES}\n{LINES}"), "42 lines: a = 1"),
    "all cells long": ("small_cells", lambda cells: [x.update(source="a\n" * 7 + "a") for x in cells[9:-1]], "in the median cell; got 8 lines"),
    "no code": ("predictions", lambda cells: cells.pop(6), "What comes? (a) 1 (b) 2; got a markdown"),
    "output in view": ("predictions", change(6, tags=[]), "got a code cell tagged []"),
    "no answer": ("predictions", lambda cells: cells.pop(7), "got a code cell tagged ['hide-cell']"),
    "answer in view": ("predictions", change(7, source="(b)"), "the answer in <details>"),
    "at the end": ("predictions", insert(99, new_markdown_cell(f"Now. {form.PREDICTION} What?")), "tagged hide-output after: **Before you run it.** What?; got no cell"),
    "verdict in view": ("verdicts", change(8, tags=[]), "got assert 1 + 1 == 2; tag the cell hide-cell"),
    "verdict with output folded": ("verdicts", change(8, tags=["hide-output"]), "tag the cell"),
    "few words": ("size", change(-1, source="Few."), "words; show more"),
    "many words": ("size", change(-1, source="word " * 3_300), "words; cut"),
    "few cells": ("size", lambda cells: cells.__delitem__(slice(10, 20)), "code cells; show more"),
    "no summary": ("sections", change(-1, source=ENDING.replace("Summary", "End")), "'## Summary'"),
    "a document": ("no_document_numbers", change(2, source="See document 003."), "'document 003'"),
    "its number": ("no_document_numbers", change(9, source="# as in 001"), "'001' in: # as in"),
    "a sum on two lines": ("whole_formulas", change(2, source="Let $a = b\n+ c$ be."), "'+' inside"),
    "two sums": ("whole_formulas", change(2, source="- If $a$\n- or $b\n- c$, $d$."), "'-' inside"),
    "a term": ("explained_terms", change(2, source="Why a key?"), "write [key](glossary.md#term-key)"),
}  # fmt: skip


@pytest.mark.parametrize(("rule", "breaks", "message"), BROKEN.values(), ids=BROKEN)
def test_rule_is_broken(rule, breaks, message, notebook):
    breaks(notebook.cells)
    assert message in "\n".join(getattr(form, rule)(notebook))


def test_what_no_rule_forbids(notebook):
    cells = notebook.cells
    cells[2].source = "It costs 0.001 of 1,000, in 2001, for agent 007x."
    cells[2].source += "\n\n- $a$\n- $b +\n  c$\n\n$$\na\n+ b\n$$\n\n`$`\n- \\$ 5, $a$\n- `$`"
    cells[8] = run("assert 1\nplot()", figure=True)
    cells[9] = run("\n".join(["a = 1"] * 40), "hide-input")
    assert [rule(notebook) for rule in form.RULES] == [[]] * len(form.RULES)


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("A key and a query.", ["key", "query"]),
        ("Keys, then [keys](glossary.md#term-key).", ["key"]),
        ("[Keys](glossary.md#term-key), then keys.", []),
        ("[What it shows](../chapters/glossary.md#term-key) is a key.", []),
        ("A *key* is what it shows; **queries** ask. Key, query.", []),
        ("*A sentence of many words, in which a key stands and goes on and on, explains nothing.*", ["key"]),
        ("[A key](masks.ipynb) and [another](glossary.md#term-query).", ["key"]),
        ("`key`, $key$, $$key$$, <key>\n\n```python\nkey\n```\n\n## The key\n\nKeyword, monkeys.", []),
        ("Self-attention and attention.", ["self-attention", "attention"]),
        ("[Self-attention](glossary.md#term-self-attention) is attention.", ["attention"]),
        ("[The cache](glossary.md#term-kv-cache). KV\ncaches.", []),
        ("Sliding windows.", ["sliding window"]),
    ],
)  # fmt: skip
def test_terms_that_a_text_leaves_unexplained(text, missing):
    assert glossary.unexplained(text, TERMS) == missing


def test_terms_and_their_anchors():
    text = "# Glossary\n\nNone\n\n```{glossary}\nKV cache\n  Kept.\n\nembed_dim\n  Width.\n```\n\nmore\n"
    assert glossary.terms(text) == ["KV cache", "embed_dim"]
    assert [glossary.slug(x) for x in glossary.terms(text)] == ["kv-cache", "embed_dim"]
    links = "[a](glossary.md#term-key) [b](../chapters/glossary.md#term-no-key) [c](notation.md#x)"
    assert glossary.unknown_links(links, TERMS) == ["no-key"]
