"""The judge of share_the_keys: what does a layer store, and what does it compute with known parameters?"""

import zlib

import torch
from torch import nn

from attncourse import spec
from attncourse.grading.compare import NotAttempted, Raised, is_stub

# embed_dim, num_heads, num_kv_heads, batch, n, and how loud the input is
SIZES = (
    (24, 6, 2, 2, 5, 1.0),
    (16, 8, 4, 1, 3, 1.0),
    (12, 4, 2, 2, 4, 4.0),
    (12, 4, 4, 2, 3, 1.0),
    (15, 5, 1, 2, 4, 1.0),
    (18, 6, 3, 2, 1, 1.0),
)
PROJECTIONS = "q_proj", "k_proj", "v_proj", "out_proj"


class Shared:
    """Builds layers from the answer, gives them known parameters, and looks at what they compute."""

    def observe(self, answer, seed: int) -> dict:
        if isinstance(answer, nn.Module):
            return {"it is a class": "it is an instance; pass the class itself"}
        seen = {"it is a class": True}
        for size in SIZES:
            label = f"embed_dim {size[0]}, H = {size[1]}, G = {size[2]}"
            try:
                seen |= look(answer, *size, label, seed)
            except (Exception, SystemExit) as error:
                if isinstance(error, NotImplementedError) and is_stub(error) and len(seen) == 1:
                    raise NotAttempted from None
                seen[f"{label}, layer"] = Raised.by(error)
        return seen

    def expected(self, seed: int) -> dict:
        """The loops compute, and a formula counts."""
        seen = self.observe(Definition, seed)
        for width, num_heads, num_kv_heads, *_ in SIZES:
            label = f"embed_dim {width}, H = {num_heads}, G = {num_kv_heads}"
            narrow = width * num_kv_heads // num_heads
            seen[f"{label}, parameters"] = 2 * (width + 1) * (width + narrow)
        return seen


def look(answer, width, num_heads, num_kv_heads, batch, n, loud, label, seed) -> dict:
    """One layer: how many numbers it stores and where; outputs and gradients, causal and not."""
    layer = answer(width, num_heads, num_kv_heads)
    params = dict(layer.named_parameters())
    seen = {f"{label}, parameters": sum(p.numel() for p in params.values())}
    for name in (f"{projection}.weight" for projection in PROJECTIONS):
        shape = " x ".join(map(str, params[name].shape)) if name in params else "nothing"
        seen[f"{label}, shape of {name}"] = shape
    for name, p in params.items():
        p.data = draw(name, p.shape, seed)
    x = loud * draw("x", (batch, n, width), seed)
    for what, kwargs in ((label, {}), (f"{label}, causal", {"is_causal": True})):
        given = x.clone().requires_grad_() * 1
        given.retain_grad()
        layer.zero_grad()
        try:
            output = layer(given, **kwargs)
            seen[f"{what}, output"] = output.detach() if torch.is_tensor(output) else output
            seen[f"{what}, x left unchanged"] = torch.equal(given.detach(), x)
            if loud == 1:  # float32 rounds the large scores, and the gradients with them
                seen |= gradients(output, given, params, what)
        except (Exception, SystemExit) as error:
            if isinstance(error, NotImplementedError) and is_stub(error):
                raise
            seen[f"{what}, output"] = Raised.by(error)
    return seen


def gradients(output, x, params, what) -> dict:
    """Gradients of a fixed mixture of the outputs."""
    if not torch.is_tensor(output):
        return {}
    if output.requires_grad:
        (output * draw("mixture", output.shape, 1)).sum().backward()
    found = {"x": x} | {f"{name}.weight": params.get(f"{name}.weight") for name in PROJECTIONS}
    return {
        f"{what}, gradient of {name}": torch.zeros_like(p) if p.grad is None else p.grad.clone()
        for name, p in found.items()
        if p is not None
    }


def draw(name: str, shape, seed: int):
    """The same numbers for the same name, shape and seed."""
    g = torch.Generator().manual_seed(zlib.crc32(name.encode()) + seed)
    x = torch.randn(shape, generator=g)
    return x / shape[-1] ** 0.5 if name.endswith("weight") else x


class Projections(nn.Module):
    """What every answer starts from; ``rows`` counts the heads of k_proj and of v_proj."""

    def __init__(self, embed_dim, num_heads, num_kv_heads, rows=None, bias=True):
        super().__init__()
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.head_dim = embed_dim // num_heads
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        of_keys, of_values = rows or (num_kv_heads, num_kv_heads)
        self.k_proj = nn.Linear(embed_dim, of_keys * self.head_dim, bias=bias)
        self.v_proj = nn.Linear(embed_dim, of_values * self.head_dim, bias=bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def split(self, x):
        """(b, heads, n, head_dim), however many heads x has."""
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def project(self, x):
        return tuple(self.split(p(x)) for p in (self.q_proj, self.k_proj, self.v_proj))

    def share(self, x):
        """One key head or value head for every query head."""
        return x.repeat_interleave(self.num_heads // x.size(1), dim=1)

    def attend(self, q, k, v, is_causal=False, scale=None):
        scores = q @ k.mT * (self.head_dim**-0.5 if scale is None else scale)
        if is_causal:
            future = torch.ones(q.size(2), k.size(2), dtype=torch.bool).triu(1)
            scores = scores.masked_fill(future, -torch.inf)
        return scores.softmax(-1) @ v

    def join(self, heads):
        return self.out_proj(heads.transpose(1, 2).flatten(2))

    def forward(self, x, is_causal=False):
        q, k, v = self.project(x)
        return self.join(self.attend(q, self.share(k), self.share(v), is_causal))


class Definition(Projections):
    """The loops of the course."""

    def forward(self, x, is_causal=False):
        params, sizes = dict(self.named_parameters()), (self.num_heads, None, is_causal)
        return spec.multi_head_attention(x, x, x, params, *sizes, self.num_kv_heads)[0]
