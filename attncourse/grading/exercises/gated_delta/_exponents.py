"""What may be wrong with each of the four exponents of a chunk: what is said, and the exponent."""

import math

from torch import Tensor


def read_early(total: Tensor, logs: Tensor) -> Tensor:
    """The old state without the decay of the token that reads, as in the code as found."""
    return total - logs


def written_early(total: Tensor, logs: Tensor) -> Tensor:
    """Tokens faded by those up to them, as in the code as found."""
    return total


def zero(total: Tensor, logs: Tensor) -> Tensor:
    """Nothing fades."""
    return 0 * total


EXPONENTS = {
    "reads": ("What the tokens read of the old state", (
        ("has not faded by the token that reads, as in the code as found", read_early),
        ("does not fade at all", zero),
        ("has faded by all of the chunk for each token; token i is reached when 0 to i have faded it", lambda t, g: t[..., -1:] + 0 * t),
        ("has faded by the tokens behind the reading one, not by those up to it", lambda t, g: t[..., -1:] - t),
        ("has faded by the reading token alone", lambda t, g: g),
        ("has faded by the first token alone", lambda t, g: g[..., :1] + 0 * t),
        ("grows where it should fade", lambda t, g: -t),
        ("has faded twice", lambda t, g: 2 * t),
        ("has not faded by token 0", lambda t, g: t - g[..., :1]),
    )),
    "writes": ("What the new state holds of each token", (
        ("has faded by the tokens up to it instead of those behind it, as in the code as found", written_early),
        ("does not fade", zero),
        ("has faded by the token itself, too", lambda t, g: t[..., -1:] - t + g),
        ("has faded by all tokens of the chunk", lambda t, g: t[..., -1:] + 0 * t),
        ("has faded by the token itself alone", lambda t, g: g),
        ("has faded by the last token alone", lambda t, g: g[..., -1:] + 0 * t),
        ("has faded by the tokens before it, those behind it should do so", lambda t, g: t - g),
        ("has faded twice", lambda t, g: 2 * (t[..., -1:] - t)),
        ("has not faded by the last token", lambda t, g: (t[..., -1:] - g[..., -1:] - t).clamp(max=0.0)),
        ("grows where it should fade", lambda t, g: t - t[..., -1:]),
    )),
    "keeps": ("What the new state holds of the old one", (
        ("does not fade", lambda t, g: 0 * t[..., -1:]),
        ("has faded by the last token only", lambda t, g: g[..., -1:]),
        ("has faded by the first token only", lambda t, g: g[..., :1]),
        ("has not faded by the last token", lambda t, g: t[..., -1:] - g[..., -1:]),
        ("has not faded by the first token", lambda t, g: t[..., -1:] - g[..., :1]),
        ("has faded by the mean of the log-decays", lambda t, g: g.mean(-1, keepdim=True)),
        ("has faded twice", lambda t, g: 2 * t[..., -1:]),
        ("is lost", lambda t, g: -math.inf + 0 * t[..., -1:]),
    )),
    "table": ("What each token is to those behind it", (
        ("has faded by its own decay, too; that was before it was written", lambda t, g: t[..., :, None] - (t - g)[..., None, :]),
        ("has not faded by the token that reads", lambda t, g: ((t - g)[..., :, None] - t[..., None, :]).clamp(max=0.0)),
        ("does not fade", lambda t, g: 0 * (t[..., :, None] + t[..., None, :])),
        ("has faded from the beginning of the chunk on", lambda t, g: t[..., :, None] + 0 * t[..., None, :]),
        ("grows where it should fade", lambda t, g: t[..., None, :] - t[..., :, None]),
        ("has faded between the tokens before both: j to i - 1", lambda t, g: (t - g)[..., :, None] - (t - g)[..., None, :]),
    )),
}  # fmt: skip
