"""No exercise is answered by a ready-made function of torch: nothing has to be forbidden."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attncourse.grading import load, names
from attncourse.grading.exercise import SEEDS, Counts, Number, cases_of
from attncourse.grading.isolation import torch_defaults
from attncourse.grading.judges import differences, expected_of

TRIED = [  # what asks for whole numbers has no use for attention
    name for name in names() if not load(name).left_out() and not isinstance(load(name).judge, Counts | Number)
]  # fmt: skip
SDPA = F.scaled_dot_product_attention


def projected(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    """All that torch's multi-head attention returns for these matrices, with the weights of each head."""
    output, weights = F.multi_head_attention_forward(
        *(x.transpose(0, 1) for x in (query, key, value)), len(w_q), num_heads,
        in_proj_weight=None, in_proj_bias=None, bias_k=None, bias_v=None, add_zero_attn=False, dropout_p=0.0,
        out_proj_weight=w_o, out_proj_bias=None, use_separate_proj_weight=True,
        q_proj_weight=w_q, k_proj_weight=w_k, v_proj_weight=w_v, average_attn_weights=False,
    )  # fmt: skip
    return output.transpose(0, 1), weights


def as_heads(query, key, value):
    """The same with matrices that change nothing, for heads that are apart already."""
    key, value = (x.repeat_interleave(query.size(1) // x.size(1), 1) for x in (key, value))
    one = torch.eye(query.size(1) * query.size(-1))
    query, key, value = (x.transpose(1, 2).flatten(2) for x in (query, key, value))
    output, weights = projected(query, key, value, one, one, one, one, len(one) // query.size(-1))
    return output.unflatten(-1, (-1, query.size(-1))).transpose(1, 2), weights


class BatchFirst(nn.MultiheadAttention):
    """The layer of torch, called with one input; it stores q, k and v in one matrix."""

    def __init__(self, *sizes):
        super().__init__(*sizes, batch_first=True)

    def forward(self, x, mask=None, is_causal=False):
        hidden = None if mask is None else ~mask
        return super().forward(x, x, x, attn_mask=hidden, average_attn_weights=False)


def first_three(**how):
    return lambda q, k, v, *rest, **named: SDPA(q, k, v, **how)


READY = {
    "sdpa": SDPA,
    "sdpa of the first three": first_three(),
    "sdpa with groups": partial(SDPA, enable_gqa=True),
    "sdpa with groups of the first three": first_three(enable_gqa=True),
    "causal sdpa": partial(SDPA, is_causal=True),
    "causal sdpa of the first three": first_three(is_causal=True),
    "sdpa and None": lambda q, k, v, *rest, **named: (SDPA(q, k, v), None),
    "the function behind the layer": projected,
    "the function behind the layer, heads apart": as_heads,
    "the layer": nn.MultiheadAttention,
    "the layer, batch first": BatchFirst,
    "a layer of the width of the query": lambda q, *rest, **named: BatchFirst(q.size(-1), 1)(q),
}


def passes(judge, answer) -> bool:
    """Would it earn the points? No known mistake is looked for, which takes longer than all the rest."""
    with torch_defaults():
        seen = dict(judge.observe(answer, SEEDS))
    return not differences(expected_of(judge, SEEDS), seen)


@pytest.mark.parametrize("name", TRIED)
def test_no_ready_made_function_answers_it(name):
    exercise = load(name)
    right = [way for way, answer in READY.items() if passes(exercise.judge, answer)]
    assert not right


@pytest.mark.parametrize(
    ("name", "ready"),
    [
        ("multi_head_attention", lambda *args: projected(*args)[0]),
        ("repair_no_softmax", partial(SDPA, enable_gqa=True)),
    ],
)
def test_it_gives_a_part_of_the_answer(name, ready):
    """They run as they should: with the output alone, as layers return it, they would pass."""
    exercise = load(name)
    for case in cases_of(exercise.judge, SEEDS):
        output, _ = exercise.judge.spec(*case.args)
        output = output.sum(1) if name == "multi_head_attention" else output
        torch.testing.assert_close(ready(*case.args), output, atol=1e-4, rtol=1e-3)
