"""Scores that know more, against who else computes them on the same weights, and against plain attention.

    python benchmarks/scores.py [disentangled] [multi_token]

Time and memory are taken as in `global_local.py`, and transformers' layers end before the output projection here, too.
"""

import sys

import torch
import torch.nn.functional as F
from global_local import HEADS, WIDTH, difference, full_attention, table
from results import write_table
from timing import best_seconds
from torch import nn

from attncourse import scaled_dot_product_attention
from attncourse.lab.memory import peak_bytes
from attncourse.variants.disentangled import DisentangledAttention
from attncourse.variants.multi_token import identity_kernel, multi_token_attention

SPAN, FURTHEST = 256, 512  # of DeBERTa's third version
KERNEL = (6, 11)  # queries and keys, as in the language models of golovneva2025
LENGTHS = (256, 512, 1024, 2048)
MULTI_TOKEN_LIMIT = 3.0  # times explicit attention, forward


def deberta_layers(buckets: bool) -> tuple[nn.Module, nn.Module]:
    """Ours and the library's on the same weights; ``buckets`` share the projections, as in the second version."""
    from transformers import DebertaV2Config
    from transformers.models.deberta_v2.modeling_deberta_v2 import DisentangledSelfAttention

    torch.manual_seed(0)
    ours = DisentangledAttention(
        WIDTH, HEADS, SPAN, furthest=FURTHEST if buckets else None, share_proj=buckets
    )
    ours.out_proj = nn.Identity()
    config = DebertaV2Config(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
        position_buckets=SPAN if buckets else -1,
        max_relative_positions=FURTHEST if buckets else SPAN,
        share_att_key=buckets,
        attention_probs_dropout_prob=0.0,
        hidden_dropout_prob=0.0,
    )
    theirs = DisentangledSelfAttention(config)
    names = {"q_proj": "query_proj", "k_proj": "key_proj", "v_proj": "value_proj"}
    if not buckets:
        names |= {"pos_k_proj": "pos_key_proj", "pos_q_proj": "pos_query_proj"}
    for own, name in names.items():
        getattr(theirs, name).load_state_dict(getattr(ours, own).state_dict())
    theirs.positions = ours.positions
    return ours, theirs


def deberta(
    length: int, dtype=torch.float32, buckets: bool = False
) -> list[tuple[nn.Module, callable]]:
    """(layer, call) of ours, the library's and plain attention; the library's is given its distances, as by its model."""
    from transformers.models.deberta_v2.modeling_deberta_v2 import build_relative_position

    ours, theirs = (layer.to(dtype) for layer in deberta_layers(buckets))
    full = full_attention().to(dtype)
    x = torch.randn(1, length, WIDTH, dtype=dtype)
    everything = torch.ones(1, 1, length, length, dtype=torch.bool)
    sizes = (SPAN, FURTHEST) if buckets else (-1, -1)
    distances = build_relative_position(x, x, *sizes)

    def library():
        rows = theirs.positions
        return theirs(x, everything, relative_pos=distances, rel_embeddings=rows)[0]

    return [(ours, lambda: ours(x)), (theirs, library), (full, lambda: full(x))]


def disentangled_table() -> None:
    what = {False: f"DeBERTa's layer, {2 * SPAN} rows of positions"}
    what[True] = (
        f"DeBERTa's layer, {2 * SPAN} rows for {2 * FURTHEST} distances, projections shared"
    )
    for buckets, said in what.items():
        make = lambda *given, buckets=buckets: deberta(*given, buckets=buckets)  # noqa: E731
        equal = difference(make(1024, torch.float64))  # distances beyond the table, too
        table("disentangled_buckets" if buckets else "disentangled", make, equal, said, LENGTHS)


def multi_token(length: int, dtype=torch.float32, kernel=None) -> list[tuple[list, callable]]:
    """(inputs, call) of a kernel before, one before and one behind, explicit attention, and torch's fused one."""
    generator = torch.Generator().manual_seed(0)
    shape = (1, HEADS, length, WIDTH // HEADS)
    qkv = [torch.randn(shape, generator=generator, dtype=dtype) for _ in range(3)]
    if kernel is None:
        kernel = 0.1 * torch.randn(HEADS, *KERNEL, generator=generator, dtype=dtype)
    return [
        ([*qkv, kernel], lambda: multi_token_attention(*qkv, kernel)[0]),
        ([*qkv, kernel], lambda: multi_token_attention(*qkv, kernel, kernel_after=kernel)[0]),
        (qkv, lambda: scaled_dot_product_attention(*qkv, is_causal=True)),
        (qkv, lambda: F.scaled_dot_product_attention(*qkv, is_causal=True)),
    ]


def training_step(inputs: list, call) -> callable:
    return lambda: torch.autograd.grad(call().square().mean(), inputs)


def largest_difference() -> float:
    """With kernels that change nothing, all four are causal attention; between them, in float64."""
    made = multi_token(512, torch.float64, identity_kernel(HEADS, KERNEL).double())
    first, *others = (call() for _, call in made)
    return max((first - other).abs().max().item() for other in others)


def multi_token_table() -> None:
    difference = largest_difference()
    assert difference < 1e-12, difference
    rows, worst, second = [], 0.0, 0.0
    for length in LENGTHS:
        made = multi_token(length)
        forward = best_seconds(*(call for _, call in made), repeats=8)
        for x in made[0][0]:
            x.requires_grad_()
        steps = [training_step(*pair) for pair in made]
        cells = []
        for ours, _, explicit, fused in (forward, best_seconds(*steps, repeats=4)):
            cells += [round(1e3 * ours, 1), round(ours / explicit, 2), round(ours / fused, 1)]
        worst = max(worst, cells[1])
        second = max(second, round(forward[1] / forward[2], 2))
        peaks = [round(peak_bytes(steps[k]) / 2**20, 1) for k in (0, 2)]
        rows.append([f"{length:,}", *cells, *peaks])
        print("multi_token", rows[-1], flush=True)
    kept = "kept" if worst <= MULTI_TOKEN_LIMIT else "broken"
    write_table(
        "multi_token",
        caption="Time and memory of multi-token attention, relative to explicit and to fused attention",
        note=f"Float32, batch 1, {HEADS} heads of width {WIDTH // HEADS}, a kernel of {KERNEL[0]} queries and {KERNEL[1]} keys before the "
        f"softmax, causal, one thread, CPU time. With kernels that change nothing the three are equal to {difference:.0e} in "
        f"float64. The milliseconds are those of multi-token attention. Limit: forward at most {MULTI_TOKEN_LIMIT:g} times as long "
        f"as explicit attention, it is {kept}: at most {worst} times, and {second} with a second kernel behind the softmax.",
        columns=[
            "length",
            "forward, ms",
            "times explicit attention",
            "times torch's fused",
            "forward and backward, ms",
            "times explicit attention",
            "times torch's fused",
            "MiB of both",
            "explicit attention, MiB",
        ],
        rows=rows,
    )  # fmt: skip


SECTIONS = {"disentangled": disentangled_table, "multi_token": multi_token_table}


def main(*names: str) -> None:
    torch.set_num_threads(1)
    for name in names or SECTIONS:
        SECTIONS[name]()


if __name__ == "__main__":
    main(*sys.argv[1:])
