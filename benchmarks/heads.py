"""MultiHeadAttention against torch.nn.MultiheadAttention: ratios of CPU time in one run.

    python benchmarks/heads.py

One thread, ``time.thread_time``, the best of interleaved repeats, so that a busy machine cannot
favour one side. Both layers run without weights, in float32, embed_dim 512 and 8 heads, causal.
"""

import torch
from results import write_table
from timing import best_seconds
from torch import nn

from attncourse import MultiHeadAttention

SHAPES = ((8, 128), (4, 512), (1, 1024), (1, 4096))  # (batch, length)
LIMIT = 1.10


def layers():
    """Ours and torch's, on the same weights."""
    torch.manual_seed(0)
    ours = MultiHeadAttention(512, 8)
    theirs = nn.MultiheadAttention(512, 8, batch_first=True)
    with torch.no_grad():
        projections = (ours.q_proj, ours.k_proj, ours.v_proj)
        theirs.in_proj_weight.copy_(torch.cat([p.weight for p in projections]))
        theirs.in_proj_bias.copy_(torch.cat([p.bias for p in projections]))
        theirs.out_proj.load_state_dict(ours.out_proj.state_dict())
    return ours, theirs


def calls(ours, theirs, x):
    """The same work for both: one causal pass without weights."""
    causal = nn.Transformer.generate_square_subsequent_mask(x.size(1))
    return (
        lambda: ours(x, is_causal=True),
        lambda: theirs(x, x, x, attn_mask=causal, is_causal=True, need_weights=False)[0],
    )


def training_step(layer, forward):
    """Forward, backward and one SGD update."""
    optimizer = torch.optim.SGD(layer.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        forward().square().mean().backward()
        optimizer.step()

    return step


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for batch, length in SHAPES:
        ours, theirs = layers()
        x = torch.randn(batch, length, 512)
        forward = calls(ours, theirs, x)
        torch.testing.assert_close(forward[0](), forward[1](), rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            a, b = best_seconds(*forward)
        steps = [training_step(*pair) for pair in zip((ours, theirs), forward, strict=True)]
        c, d = best_seconds(*steps, repeats=8)
        rows.append([f"batch {batch}, length {length}", round(a / b, 2), round(c / d, 2)])
        print(rows[-1], flush=True)
    worst = max(max(row[1:]) for row in rows)
    write_table(
        "heads",
        caption="Time of MultiHeadAttention relative to torch.nn.MultiheadAttention",
        note=f"Without weights, causal, one thread, CPU time. Below 1 is faster than torch; the "
        f"limit of {LIMIT} is {'kept' if worst <= LIMIT else 'broken'}, the worst is {worst}.",
        columns=["case", "forward", "training step"],
        rows=rows,
    )


if __name__ == "__main__":
    main()
