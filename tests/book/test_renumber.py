"""`tools/renumber.py`: two chapters change places, and everything that names them follows."""

import json
import re

import pytest
import yaml
from support.book.house import contents, copied, python, refused

SWAPPED = ("kv_cache", "multi_query")


@pytest.fixture
def house(tmp_path):
    return copied(tmp_path)


def run(house, tool: str, *options: str):
    return python(house, f"tools/{tool}.py", *options)


def swap(house) -> None:
    """Exchange the lines of two chapters, and nothing else."""
    toc = (house / "_toc.yml").read_text(encoding="utf-8")
    one, two = (re.search(rf"chapters/\d\d_{name}\n", toc)[0] for name in SWAPPED)
    toc = toc.replace(one, "?").replace(two, one).replace("?", two)
    (house / "_toc.yml").write_text(toc, encoding="utf-8")


def listed(house) -> list[tuple[str, str]]:
    """Numbers and names of the chapters in the table of contents, each with its exercises below it."""
    toc = yaml.safe_load((house / "_toc.yml").read_text(encoding="utf-8"))
    entries = [entry for part in toc["parts"] for entry in part["chapters"]]
    entries = [entry for entry in entries if re.match(r"chapters/\d\d_", entry["file"])]
    for entry in entries:
        page = entry["file"].replace("chapters/", "exercises/")
        expected = [{"file": page}] if (house / f"{page}.ipynb").exists() else []
        below = [x for x in entry.get("sections", []) if re.match(r"exercises/\d\d_", x["file"])]
        assert below == expected
    found = [entry["file"].removeprefix("chapters/").partition("_") for entry in entries]
    return [(number, name) for number, _, name in found]


def stems(house, folder: str) -> list[str]:
    return [path.stem for path in sorted(house.glob(f"{folder}/[0-9]*.ipynb"))]


def test_two_chapters_change_places(house):
    before = contents(house)
    assert run(house, "renumber").stdout == "Every chapter has its number.\n"
    assert contents(house) == before, "as it is in the repository"
    swap(house)
    done = run(house, "renumber")
    assert done.returncode == 0, done.stderr
    chapters = listed(house)
    assert [int(number) for number, _ in chapters] == list(range(1, len(chapters) + 1))
    names = [name for _, name in chapters]
    assert names.index("multi_query") + 1 == names.index("kv_cache")
    numbers = {name: int(number) for number, name in chapters}
    assert stems(house, "chapters") == [f"{number}_{name}" for number, name in chapters]
    assert stems(house, "exercises") == stems(house, "exercises/solutions")
    for stem in stems(house, "exercises"):
        text = (house / "exercises" / f"{stem}.ipynb").read_text(encoding="utf-8")
        title = re.search(r"# Exercises (\d+):", text)
        assert int(title[1]) == int(stem[:2]) == numbers[stem[3:]]
    mentioned = re.compile(rf"(?<![\w-])(\d\d)_({'|'.join(numbers)})(?!\w)")
    links = re.compile(r"\[(?:Exercises|[Cc]hapter) (\d+)\]\([^)\s]*?(\d\d)_")
    for path in [*house.rglob("*.md"), *house.rglob("*.ipynb"), *house.rglob("*.py")]:
        text = path.read_text(encoding="utf-8")
        assert all(int(number) == numbers[name] for number, name in mentioned.findall(text)), path
        assert all(int(said) == int(number) for said, number in links.findall(text)), path

    assert run(house, "make_exercises").stdout == "attncourse/grading/cards.json: written\n"
    cards = json.loads((house / "attncourse/grading/cards.json").read_text(encoding="utf-8"))
    for name in SWAPPED:
        for path in house.glob(f"attncourse/grading/exercises/{name}/[!_]*.py"):
            assert cards[name][path.stem]["needs"].endswith(f"chapter {numbers[name]}"), path
    row = rf"chapters/{numbers['kv_cache']:02}_kv_cache.ipynb\), chapter {numbers['kv_cache']} "
    assert re.search(row, (house / "index.md").read_text(encoding="utf-8")), "the map says it too"

    order = "from attncourse.grading.exercises import CHAPTERS; print(*CHAPTERS)"
    said = python(house, "-c", order)
    *ours, last = said.stdout.split()
    assert last == "capstone", "it has no number"
    assert ours == [name for name in names if name in ours]
    assert "multi_query kv_cache" in said.stdout

    after = contents(house)
    assert run(house, "renumber").stdout == "Every chapter has its number.\n"
    assert contents(house) == after
    swap(house)
    assert run(house, "renumber").returncode == 0
    assert run(house, "make_exercises").returncode == 0
    assert contents(house) == before, "there and back"


def test_a_chapter_without_a_line_is_told_and_nothing_changes(house):
    toc = (house / "_toc.yml").read_text(encoding="utf-8")
    gone = re.sub(r" *- file: chapters/\d\d_masks\n", "", toc)
    (house / "_toc.yml").write_text(gone, encoding="utf-8")
    said = refused(house, "tools/renumber.py")
    assert said == "chapters has masks, which is no chapter of _toc.yml.\n"
