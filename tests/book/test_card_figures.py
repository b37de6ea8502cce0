"""The chapter on graphics cards: its pictures, the code that it quotes, and its cells that need a card."""

import inspect
import json
import re

import pytest
import torch
from support.book.benchmarks import MACHINE, MS, gpu
from support.book.figures import speaks
from support.book.form import tags
from support.book.notebooks import ROOT, cells
from support.cards import put

from attncourse.lab import cards
from attncourse.show import diagrams
from attncourse.show.diagrams.machine_code import LANES, under_way
from attncourse.show.figure import Figure
from attncourse.show.listing import Passages, passage
from attncourse.show.measured import Measured, charts

PAGE = cells(ROOT / "chapters" / "11_flash_gpu.ipynb", "code")
KINDS = {(0, 0): "masked", (1, 0): "plain", (1, 1): "masked"}
TURN = "pqweoezl"
FIGURES = {
    "levels": lambda: diagrams.memory_levels([("big", "2 GB"), ("small", "1 KiB")], ["3", ""], "cores"),
    "roof": lambda: diagrams.roofline({"A": (100, 1), "B": (10, 1)}, {"x": 50.0, "y": 400.0}, on="A"),
    "tiles": lambda: diagrams.causal_tiles(8, 4, 4, KINDS),
    "code": lambda: diagrams.code_strips({"one": TURN, "two": TURN[:3]}),
}  # fmt: skip


@pytest.mark.parametrize("make", FIGURES.values(), ids=FIGURES)
def test_figure(make):
    speaks(make, inches=7)


def test_a_point_lies_on_the_roof():
    lines = [line.get_xydata().tolist() for line in FIGURES["roof"]().canvas.axes[0].lines]
    assert [line[0] for line in lines if len(line) == 1] == [[50, 50], [400, 100]]
    assert "x at 50 FLOP per byte under 50 TFLOP/s" in FIGURES["roof"]().alt


def test_tiles_and_instructions_are_counted():
    assert "1 above the diagonal are left out, 2 need a mask, 1 need none" in FIGURES["tiles"]().alt
    lanes = FIGURES["code"]().canvas.axes[0].collections
    assert [x.get_positions() for x in lanes[:4]] == [[0, 1], [3, 5], [7], [2, 6]]


def test_a_product_runs_until_a_wait_ends_its_group():
    (line,) = FIGURES["code"]().canvas.axes[0].collections[len(LANES) :]
    assert [x[:, 0].tolist() for x in line.get_segments()] == [[0, 6]]
    assert under_way("pqpqyoz") == [(0, 4), (2, 6)], "one group may still run after y"
    assert under_way("ozpqo") == [(0, 1), (2, 5)], "on into the next turn"


def test_a_passage_is_read_from_the_file():
    where = "attncourse.steps.mix"
    text = passage(where, "def mix", "def mix")
    assert text.startswith("def mix(")
    assert "\n" not in text
    shown = Passages({"one": text, "two": "x = 1"})
    assert repr(shown).endswith("# two\nx = 1")
    assert shown._repr_markdown_().count("```python") == 2


def test_a_passage_that_is_gone_is_noticed():
    with pytest.raises(ValueError, match="begins with 'nothing'"):
        passage("attncourse.steps.mix", "nothing", "def")
    with pytest.raises(ValueError, match="a function mixed in attncourse.steps"):
        passage("attncourse.steps.mixed", "def", "def")


def of(caption: str, columns: list, rows: list) -> dict:
    """A table of a benchmark."""
    return {"caption": caption, "columns": columns, "rows": rows, "note": ""}


def test_what_was_not_measured_is_said_to_be(tmp_path):
    questions = {"ladder": "What helps?", "parts": "What costs?"}
    assert repr(Measured(questions, tmp_path / "none")) == (
        "Not measured yet, for lack of a card: What helps? What costs?"
    )
    table = of("Steps", ["step", "ms"], [["tiles", None]])
    (tmp_path / "flash_cpu.json").write_text(json.dumps({"rows": []}))
    (tmp_path / "flash_a100.json").write_text(json.dumps({"tables": {"ladder": table}}))
    text = Measured(questions, tmp_path)._repr_markdown_()
    assert "**What helps?**\n\n*Steps*\n\n| step | ms |\n| --- | --- |\n| tiles | – |" in text
    assert text.endswith("Not measured yet, for lack of a card:\n\n- What costs?")


def test_what_was_measured_becomes_curves_and_bars(tmp_path):
    questions = {"ladder": "What helps?", "speed_by_length": "From where on?"}
    ladder = of("Steps", ["step", "64"], [["tiles", 3.0], ["more", None]])
    speed = of("Speed", ["length", "A"], [[512, 1.0], [1024, None]])
    assert isinstance(charts(questions, tmp_path), Measured)
    tables = {"tables": {"ladder": ladder, "speed_by_length": speed}}
    (tmp_path / "flash_a100.json").write_text(json.dumps(tables))
    figure = charts(questions, tmp_path)
    assert isinstance(figure, Figure)
    bars, curves = figure.canvas.axes
    assert [bar.get_width() for bar in bars.patches] == [3.0, 0.0]
    assert curves.lines[0].get_xdata().tolist() == [512, 1024]
    assert "Steps: 2 rows" in figure.alt


def test_the_chapter_asks_for_tables_that_the_benchmark_makes(tmp_path):
    (tables,) = (module.tables for module in gpu("tables"))
    made = set(re.findall(r'^        "(\w+)":', inspect.getsource(tables), re.MULTILINE))
    page = "\n".join(cell.source for cell in PAGE)
    asked = re.findall(r'^    "(\w+)": "[^"]*\?"', page, re.MULTILINE)
    assert len(asked) == len(set(asked)) >= 9
    assert set(asked) <= made
    found = {
        ("ladder", "+ powers of 2", (128, True)): MS,
        ("speed_by_length", 8192, "triton"): MS,
        ("memory_by_length", 8192, "triton"): 256.0,
    }
    content = json.dumps({"tables": tables(found, MACHINE)})
    (tmp_path / "flash_1.json").write_text(content, encoding="utf-8")
    assert isinstance(charts({name: "?" for name, *_ in found}, tmp_path), Figure)


def test_on_a_t4_torch_and_tiled_run_and_the_kernels_say_why_they_do_not(monkeypatch, capsys):
    """The cells for a card, on a CPU that is made to look like a T4."""
    put(monkeypatch, "Tesla T4", (7, 5))
    monkeypatch.setattr(torch.Tensor, "is_cuda", True, raising=False)
    monkeypatch.setattr(cards, "DEVICE", "cpu")
    monkeypatch.delenv("TRITON_INTERPRET")
    (imports,) = (x for x in PAGE if "sdpa_kernel\n" in x.source)
    (start,) = (x for x in PAGE if "cards.found()\n" in x.source)
    names = {}
    for cell in (imports, start, *(x for x in PAGE if "gpu" in tags(x))):
        exec(cell.source.replace("(1024, 4096)", "(16, 32)").replace("512", "32"), names)
    said = capsys.readouterr().out
    assert said.startswith("Tesla T4, compute capability 7.5")
    for name in ("MATH", "tiled"):
        assert len(re.findall(rf"  {name} +2\.00 ms", said)) == 2, said
    assert said.count("cannot run: backend='triton' needs an Ampere card") == 2, said
    assert said.endswith("backend=None takes 'tiled'\n")
