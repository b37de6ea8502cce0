"""The same slip in exercises of every kind: it hears the same sentence."""

import torch
from torch import nn
from torch.nn.functional import softmax

from unseen import right, wrong

TENSOR = torch.ones(2, 3)


def attend(query, key, value):
    weights = softmax(query @ key.mT / query.size(-1) ** 0.5, -1)
    return weights @ value, weights


right("sharpness", 7)
wrong("split_heads", "is `return` missing?", lambda *x: None)
wrong("kv_bytes", "is `return` missing?", lambda *x, **named: None)
wrong("causal_mask", "is `return` missing?", never="no number", made=True)(
    lambda: lambda n, m: None
)

# The result instead of the function that gives it.
wrong("split_heads", "got Tensor", "uncalled", TENSOR)
wrong("split_heads", "got tuple", "uncalled", attend(TENSOR, TENSOR, TENSOR))
wrong("honest_plot", "it is a tensor; pass the class itself", TENSOR)
wrong("append", "A tensor is called as if it were a function", TENSOR)

# Other arguments than it is called with, told once.
wrong("split_heads", "called with (x, num_heads)", "yours takes (x)", never="raised", made=True)(
    lambda: lambda x: x
)
wrong("scaled_dot_product_attention", "yours takes (q, k)", lambda q, k: (q, k))
wrong(
    "strided_checkpoint", "called with (w_q, w_o,", "yours takes (w_q)", never="raised", made=True
)(lambda: lambda w_q: w_q)


class TooFew(nn.Module):
    def __init__(self, embed_dim):
        super().__init__()


for _name in "head_dim", "honest_plot", "pseudo_tokens":
    wrong(_name, "it is built with (embed_dim, num_heads", "yours takes (embed_dim)",
          never=("raised", "stores other numbers"), made=True)(lambda: TooFew)  # fmt: skip


class NotSetUp(nn.Module):
    def __init__(self, embed_dim, num_heads=2, dropout=0.0):
        self.q_proj = nn.Linear(embed_dim, embed_dim)


for _name in "head_dim", "honest_plot":
    wrong(_name, "super().__init__()", "cannot assign module before Module.__init__()", NotSetUp)


@wrong("scaled_dot_product_attention", "result 2 of 2: it is None")
def without_its_weights(query, key, value):
    return attend(query, key, value)[0], None


@wrong("scaled_dot_product_attention", "No gradient flows back")
@torch.no_grad()
def under_no_grad(query, key, value):
    return attend(query, key, value)


@wrong("scaled_dot_product_attention", "Two tensors meet whose axes differ", "raised RuntimeError")
def torch_says_why(query, key, value):
    return softmax(query @ key, -1) @ value, key


# What is no number, or several.
wrong("sharpness", "that is a dict", {"n": 7})
wrong("sharpness", "got 2 numbers", [7, 8])
wrong("sharpness", "numbers of shape (2, 2)", [[7, 8], [7, 8]])
wrong("sharpness", "got [1, [2, 3]]", [1, [2, 3]])
wrong("sharpness", "write it without quotes", made=True)(lambda: "7")
wrong("sharpness", "pass the number that it gives", lambda: 7)
