"""The judge of absorbed_attention: right results, and no tensor as large as the keys of one head."""

import torch

from attncourse.grading.allocations import made_by
from attncourse.grading.compare import Case, Raised
from attncourse.grading.memory_judge import Budget

# So chosen that whatever repeats the latents for every head is larger than the values of one head.
BATCH, HEADS, HEAD_DIM, VALUE_DIM, TOKENS, LATENT, ROTARY = 2, 5, 24, 20, 200, 5, 2
SIZES = {
    "the keys of all heads": HEADS * HEAD_DIM,
    "the values of all heads": HEADS * VALUE_DIM,
    "the latents, once for every head": HEADS * LATENT,
    "keys or values of one head": VALUE_DIM,
}
SIZE = "no tensor is as large as the keys or values of one head"


class Looks(str):
    """What was seen; two with the same words before the colon are the same."""

    def __eq__(self, other):
        return isinstance(other, Looks) and self.partition(":")[0] == other.partition(":")[0]

    def __hash__(self):
        return hash(self.partition(":")[0])


def definition(query, q_rotary, latent, k_rotary, w_k, w_v):
    """Keys and values are made, head by head and token by token; then it is attention."""
    b, h, d = query.shape
    scale = (d + q_rotary.size(-1)) ** -0.5
    outputs, maps = [], []
    for head in range(h):
        key = latent @ w_k.chunk(h)[head].T  # (b, m, d)
        value = latent @ w_v.chunk(h)[head].T
        scores = []
        for j in range(latent.size(1)):
            fit = (query[:, head] * key[:, j]).sum(-1)
            scores.append((fit + (q_rotary[:, head] * k_rotary[:, j]).sum(-1)) * scale)
        weights = torch.softmax(torch.stack(scores, dim=-1), dim=-1)
        maps.append(weights)
        outputs.append(sum(weights[:, j, None] * value[:, j] for j in range(latent.size(1))))
    return torch.stack(outputs, dim=1), torch.stack(maps, dim=1)


def call(g, b, h, d, e, m, c, r, loud=1.0) -> tuple:
    """Arguments for one token that asks and m that answer."""
    shapes = (b, h, d), (b, h, r), (b, m, c), (b, m, r), (h * d, c), (h * e, c)
    args = [torch.randn(shape, generator=g) for shape in shapes]
    return (loud * args[0], loud * args[1], *args[2:4], args[4] / c**0.5, args[5])


def cases(seed: int) -> list[Case]:
    """Every axis its own size; narrow and wide latents; one token; large scores."""
    g = torch.Generator().manual_seed(seed)
    # Scores near 768 and -768: exp has no number for them, in float64 either.
    far = call(g, 2, 2, 2, 3, 5, 4, 2)
    far[1][..., 0], far[3][..., 0] = torch.tensor([24.0, -24.0]), 64.0
    sizes = "2 samples, 3 heads, keys 4 wide, values 8 wide, 5 tokens, latent 7, rotary 6"
    return [
        Case(sizes, call(g, 2, 3, 4, 8, 5, 7, 6)),
        Case("a latent of 3, keys and values 5 wide", call(g, 2, 4, 5, 5, 6, 3, 2)),
        Case("all sizes equal to 4", call(g, 4, 4, 4, 4, 4, 4, 4)),
        Case("1 token", call(g, 2, 3, 5, 4, 1, 6, 2)),
        Case("1 head", call(g, 3, 1, 4, 5, 6, 7, 2)),
        Case("1 sample, latent 1, values 1 wide", call(g, 1, 3, 5, 1, 4, 1, 2)),
        # float32 rounds the large scores, and the gradients with them
        Case("large scores", call(g, 1, 2, 3, 6, 5, 4, 2, loud=300.0), gradients=False),
        Case("scores near 768 and -768", far, gradients=False),
    ]


def memory(answer):
    """True when nothing large was made, else what was as large; one sample alone is no way around."""
    for batch, where in ((BATCH, ""), (1, "with 1 sample, ")):
        found = one_call(answer, batch, where)
        if found is not True:
            return found
    return True


def one_call(answer, batch: int, where: str):
    """The same of a single call with so many samples."""
    g = torch.Generator().manual_seed(7)
    args = call(g, batch, HEADS, HEAD_DIM, VALUE_DIM, TOKENS, LATENT, ROTARY)
    try:
        largest = made_by(answer, *args).largest
    except (Exception, SystemExit) as error:
        return Raised.by(error)
    for what, width in SIZES.items():
        if largest >= batch * TOKENS * width:
            return Looks(f"{where}one is as large as {what}: {largest:,} numbers")
    return True


def absorbed(query, q_rotary, latent, k_rotary, w_k, w_v):
    """What is right, quickly."""
    heads = query.size(1)
    asks = torch.einsum("bhd,hdc->bhc", query, w_k.unflatten(0, (heads, -1)))
    scores = asks @ latent.mT + q_rotary @ k_rotary.mT
    weights = torch.softmax(scores * (query.size(-1) + q_rotary.size(-1)) ** -0.5, dim=-1)
    mixed = weights @ latent
    return torch.einsum("bhc,hec->bhe", mixed, w_v.unflatten(0, (heads, -1))), weights


def large_call(g) -> tuple:
    """The keys or the values of one head are 128 MiB; the latents are small."""
    return call(g, b=1, h=2, d=4096, e=4096, m=8192, c=6, r=2)


BUDGET = Budget(large_call, absorbed)
