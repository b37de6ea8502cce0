"""Scores that know more, against who else computes them on the same weights, and against plain attention.

    python benchmarks/scores.py [disentangled]

Time and memory are taken as in `global_local.py`, and transformers' layers end before the output projection here, too.
"""

import sys

import torch
from global_local import HEADS, WIDTH, difference, full_attention, table
from torch import nn

from attncourse import DisentangledAttention

SPAN, FURTHEST = 256, 512  # of DeBERTa's third version
LENGTHS = (256, 512, 1024, 2048)


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


SECTIONS = {"disentangled": disentangled_table}


def main(*names: str) -> None:
    torch.set_num_threads(1)
    for name in names or SECTIONS:
        SECTIONS[name]()


if __name__ == "__main__":
    main(*sys.argv[1:])
