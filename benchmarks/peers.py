"""The library against its peers, each on the same weights or the same inputs: one ratio of CPU times a case.

    python benchmarks/peers.py [CASE ...]

One thread, the best of interleaved repeats. The peers are torch's own layer, transformers, fla and local-attention
(``pip install -e ".[bench]"``). The file of results names the cases; a number below 1 means that ours is faster.
"""

import sys
from contextlib import redirect_stdout
from functools import partial
from io import StringIO

import torch
import torch.nn.functional as F
from deepseek import deepseek
from global_local import WIDTH
from heads import calls, layers
from linear import library
from results import RESULTS, write_table
from scores import deberta
from timing import best_seconds
from window import METHODS

from attncourse import decode, new_cache
from attncourse.lab.models import manual
from attncourse.variants.delta import delta_rule
from attncourse.variants.latent import LatentAttention
from attncourse.variants.linear import linear_attention
from attncourse.variants.multi_token import multi_token_attention


def drawn(*shape: int, count: int = 3) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape) for _ in range(count)]


def writing():
    """200 tokens of the language model, and of transformers' GPT-2 of the same size, both with a cache."""
    from transformers import GPT2Config, GPT2LMHeadModel

    ours = manual()
    width, heads = ours.token.embedding_dim, 6
    sizes = {"n_embd": width, "n_layer": len(ours.encoder.layers), "n_head": heads}
    config = GPT2Config(
        vocab_size=len(ours.tokenizer), bos_token_id=0, eos_token_id=None, pad_token_id=0, **sizes
    )
    theirs, prompt = GPT2LMHeadModel(config).eval(), "The function returns"
    tokens = ours.read(prompt)[1]
    options = {"max_new_tokens": 200, "do_sample": True, "temperature": 0.7, "top_k": 0}

    def write():
        with redirect_stdout(StringIO()):  # the progress bar
            ours.write(prompt, length=200)

    def generate():
        with torch.no_grad():
            theirs.generate(tokens, attention_mask=torch.ones_like(tokens), **options)

    return write, generate


def weights():
    """A forward pass with its weights, as torch's layer gives them."""
    ours, theirs = layers()
    (x,) = drawn(1, 1024, 512, count=1)
    return (
        lambda: ours(x, need_weights=True),
        lambda: theirs(x, x, x, need_weights=True, average_attn_weights=False),
    )


def heads():
    """A causal pass without weights."""
    (x,) = drawn(1, 1024, 512, count=1)
    return calls(*layers(), x)


def both_ways():
    """Linear attention, not causal, and two plain products."""
    q, k, v = drawn(1, 4, 4096, 64)

    def plain():
        queries, keys = F.elu(q) + 1, F.elu(k) + 1
        return (queries @ (keys.mT @ v)) / (queries @ keys.sum(2)[..., None])

    torch.testing.assert_close(linear_attention(q, k, v), plain(), rtol=1e-3, atol=1e-4)
    return lambda: linear_attention(q, k, v), plain


def kda():
    """The delta rule with a decay for each channel, in chunks."""
    q, k, v, decay, beta = drawn(1, 4, 2048, 64, count=5)
    k, decay, beta = F.normalize(k, dim=-1), F.logsigmoid(decay), torch.sigmoid(beta[..., 0])
    swapped = [x.transpose(1, 2).contiguous() for x in (q, k, v, decay, beta)]
    theirs = partial(library("kda").naive_chunk_kda, *swapped)
    ours = partial(delta_rule, q, k, v, beta, log_decay=decay)
    torch.testing.assert_close(ours(), theirs()[0].transpose(1, 2), rtol=1e-2, atol=1e-3)
    return ours, theirs


def latent():
    """One decoded token behind 8,192, absorbed, and by DeepSeek's layer of transformers."""
    from transformers import DynamicCache

    torch.manual_seed(0)
    layer, n = LatentAttention(512, 8, 64, 224, 32), 8192
    theirs, angles = deepseek(layer)
    before, x = drawn(1, n - 1, 512, count=1)[0], torch.randn(1, 1, 512)
    cache, kept = new_cache(layer, 1, n), DynamicCache()
    decode(layer, before, cache)
    at = torch.arange(n)[None]
    with torch.no_grad():
        causal = torch.ones(1, 1, n - 1, n - 1, dtype=torch.bool).tril()
        theirs(before, angles(before, at[:, :-1]), causal, past_key_values=kept)

    def ours():
        cache.length = n - 1
        return decode(layer, x, cache, absorbed=True)

    def library_step():
        with torch.no_grad():
            out = theirs(x, angles(x, at[:, -1:]), None, past_key_values=kept)[0]
        kept.crop(-1)
        return out

    torch.testing.assert_close(ours(), library_step(), rtol=1e-3, atol=1e-4)
    return ours, library_step


def multi_token():
    """Multi-token attention, 16 heads, and the same with torch's convolution as one writes it first."""
    q, k, v = drawn(1, 16, 1024, 32)
    kernel = 0.1 * torch.randn(16, 6, 11)
    hidden = torch.ones(1024, 1024, dtype=torch.bool).triu(1)

    def plain():
        scores = (q @ k.mT / 32**0.5).masked_fill(hidden, 0.0)
        table = F.conv2d(F.pad(scores, (5, 5, 5, 0)), kernel[:, None], groups=16)
        return table.masked_fill(hidden, -torch.inf).softmax(-1) @ v

    ours = lambda: multi_token_attention(q, k, v, kernel)[0]  # noqa: E731
    torch.testing.assert_close(ours(), plain(), rtol=1e-3, atol=1e-4)
    return ours, plain


def window():
    """A causal window of 128 over 8,192 tokens, and the library local-attention."""
    inputs = (*drawn(1, 4, 8192, 64), None)
    return partial(METHODS["blocks"], *inputs), partial(METHODS["local-attention"], *inputs)


def disentangled():
    """DeBERTa's layer over 512 tokens, and that of transformers."""
    (_, ours), (_, theirs), _ = deberta(512)
    return ours, theirs


# Case -> what, how, repeats, and the most that the ratio may be.
CASES = {
    "write": ("writing 200 tokens; GPT-2 of transformers", writing, 5, 1.1),
    "weights": ("multi-head with its weights, 1,024; torch", weights, 20, 1.1),
    "heads": ("multi-head, causal, 1,024; torch", heads, 20, 1.0),
    "linear": ("linear both ways, 4,096; two plain products", both_ways, 20, 1.0),
    "kda": ("delta rule, decay per channel, 2,048; fla's chunks", kda, 8, 0.9),
    "latent": ("latent, absorbed, a token behind 8,192; transformers", latent, 20, 0.8),
    "multi_token": ("multi-token, 16 heads, 1,024; a plain conv2d", multi_token, 8, 1.0),
    "window": ("window of 128, 8,192; local-attention", window, 8, 0.33),
    "disentangled": (f"DeBERTa's layer, 512, width {WIDTH}; transformers", disentangled, 15, 0.6),
}


@torch.no_grad()
def main(*names: str) -> None:
    torch.set_num_threads(1)
    rows, broken = [], []
    for name in names or CASES:
        what, make, repeats, limit = CASES[name]
        ours, theirs = best_seconds(*make(), repeats=repeats)
        ratio = round(ours / theirs, 2)
        print(name, f"{1e3 * ours:.2f} ms", f"{1e3 * theirs:.2f} ms", ratio, limit, flush=True)
        rows.append([what, round(1e3 * ours, 2), round(1e3 * theirs, 2), ratio, limit])
        broken += [what] * (ratio > limit)
    if names:
        return  # a look at some of them; the table is of all, from one run
    write_table(
        "peers",
        caption="This library and others: the same work, times in ms",
        note="Forward, float32, one thread, CPU time, the best of interleaved repeats in one run. The ratio is our time over "
        f"theirs. The limits are {'broken: ' + '; '.join(broken) if broken else 'kept'}.",
        columns=["what; who else", "ours, ms", "theirs, ms", "ratio", "limit"],
        rows=rows,
    )
    print(RESULTS / "peers.json")


if __name__ == "__main__":
    main(*sys.argv[1:])
