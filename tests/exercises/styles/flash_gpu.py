"""Right answers to the exercises on FlashAttention for a graphics card."""

import importlib
import math
import os

import torch

from styles import style


class Kernel:
    """A kernel of `tile_kernels`, imported when it runs: only where Triton is installed."""

    def __init__(self, name):
        self.name = name

    def run(self, *arguments, **launch):
        os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported
        getattr(importlib.import_module("tile_kernels"), self.name).run(*arguments, **launch)


for name in ("dots", "products_and_sums", "powers_of_2", "block_pointers", "two_halves"):
    style("attention_tile", Kernel(name), name=name)


def up(n, block):
    return -(-n // block)


@style("repair_edge")
def slices(program, memory, Q, K, V, Out, n, m, d, block_m, block_n):
    """No masks: shorter tiles at the edge."""
    i, e = program * block_m, min((program + 1) * block_m, n)
    q, k, v = (
        memory[x + a * d : x + b * d].reshape(-1, d)
        for x, a, b in ((Q, i, e), (K, 0, m), (V, 0, m))
    )
    memory[Out + i * d : Out + e * d] = (torch.softmax(q @ k.T / d**0.5, -1) @ v).flatten()


@style("repair_edge")
def weights_masked(program, memory, Q, K, V, Out, n, m, d, block_m, block_n):
    """Hidden weights are set to 0 after the exponential, and the maximum is that of all keys."""
    rows = torch.arange(program * block_m, min(program * block_m + block_m, n))

    def at(base, x):
        return base + x[:, None] * d + torch.arange(d)

    q, starts = memory[at(Q, rows)].double(), range(0, m, block_n)
    blocks = [torch.arange(s, s + block_n).clamp(max=m - 1) for s in starts]
    scores = torch.stack([q @ memory[at(K, x)].double().T / math.sqrt(d) for x in blocks])
    real = torch.stack([torch.arange(s, s + block_n) < m for s in starts])[:, None]
    p = torch.exp(scores - scores.amax((0, 2))[:, None]) * real
    mixed = sum(w @ memory[at(V, x)].double() for w, x in zip(p, blocks, strict=True))
    memory[at(Out, rows)] = (mixed / p.sum((0, 2))[:, None]).float()


@style("repair_edge")
def row_by_row(program, memory, Q, K, V, Out, n, m, d, block_m, block_n):
    for i in range(program * block_m, min(n, (program + 1) * block_m)):
        q = memory[Q + i * d : Q + (i + 1) * d]
        scores = (
            torch.stack([(q * memory[K + j * d : K + j * d + d]).sum() for j in range(m)]) / d**0.5
        )
        w = torch.exp(scores - scores.max())
        for c in range(d):
            memory[Out + i * d + c] = (w * memory[V + c : V + m * d : d]).sum() / w.sum()


@style("skipped_tiles")
def one_picture(n, m, block_m, block_n, offset):
    rows, columns = up(n, block_m), up(m, block_n)
    visible = torch.zeros(rows * block_m, columns * block_n, dtype=torch.bool)
    visible[:n, :m] = torch.ones(n, m, dtype=torch.bool).tril(offset)
    counts = visible.view(rows, block_m, columns, block_n).sum((1, 3))
    skipped, whole = (counts == 0).sum(), (counts == block_m * block_n).sum()
    return skipped, counts.numel() - skipped - whole, whole


@style("skipped_tiles")
def row_of_tiles_by_row(n, m, block_m, block_n, offset):
    """As the kernel does it: how far is read, and how far without a mask."""
    read = whole = 0
    for first in range(0, n, block_m):
        end = max(min(m, min(first + block_m, n) + offset), 0)
        plain = max(min(m, first + offset + 1), 0) if first + block_m <= n else 0
        read += up(end, block_n)
        whole += plain // block_n
    return up(n, block_m) * up(m, block_n) - read, read - whole, whole


@style("skipped_tiles")
def broadcast_corners(n, m, block_m, block_n, offset):
    i, j = torch.arange(0, n, block_m)[:, None], torch.arange(0, m, block_n)[None]
    skipped = j > torch.clamp(i + block_m, max=n) - 1 + offset
    whole = (i + block_m <= n) & (j + block_n <= m) & (j + block_n - 1 <= i + offset)
    return [int(x.sum()) for x in (skipped, ~(skipped | whole), whole)]


@style("tile_limits")
def tensors(block_m, block_n, head_dim, warps, registers, shared, card):
    one = torch.tensor([-(-registers // 8) * 8 * 32 * warps, shared + 1024])
    held = torch.tensor(block_m * (head_dim + block_n)) // (32 * warps)
    return held, (torch.tensor([65_536, card]) // one).min()


@style("tile_limits")
def by_search(block_m, block_n, head_dim, warps, registers, shared, card):
    def fits(k):
        rows = [k * warps * ((registers * 32 + 255) // 256) <= 256, k * (shared + 1024) <= card]
        return all(rows)

    most = max(k for k in range(2000) if fits(k))
    return (block_m * head_dim + block_m * block_n) // warps // 32, most


@style("tile_limits")
def in_float32_numbers(block_m, block_n, head_dim, warps, registers, shared, card):
    threads = warps * 32
    while registers % 8:
        registers += 1
    held = block_m * head_dim / threads + block_m * block_n / threads
    return [int(held), min(int(65_536 / threads / registers), int(card / (shared + 1024)))]
