"""Heads, layers, rows, parts of scores, formulas and memory: told where they are so, and not elsewhere."""

import pytest
import torch
from torch import nn

from attncourse.grading import load
from attncourse.grading.check import shown
from attncourse.grading.explain.formula import formula

pytestmark = pytest.mark.quick

MEMORY = "too many numbers are made on the way"
shared, absorbed = (load(x).right for x in ("grouped_query_attention", "absorbed_attention"))


def attend(change):
    """Right but for memory; keys and values are changed, and shared where they were not."""

    def answer(query, key, value):
        times = query.size(1) // key.size(1)
        key, value = (x.repeat_interleave(times, 1) for x in change(key, value))
        return (query @ key.mT / query.size(-1) ** 0.5).softmax(-1) @ value

    return answer


def layer(change=lambda layer, d: None, width=lambda d, h, g: d // h * g):
    """A class of layers that share keys, changed when it is built."""

    class Layer(nn.Module):
        def __init__(self, d, h, g):
            super().__init__()
            self.heads = h, g
            self.q_proj, self.out_proj = nn.Linear(d, d), nn.Linear(d, d)
            self.k_proj, self.v_proj = (nn.Linear(d, width(d, h, g)) for _ in "kv")
            change(self, d)

        def forward(self, x, is_causal=False):
            split = [y.unflatten(-1, (-1, x.size(-1) // self.heads[0])).transpose(1, 2)
                     for y in (self.q_proj(x), self.k_proj(x), self.v_proj(x))]  # fmt: skip
            mix = nn.functional.scaled_dot_product_attention
            heads = mix(*split, is_causal=is_causal, enable_gqa=True)
            return self.out_proj(heads.transpose(1, 2).flatten(2))

    return Layer


@pytest.mark.parametrize(
    ("name", "says", "answer"),
    [
        ("grouped_query_attention", MEMORY, attend(lambda k, v: (k, v))),
        ("grouped_query_attention", "Query heads 0 to 5 read KV heads 1, 1, 1, 0, 0, 0; they should read "
         "0, 0, 0, 1, 1, 1.", attend(lambda k, v: (k.flip(1), v.flip(1)))),
        ("grouped_query_attention", "Output heads 0 to 5 mix the values of KV heads 1, 1, 1, 0, 0, 0;",
         attend(lambda k, v: (k, v.flip(1)))),
        ("grouped_query_attention", "ask the questions of query heads 5, 4, 3, 2, 1, 0",
         lambda q, k, v: shared(q.flip(1), k, v)),
        ("share_the_keys", "The layer stores no q_proj.bias.",
         layer(lambda x, d: setattr(x.q_proj, "bias", None))),
        ("share_the_keys", "more than it should: norm.weight and norm.bias",
         layer(lambda x, d: setattr(x, "norm", nn.LayerNorm(d)))),
        ("share_the_keys", "k_proj and v_proj have embed_dim outputs; they should have embed_dim * "
         "num_kv_heads / num_heads.", layer(width=lambda d, h, g: d)),
        ("mean_pool", "row 0 of the result is x[5]; it should be 1/3 times (x[0] + x[5] + x[10])",
         lambda x, h, g: x.unflatten(0, (g, h // g, -1))[:, h // g // 2].flatten(0, 1)),
        ("absorbed_attention", "One right way goes on with the products of the rotary parts",
         lambda q, r, *rest: absorbed(q, 3 * r, *rest)),
    ],
)  # fmt: skip
def test_the_sentence_is_said(name, says, answer):
    read = "\n".join(shown(load(name).grade(answer)))
    assert says in read, read
    assert says == MEMORY or MEMORY not in read


def test_the_layer_without_a_change_is_right():
    assert load("share_the_keys").grade(layer()).status == "passed"


def test_a_formula_is_the_shortest_sum_and_none_where_there_is_none():
    terms = {"D^2": [16, 36, 100], "D": [4, 6, 10], "1": [1, 1, 1]}
    assert formula([32, 72, 200], terms) == "2 D^2"
    assert formula([15, 35, 99], terms) == "D^2 - 1"
    assert formula([-4, -6, -10], terms) == "- D"
    assert formula([0, 0, 0], terms) == "0"
    assert formula([0.5, 7.25, 1.125], terms) == ""


def test_a_wrong_result_is_not_called_too_large():
    verdict = load("decode_without_copy").grade(lambda q, k, v: torch.zeros(1))
    assert MEMORY not in "\n".join(shown(verdict))
