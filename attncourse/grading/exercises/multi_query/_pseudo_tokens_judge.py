"""The judge of pseudo_tokens: what does a layer with known parameters compute?"""

import math
import zlib

import torch
from torch import nn

from attncourse import spec
from attncourse.grading.compare import NotAttempted, Raised, is_stub

# embed_dim, num_heads, batch, n, and how loud the input is
SIZES = (12, 3, 2, 5, 1.0), (10, 2, 1, 4, 3.0), (20, 4, 4, 3, 1.0), (6, 1, 2, 4, 1.0)


class Layers:
    """Builds layers from the answer, gives them known parameters, and looks at what they compute."""

    def observe(self, answer, seed: int) -> dict:
        if isinstance(answer, nn.Module):
            return {"it is a class": "it is an instance; pass the class itself"}
        seen = {"it is a class": True}
        for size in SIZES:
            label = f"embed_dim {size[0]}, {size[1]} head{'s' * (size[1] > 1)}"
            try:
                seen |= self._look(answer, *size, label, seed)
            except (Exception, SystemExit) as error:
                if isinstance(error, NotImplementedError) and is_stub(error) and len(seen) == 1:
                    raise NotAttempted from None
                seen[f"{label}, weights"] = Raised.by(error)
        return seen

    def _look(self, answer, embed_dim, num_heads, batch, n, loud, label, seed) -> dict:
        layer = answer(embed_dim, num_heads)
        params = dict(layer.named_parameters())
        seen = {f"{label}, parameters": sum(p.numel() for p in params.values())}
        for name, p in params.items():
            p.data = draw(name, p.shape, seed)
        x = loud * draw("x", (batch, n, embed_dim), seed)
        before, past = x.clone(), torch.ones(n, n, dtype=torch.bool).tril()
        pattern = (draw("mask", (n, n), seed) > 0) | torch.eye(n, dtype=torch.bool)
        masks = {label: (), f"{label}, causal": (past,), f"{label}, another mask": (pattern,)}
        copies = {what: [m.clone() for m in mask] for what, mask in masks.items()}
        for what, mask in masks.items():
            try:
                output, weights = layer(x, *mask)
                seen[f"{what}, weights"] = weights.detach()
                seen[f"{what}, output"] = output.detach()
                if output.requires_grad:
                    output.square().sum().backward()
            except (Exception, SystemExit) as error:
                if isinstance(error, NotImplementedError) and is_stub(error) and not mask:
                    raise
                seen[f"{what}, weights"] = Raised.by(error)
        of_key, of_value = slice(embed_dim // num_heads), slice(embed_dim // num_heads, None)
        for name, part, rows in (
            ("q_proj.weight", "", slice(None)),
            ("kv_proj.weight", ", rows of the key", of_key),
            ("kv_proj.weight", ", rows of the value", of_value),
            ("kv_proj.bias", "", slice(None)),
            ("out_proj.weight", "", slice(None)),
        ):
            g = params[name].grad if name in params else None
            seen[f"{label}, gradient reaches {name}{part}"] = g is not None and bool(g[rows].any())
        seen[f"{label}, x left unchanged"] = torch.equal(x, before)
        seen[f"{label}, attn_mask left unchanged"] = all(
            torch.equal(m, c)
            for what in masks
            for m, c in zip(masks[what], copies[what], strict=True)
        )
        return seen

    def expected(self, seed: int) -> dict:
        return self.observe(Definition, seed)


def draw(name: str, shape, seed: int):
    """The same numbers for the same name, shape and seed."""
    g = torch.Generator().manual_seed(zlib.crc32(name.encode()) + seed)
    x = torch.randn(shape, generator=g)
    return x / shape[-1] ** 0.5 if name.endswith("weight") else x


class Projections(nn.Module):
    """What every answer starts from; ``rows`` is the width of kv_proj in heads."""

    def __init__(self, embed_dim, num_heads, rows=2, bias=True):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.kv_proj = nn.Linear(embed_dim, rows * self.head_dim, bias=bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def queries(self, x):
        return self.q_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def keys_and_values(self, x):
        return self.kv_proj(x).chunk(2, dim=-1)

    def attend(self, q, k, v, mask=None, scale=None):
        scores = q @ k.mT * (self.head_dim**-0.5 if scale is None else scale)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = torch.softmax(scores, dim=-1)
        return weights @ v, weights

    def join(self, heads):
        return self.out_proj(heads.transpose(1, 2).flatten(2))

    def forward(self, x, attn_mask=None):
        k, v = (t[:, None] for t in self.keys_and_values(x))
        heads, weights = self.attend(self.queries(x), k, v, attn_mask)
        return self.join(heads), weights


class Definition(Projections):
    """The loops of the course, with one key head."""

    def forward(self, x, attn_mask=None):
        params = dict(self.named_parameters())
        for part in ("weight", "bias"):
            k, v = params[f"kv_proj.{part}"].chunk(2)
            params |= {f"k_proj.{part}": k, f"v_proj.{part}": v}
        return spec.multi_head_attention(x, x, x, params, self.num_heads, attn_mask, num_kv_heads=1)
