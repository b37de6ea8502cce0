"""Nothing that `make new` left to do is forgotten."""

from support.book.notebooks import ROOT

PLACES = ("attncourse/**/*.py", "tests/support/**/*.py", "chapters/*.*", "exercises/**/*.ipynb")


def test_nothing_is_left_to_do():
    left = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for pattern in (*PLACES, "index.md")
        for path in sorted(ROOT.glob(pattern))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if "TODO" in line
    ]
    assert not left, "\n".join(["fill in:", *left])
