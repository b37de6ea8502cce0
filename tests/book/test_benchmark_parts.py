"""What is asked of a card besides the race: the ladder, bytes and operations, machine code. Tried on the CPU."""

import torch
from support.book.benchmarks import depends, gpu  # noqa: F401

card, ladder, lengths, machine_code, roofline, rungs, sweep = gpu(
    "card", "ladder", "lengths", "machine_code", "roofline", "rungs", "sweep"
)


def test_a_part_that_is_left_out_changes_the_result():
    torch.manual_seed(0)
    qkv = [torch.randn(1, 1, 32, 16, dtype=torch.float16) for _ in range(3)]
    tile = sweep.Tile(32, 16, 4, 1)
    whole, *others = (rungs.forward(*qkv, tile=tile, **flags) for flags in ladder.PARTS.values())
    for found in others:
        assert not torch.allclose(found, whole, atol=0.1)


def test_bytes_and_operations_of_one_token_by_hand():
    load = roofline.Load("one token", 1, 1, 100)
    work, moved = roofline.counted(load, "triton")
    assert work == 16 * 100 * 128 * 2 * 2, "a product and a sum for each score, and for each weight"
    assert moved == 2 * 16 * (1 + 100 + 100 + 1) * 128
    assert roofline.counted(load, roofline.PLAIN)[1] - moved == 2 * 16 * 100 * 6


# Machine code that was read by hand

TURN = [
    "HGMMA.64x128x16.F32.BF16 R24, gdesc[UR12], R24, gsb0",
    "MUFU.EX2 R5, R6",
    "HGMMA.64x128x16.F32.BF16 R88, R24, gdesc[UR8].tnspB, R88, gsb0",
    "WARPGROUP.DEPBAR.LE gsb0, 0x1",
    "@!P0 MUFU.EX2 R7, R8",
    "WARPGROUP.DEPBAR.LE gsb0, 0x0",
    "MUFU.EX2 R9, R10",
    "IADD3 R1, R1, R2, RZ",
    "STL [R1], R2",
]


def test_an_exponential_is_hidden_while_a_product_runs():
    assert machine_code.strip(TURN) == "1q 1e 1q 1y 1e 1z 1e 1o 1s"
    assert machine_code.hidden(TURN) == 2
    late = TURN[2:3] + TURN[6:7]
    assert machine_code.hidden(late[::-1]) == 1, "begun in the turn before"
    assert machine_code.hidden(["WARPGROUP.DEPBAR.LE gsb0, 0x0", *late[::-1]]) == 0


def test_programs_on_a_processor_are_limited_by_registers_or_by_memory():
    code = machine_code.compiled.Code("kernel", {}, 128, 70 * 1024, 8, [])
    assert machine_code.programs(code) == 2, "65536 registers for 8 warps, 128 a thread"
    assert machine_code.programs(code._replace(registers=32)) == 3, "227 KiB"


def test_the_digest_tells_versions_of_the_code_apart(monkeypatch, tmp_path):
    monkeypatch.setattr(card, "ROOT", tmp_path)
    monkeypatch.setattr(card, "SOURCES", ("a",))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.py").write_text("1")
    before = card.digest()
    (tmp_path / "a" / "x.py").write_text("2")
    assert card.digest() != before


def test_lengths_at_which_the_scores_do_not_fit_are_left_out(monkeypatch):
    monkeypatch.setattr(card, "fits", lambda nbytes: nbytes < 100e9)
    plain = [n for name, n in lengths.entries(lengths.NAMES) if name == lengths.PLAIN]
    assert plain == [512, 1024, 2048, 4096, 8192, 16384]
