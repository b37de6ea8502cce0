"""The file itself: hostile metadata, markup, shapes, sizes and names."""

import json

from grader.attacks import WRONG, Attacks, right

ATTACKS = Attacks("notebooks", ends="")
MASK = "causal_mask"
MARKUP = '"><img src=x onerror=alert("@TAG@")><script>document.title="@TAG@"</script>{{7*7}}${7*7}'
PASSED = {"name": MASK, "status": "passed", "points": 1, "out_of": 1}


def notebook(name: str, source: str = WRONG[MASK], **how):
    """Decorates what is done to the notebook before it is handed in."""

    def add(edit):
        ATTACKS.add(name, source, edit=edit, **how)
        return edit

    return add


@notebook("metadata and outputs that claim points", ends="failed")
def _(nb):
    nb["metadata"] |= {"attncourse": {"points": 99}, "points": 99, "total_score": 99}
    mark = {"grade": True, "grade_id": MASK, "points": 99, "locked": True, "solution": True}
    for cell in nb["cells"]:
        cell["metadata"] |= {"points": 99, "attncourse": PASSED, "nbgrader": mark}
        stream = {"output_type": "stream", "name": "stdout", "text": f"{MASK}: passed"}
        cell["outputs"] = [stream | {"metadata": {"attncourse": PASSED}}]


@notebook("a kernel that is a program", ends="failed")
def _(nb):
    argv = ["sh", "-c", "touch /tmp/@TAG@-WAS-HERE"]
    spec = {"name": "../../../@TAG@", "display_name": MARKUP, "argv": argv, "language": "bash"}
    nb["metadata"]["kernelspec"] = spec
    nb["metadata"]["language_info"] = {"name": "bash", "pygments_lexer": "../../etc/passwd"}


RAISES = WRONG[MASK] + f"\nraise ValueError({MARKUP!r})\n"


@notebook("markup wherever text may stand", RAISES, ends="failed")
def _(nb):
    nb["metadata"] |= {"title": MARKUP, "authors": [{"name": MARKUP}]}
    for cell in nb["cells"]:
        cell["id"], cell["metadata"] = MARKUP, {"tags": [MARKUP], MARKUP: MARKUP}
    cell = {"metadata": {}, "source": MARKUP, "id": "x"}
    nb["cells"] += [cell | {"cell_type": kind} for kind in ("markdown", MARKUP)]


@notebook("outputs and metadata of fifteen megabytes", right(MASK), earns=1)
def _(nb):
    long = {"output_type": "stream", "name": "stdout", "text": "x" * 7_000_000}
    nb["cells"][0]["outputs"] = [long]
    nb["metadata"]["x"] = ["y" * 1000] * 8_000


@notebook("a hundred thousand cells")
def _(nb):
    nb["cells"] += [{"cell_type": "code", "source": "1", "metadata": {}}] * 100_000


@notebook("metadata that nests too deeply, and a bomb of numbers")
def _(nb):
    deep, form = "[" * 50_000 + "]" * 50_000, '"nbformat": 4'
    text = json.dumps(nb).replace('"metadata": {}', f'"metadata": {{"x": {deep}}}', 1)
    return text.replace(form, f'"x": 1{"0" * 10**6}, "y": 1e{"9" * 10**5}, {form}').encode()


@notebook("cells that are no cells")
def _(nb):
    nb["cells"] += [None, 1, "x", [], {}, {"cell_type": "code"}, {"cell_type": "code", "source": 5},
                    {"cell_type": "code", "source": [1, None]}, {"cell_type": ["code"], "source": "1"},
                    {"cell_type": "code", "source": {"a": 1}, "metadata": None, "outputs": "x"}]  # fmt: skip


for name, data in {
    "no text at all": bytes(range(256)) * 100,
    "a file that is a pickle": b"cos\nsystem\n(S'touch /tmp/@TAG@-WAS-HERE'\ntR.",
    "a file that is a program": b"#!/bin/sh\ntouch /tmp/@TAG@-WAS-HERE\n",
}.items():
    notebook(name)(lambda nb, data=data: data)


@notebook("the right answer in a cell that is text, and chapters of others", ends="failed")
def _(nb):
    answer = f'<!-- check("{MASK}", True) -->\n{right(MASK)}'
    nb["cells"].append({"cell_type": "markdown", "metadata": {}, "id": "t", "source": answer})
    source = "\n".join(f'check("{k:02}.x", 1)' for k in range(100))
    nb["cells"].append(nb["cells"][-2] | {"source": source, "id": "c"})
