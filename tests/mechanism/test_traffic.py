"""The counted memory: what it counts is what loops over the same tiles count."""

import gc

import pytest
import torch

from attncourse.variants.flash import online
from attncourse.variants.flash.traffic import LINE, TwoLevels

pytestmark = pytest.mark.quick

N, D = 256, 16


@pytest.fixture(autouse=True)
def fresh_memory_is_not_filled():
    torch.use_deterministic_algorithms(False)
    yield
    torch.use_deterministic_algorithms(True)  # as conftest.py has set it


def inputs():
    return [torch.randn(N, D) for _ in range(3)]


def steps(query, key, value):
    return torch.softmax(query @ key.T, dim=-1) @ value


def tiled(query, key, value, rows, columns):
    output = torch.empty(N, D)
    for r in range(0, N, rows):
        running = online.start(torch.zeros(rows, D))
        for c in range(0, N, columns):
            scores = query[r : r + rows] @ key[c : c + columns].T
            running = online.update(running, scores, value[c : c + columns])
        output[r : r + rows] = online.finish(running)[0]
    return output


def count(function, *args, capacity):
    with TwoLevels(capacity) as memory:
        output = function(*args)
    return memory, output


def test_everything_fits():
    memory, output = count(steps, *inputs(), capacity=10**6)
    assert (memory.read, memory.written) == (3 * N * D, N * D)
    assert not memory.held
    assert output.isfinite().all()


def test_the_whole_table_goes_to_slow_memory_and_back_twice():
    capacity = 1024
    memory, _ = count(steps, *inputs(), capacity=capacity)
    read = 2 * N * D + N * N + N * N + N * D
    written = N * N + N * N + N * D
    # What a step leaves in fast memory, or gives up there, makes the only difference.
    assert memory.read == pytest.approx(read, abs=2 * capacity)
    assert memory.written == pytest.approx(written, abs=2 * capacity)
    assert memory.moved == memory.read + memory.written > 3 * N * N


@pytest.mark.parametrize(("rows", "columns"), [(8, 16), (16, 16), (32, 8)])
def test_tiles_move_what_loops_count(rows, columns):
    q, k, v = inputs()
    read = written = 0
    for _ in range(0, N, rows):
        read += rows * D  # one block of queries
        for _ in range(0, N, columns):
            read += 2 * columns * D  # blocks of keys and of values
        written += rows * D
    needed = 8 * rows * D + 2 * columns * D  # what the online softmax holds at once
    assert needed < 2 * N * D, "keys and values must not fit as well"
    memory, output = count(tiled, q, k, v, rows, columns, capacity=needed)
    assert memory.read == pytest.approx(read, rel=0.02)  # a few numbers a row besides
    assert memory.written == pytest.approx(written, rel=0.02)
    torch.testing.assert_close(output, steps(q, k, v))


def test_tiles_that_do_not_fit_cost_more_than_the_table():
    small, _ = count(tiled, *inputs(), 16, 16, capacity=2048)
    large, _ = count(tiled, *inputs(), 128, 16, capacity=2048)
    table, _ = count(steps, *inputs(), capacity=2048)
    assert small.moved < table.moved < large.moved


def test_views_and_fresh_memory_cost_nothing_and_what_is_overwritten_is_not_read():
    q, k, _ = inputs()
    with TwoLevels(10**6) as memory:
        q.T[3:5].unsqueeze(0)
        torch.empty(N, D)
    assert memory.moved == 0
    with TwoLevels(10**6) as memory:
        q[:8] = k[:8]
    assert (memory.read, memory.written) == (8 * D, 8 * D)
    with TwoLevels(10**6) as memory:
        q.mul_(2.0)
    assert (memory.read, memory.written) == (N * D, N * D)


def test_columns_are_read_line_by_line():
    wide = torch.randn(4, 4 * LINE)
    with TwoLevels(10**6) as memory:
        wide[:, 1].sum()
    assert memory.read == 4 * LINE, "one number of each row, but a whole line is read for it"


def test_what_is_given_up_is_not_written():
    q, *_ = inputs()
    with TwoLevels(10**6) as memory:
        first = q + 1
        view = first[:4]
        del first
        gc.collect()
        assert memory.written == 0
        assert len(memory.held) == 2 * N * D // LINE, "the view keeps it"
        del view
        assert len(memory.held) == N * D // LINE, "the input stays"
    assert memory.written == 0


def test_a_result_that_was_read_must_still_be_written():
    q, *_ = inputs()
    with TwoLevels(10**6) as memory:
        first = q + 1
        first.sum()
    assert first.isfinite().all()
    assert memory.written == N * D
