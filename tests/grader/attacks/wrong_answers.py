"""For each exercise under attack the wrong answer that the attacks dress up."""

from grader.attacks import scores_answers
from grader.attacks.right_answers import RIGHT

WRONG = {
    **scores_answers.WRONG,
    # no scale
    "scaled_dot_product_attention": """
def scaled_dot_product_attention(query, key, value):
    weights = torch.softmax(query @ key.transpose(-2, -1), dim=-1)
    return weights @ value, weights
""",
    # nothing is hidden
    "causal_mask": """
def causal_mask(n, m):
    return torch.ones(n, m, dtype=torch.bool)
""",
    "find_the_leak": """
def first_leak(model, x):
    return -1
""",
    # the heads are merged without a transpose
    "multi_head_attention": """
def multi_head_attention(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    def split(x):
        return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)

    q, k, v = split(query @ w_q.T), split(key @ w_k.T), split(value @ w_v.T)
    weights = torch.softmax(q @ k.transpose(-2, -1) / q.size(-1) ** 0.5, dim=-1)
    return (weights @ v).reshape(query.shape) @ w_o.T, weights
""",
    # refuses nothing
    "head_dim": """
class RepairedAttention(AttentionAsFound):
    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads)
""",
    # the rule is written down; nothing is learned
    "train_reversal": """
class Reader(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, tokens):
        return torch.nn.functional.one_hot(tokens.flip(1), 20).float() + 0 * self.scale


model = Reader()
""",
    # says 0
    "train_forecaster": """
forecaster = torch.nn.Linear(24, 8)
torch.nn.init.zeros_(forecaster.weight)
torch.nn.init.zeros_(forecaster.bias)
""",
    "longer": """
model = torch.nn.Embedding(16, 16)
""",
    "append": """
class RepairedCache(CacheAsFound):
    pass
""",
    # these copy what is to be read where it lies; without a limit on memory they are right
    "decode_without_copy": """
def decode_step(query, key, value):
    key, value = (x.repeat_interleave(query.size(1), dim=1) for x in (key, value))
    scores = query @ key.transpose(-2, -1) / query.size(-1) ** 0.5
    return torch.softmax(scores, dim=-1) @ value
""",
    "grouped_query_attention": """
def grouped_query_attention(query, key, value):
    key, value = (x.repeat_interleave(query.size(1) // x.size(1), dim=1) for x in (key, value))
    scores = query @ key.transpose(-2, -1) / query.size(-1) ** 0.5
    return torch.softmax(scores, dim=-1) @ value
""",
    "repair_no_softmax": """
def grouped_attention(query, key, value):
    key, value = (x.repeat_interleave(query.size(1) // x.size(1), dim=1) for x in (key, value))
    return (query @ key.mT / query.size(-1) ** 0.5) @ value
""",
    "absorbed_attention": """
def absorbed_attention(query, q_rotary, latent, k_rotary, w_k, w_v):
    heads = query.size(1)
    key = (latent @ w_k.T).unflatten(-1, (heads, -1)).transpose(1, 2)
    value = (latent @ w_v.T).unflatten(-1, (heads, -1)).transpose(1, 2)
    scores = (query[:, :, None] @ key.transpose(-2, -1))[:, :, 0]
    scores = scores + q_rotary @ k_rotary.transpose(1, 2)
    weights = torch.softmax(scores * (query.size(-1) + q_rotary.size(-1)) ** -0.5, dim=-1)
    return (weights[:, :, None] @ value)[:, :, 0], weights
""",
    "crossover": "largest_n = 80\n",
    "attention_tile": """
@triton.jit
def attention_tile(Q, KV, Out, Lse, n, m, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    keys, features = tl.arange(0, BLOCK_N), tl.arange(0, D)
    own, at = rows[:, None] * D + features[None, :], keys[:, None] * 2 * D + features[None, :]
    q = tl.load(Q + own, mask=rows[:, None] < n, other=0.0)
    k = tl.load(KV + at, mask=keys[:, None] < m, other=0.0)
    v = tl.load(KV + D + at, mask=keys[:, None] < m, other=0.0)
    scores = tl.dot(q, tl.trans(k)) * scale
    top = tl.max(scores, 1)
    p = tl.exp(scores - top[:, None])
    total = tl.sum(p, 1)
    tl.store(Out + own, tl.dot(p, v) / total[:, None], mask=rows[:, None] < n)
    tl.store(Lse + rows, top + tl.log(total), mask=rows < n)
""",
    "repair_edge": """
def repaired_kernel(program, memory, Q, K, V, Out, n, m, d, block_m, block_n):
    i, e = program * block_m, (program + 1) * block_m
    q, k, v = (memory[x + a * d : x + b * d].view(-1, d) for x, a, b in ((Q, i, e), (K, 0, m), (V, 0, m)))
    memory[Out + i * d : Out + e * d] = (torch.softmax(q @ k.T / d**0.5, -1) @ v).flatten()
""",
    "merge_parts": """
def merge_parts(outputs, lses):
    weights = torch.softmax(lses, 0)
    return (weights[..., None] * torch.where(weights[..., None] > 0, outputs, 0.0)).sum(0), lses.logsumexp(0)
""",
    "zigzag_schedule": """
def schedule(rank, world):
    q = torch.tensor([rank, 2 * world - 1 - rank])[:, None]
    steps = [(rank - s) % world for s in range(world)]
    return torch.stack([(k < q) * 2 + (k <= q) * 1 for s in steps for k in [torch.tensor([[s, 2 * world - 1 - s]])]])
""",
    # the hands alternate
    "sinusoid": """
def sinusoid(positions, width, base):
    angles = positions[:, None] * base ** (-torch.arange(0, width, 2) / width)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
""",
    # clipped distances
    "t5_bucket": """
def t5_bucket(distance, buckets, furthest):
    return distance.abs().clamp(max=buckets // 2 - 1) + buckets // 2 * (distance < 0)
""",
    # positions from 0
    "rotary_step": RIGHT["rotary_step"].replace("past[:, None]", "0 * past[:, None]"),
    # as found
    "repair_positions": """
def repaired_bias(table, n, m):
    reach = table.size(1) // 2
    distance = torch.arange(n)[:, None] - torch.arange(m)
    return table[:, distance.clamp(-reach, reach)]
""",
    # nothing is rescaled
    "online_step": RIGHT["online_step"].replace(
        "torch.exp(maximum - shift)", "torch.ones_like(maximum)"
    ),
    # the mean
    "merge_halves": """
def merge_halves(output_a, lse_a, output_b, lse_b):
    return (output_a + output_b) / 2, torch.logaddexp(lse_a, lse_b)
""",
    # counts nothing
    "repair_rescaling": """
def repaired_attention(query, key, value, size):
    output = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    return output, torch.ones(query.shape[:3])
""",
    # makes all scores; without a limit on memory it is right
    "tiled_forward": """
def tiled_attention(query, key, value, first, rows, columns):
    hidden = torch.arange(key.size(2)) < first[:, None, None, None]
    scores = (query @ key.mT / query.size(-1) ** 0.5).masked_fill(hidden, -math.inf)
    return torch.softmax(scores, dim=-1).nan_to_num(0.0) @ value, scores.logsumexp(-1)
""",
    # of this block alone, as if there were no other
    "block_gradients": """
def block_gradients(query, key, value, output, lse, grad_output):
    inputs = [x.detach().requires_grad_() for x in (query, key, value)]
    with torch.enable_grad():
        again = torch.nn.functional.scaled_dot_product_attention(*inputs)
    return torch.autograd.grad(again, inputs, grad_output)
""",
    # the window alone
    # makes the scores of all pairs; without a limit on memory it is right
    "linear_window": """
def linear_mix(query, key, value, window_size):
    at = torch.arange(query.size(-2))
    far = (at[:, None] - at).abs() > window_size // 2
    scores = query @ key.mT / query.size(-1) ** 0.5
    return scores.masked_fill(far, -math.inf).softmax(dim=-1) @ value
""",
    # counts the token itself twice
    "receptive_field": """
def heard_and_kept(windows, position):
    first = 0 if None in windows else max(0, position - sum(windows))
    return first, sum(position + 1 if w is None else min(w, position + 1) for w in windows)
""",
    "rolling_cache": """
class RepairedRolling(RollingAsFound):
    pass
""",
    "global_rule": RIGHT["global_rule"].replace(
        " | is_global[:, :, None] | is_global[:, None]", ""
    ),
    # forgets
    "layers_needed": RIGHT["layers_needed"].replace("known + mask", "mask"),
    # as found
    "repair_plan": """
def repaired_plan(draws, num_random):
    at = torch.arange(draws.size(-1))
    plan = (at[:, None] - at).abs() <= 1
    plan[:, [0, -1]] = True
    plan[at[:, None], draws[0].argsort(-1, descending=True)[:, :num_random]] = True
    return plan.repeat(len(draws), 1, 1)
""",
    # near pairs with a global token twice
    "pairs_read": RIGHT["pairs_read"].replace("max(m", "max(n"),
    "extrapolation": "far_shares = [0.3575, 0.3575]\n",
    "numbers_moved": "numbers_moved = (63_571_968, 32_114_688)\n",
}

# torch's own functions would be right where they are allowed; the next two call whatever they are told to.
