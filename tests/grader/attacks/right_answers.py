"""For each exercise under attack a right answer, for attacks that start from one."""

from grader.attacks import scores_answers
from grader.attacks.trained_answers import TRAINED

RIGHT = TRAINED | {
    **scores_answers.RIGHT,
    "scaled_dot_product_attention": """
def scaled_dot_product_attention(query, key, value):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    weights = torch.softmax(scores, dim=-1)
    return weights @ value, weights
""",
    "causal_mask": """
def causal_mask(n, m):
    return torch.arange(m) <= torch.arange(n)[:, None]
""",
    "find_the_leak": """
def first_leak(model, x):
    before = model(x)
    for i in range(x.size(1) - 1):
        changed = x.clone()
        changed[:, i + 1 :] = torch.randn_like(changed[:, i + 1 :])
        if (model(changed) - before)[:, i].abs().max() > 1e-6:
            return i
    return -1
""",
    "multi_head_attention": """
def multi_head_attention(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    def split(x):
        return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)

    q, k, v = split(query @ w_q.T), split(key @ w_k.T), split(value @ w_v.T)
    weights = torch.softmax(q @ k.transpose(-2, -1) / q.size(-1) ** 0.5, dim=-1)
    return (weights @ v).transpose(1, 2).flatten(2) @ w_o.T, weights
""",
    "head_dim": """
class RepairedAttention(AttentionAsFound):
    def __init__(self, embed_dim, num_heads):
        if num_heads < 1 or embed_dim % num_heads != 0:
            raise ValueError(f"num_heads={num_heads} must divide embed_dim={embed_dim}")
        super().__init__(embed_dim, num_heads)
""",
    "append": """
class RepairedCache(CacheAsFound):
    def append(self, new):
        end = self.length + new.size(2)
        if end > self.memory.size(2):
            raise ValueError(f"{end} tokens do not fit into {self.memory.size(2)}")
        self.memory[:, :, self.length : end] = new
        self.length = end
        return self.memory[:, :, :end]
""",
    "decode_without_copy": """
def decode_step(query, key, value):
    scores = query[:, :, 0] @ key[:, 0].transpose(-2, -1) / query.size(-1) ** 0.5
    return (torch.softmax(scores, dim=-1) @ value[:, 0])[:, :, None]
""",
    "grouped_query_attention": """
def grouped_query_attention(query, key, value):
    heads = []
    for h in range(query.size(1)):
        g = h // (query.size(1) // key.size(1))
        scores = query[:, h] @ key[:, g].transpose(-2, -1) / query.size(-1) ** 0.5
        heads.append(torch.softmax(scores, dim=-1) @ value[:, g])
    return torch.stack(heads, dim=1)
""",
    "repair_no_softmax": """
def grouped_attention(query, key, value):
    key, value = (x.repeat_interleave(query.size(1) // x.size(1), dim=1) for x in (key, value))
    return torch.softmax(query @ key.mT / query.size(-1) ** 0.5, dim=-1) @ value
""",
    "absorbed_attention": """
def absorbed_attention(query, q_rotary, latent, k_rotary, w_k, w_v):
    heads = query.size(1)
    w_k, w_v = w_k.unflatten(0, (heads, -1)), w_v.unflatten(0, (heads, -1))
    asked = torch.einsum("bhd,hdc->bhc", query, w_k)
    scores = asked @ latent.transpose(1, 2) + q_rotary @ k_rotary.transpose(1, 2)
    weights = torch.softmax(scores * (query.size(-1) + q_rotary.size(-1)) ** -0.5, dim=-1)
    return torch.einsum("bhc,hdc->bhd", weights @ latent, w_v), weights
""",
    "crossover": "largest_n = 81\n",
    "attention_tile": """
@triton.jit
def attention_tile(Q, KV, Out, Lse, n, m, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    keys, features = tl.arange(0, BLOCK_N), tl.arange(0, D)
    own, at = rows[:, None] * D + features[None, :], keys[:, None] * 2 * D + features[None, :]
    q = tl.load(Q + own, mask=rows[:, None] < n, other=0.0)
    k = tl.load(KV + at, mask=keys[:, None] < m, other=0.0)
    v = tl.load(KV + D + at, mask=keys[:, None] < m, other=0.0)
    scores = tl.where(keys[None, :] < m, tl.dot(q, tl.trans(k)) * scale, float('-inf'))
    top = tl.max(scores, 1)
    p = tl.exp(scores - top[:, None])
    total = tl.sum(p, 1)
    tl.store(Out + own, tl.dot(p, v) / total[:, None], mask=rows[:, None] < n)
    tl.store(Lse + rows, top + tl.log(total), mask=rows < n)
""",
    "repair_edge": """
def repaired_kernel(program, memory, Q, K, V, Out, n, m, d, block_m, block_n):
    i, e = program * block_m, min((program + 1) * block_m, n)
    q, k, v = (memory[x + a * d : x + b * d].view(-1, d) for x, a, b in ((Q, i, e), (K, 0, m), (V, 0, m)))
    memory[Out + i * d : Out + e * d] = (torch.softmax(q @ k.T / d**0.5, -1) @ v).flatten()
""",
    "merge_parts": """
def merge_parts(outputs, lses):
    weights = torch.softmax(lses, 0).nan_to_num(0.0)
    return (weights[..., None] * torch.where(weights[..., None] > 0, outputs, 0.0)).sum(0), lses.logsumexp(0)
""",
    "zigzag_schedule": """
def schedule(rank, world):
    q = torch.tensor([rank, 2 * world - 1 - rank])[:, None]
    steps = [(rank - s) % world for s in range(world)]
    return torch.stack([(k < q) * 2 + (k == q) * 1 for s in steps for k in [torch.tensor([[s, 2 * world - 1 - s]])]])
""",
    "sinusoid": """
def sinusoid(positions, width, base):
    angles = positions[:, None] * base ** (-torch.arange(0, width, 2) / width)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)
""",
    "t5_bucket": """
def t5_bucket(distance, buckets, furthest):
    half = buckets // 2
    e, x = half // 2, distance.abs()
    share = torch.log(x.clamp(min=e) / e) / math.log(furthest / e)
    far = (e + (half - e) * share).long().clamp(max=half - 1)
    return torch.where(x < e, x, far) + half * (distance < 0)
""",
    "rotary_step": """
def rotary_step(query, key, past, base):
    n, d = query.shape[-2:]
    places = past[:, None] + torch.arange(n)
    angles = places[:, None, :, None] * base ** (-torch.arange(0, d, 2) / d)
    cos, sin = angles.cos(), angles.sin()

    def turn(x):
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)

    return turn(query), turn(key)
""",
    "repair_positions": """
def repaired_bias(table, n, m):
    reach = table.size(1) // 2
    distance = torch.arange(m - n, m)[:, None] - torch.arange(m)
    return table[:, distance.clamp(-reach, reach) + reach]
""",
    "online_step": """
def online_step(maximum, total, mixed, scores, value, visible):
    seen = scores.masked_fill(~visible, -math.inf)
    new = torch.maximum(maximum, seen.amax(-1))
    shift = new.masked_fill(new == -math.inf, 0.0)
    weights, past = torch.exp(seen - shift[..., None]), torch.exp(maximum - shift)
    return new, past * total + weights.sum(-1), past[..., None] * mixed + weights @ value
""",
    "merge_halves": """
def merge_halves(output_a, lse_a, output_b, lse_b):
    lse = torch.logaddexp(lse_a, lse_b)
    shift, output = lse.masked_fill(lse == -math.inf, 0.0), 0.0
    for part, own in ((output_a, lse_a), (output_b, lse_b)):
        part = part.masked_fill((own == -math.inf)[..., None], 0.0)
        output = output + torch.exp(own - shift)[..., None] * part
    return output, lse
""",
    "repair_rescaling": """
def repaired_attention(query, key, value, size):
    scores = query @ key.mT / query.size(-1) ** 0.5
    tops = torch.stack([x.amax(-1) for x in scores.split(size, -1)]).cummax(0).values
    return torch.softmax(scores, dim=-1) @ value, 1 + (tops.diff(dim=0) > 0).sum(0)
""",
    "tiled_forward": """
def tiled_attention(query, key, value, first, rows, columns):
    outputs, sums, m = [], [], key.size(2)
    for q in (query / query.size(-1) ** 0.5).split(rows, dim=2):
        top = torch.full((*q.shape[:3], 1), -math.inf)
        total, mixed = torch.zeros_like(top), torch.zeros(*q.shape[:3], value.size(-1))
        for c in range(0, m, columns):
            hidden = torch.arange(c, min(c + columns, m)) < first[:, None, None, None]
            scores = (q @ key[:, :, c : c + columns].mT).masked_fill(hidden, -math.inf)
            new = torch.maximum(top, scores.amax(-1, keepdim=True))
            shift = new.masked_fill(new == -math.inf, 0.0)
            weights, past = torch.exp(scores - shift), torch.exp(top - shift)
            total = past * total + weights.sum(-1, keepdim=True)
            mixed = past * mixed + weights @ value[:, :, c : c + columns]
            top = new
        outputs.append(mixed / total.masked_fill(total == 0, 1.0))
        sums.append((top + total.log())[..., 0])
    return torch.cat(outputs, dim=2), torch.cat(sums, dim=2)
""",
    "block_gradients": """
def block_gradients(query, key, value, output, lse, grad_output):
    scale, empty = query.size(-1) ** -0.5, (lse == -math.inf)[..., None]
    p = torch.exp(query @ key.mT * scale - lse[..., None]).masked_fill(empty, 0.0)
    ds = p * (grad_output @ value.mT - (grad_output * output).sum(-1, keepdim=True))
    return ds @ key * scale, ds.mT @ query * scale, p.mT @ grad_output
""",
    "linear_window": """
def linear_mix(query, key, value, window_size):
    n, reach, outputs = query.size(2), window_size // 2, []
    for a in range(0, n, 32):
        b = min(a + 32, n)
        first, last = max(0, a - reach), min(n, b + reach)
        far = torch.arange(a, b)[:, None] - torch.arange(first, last)
        scores = query[:, :, a:b] @ key[:, :, first:last].mT / query.size(-1) ** 0.5
        weights = scores.masked_fill(far.abs() > reach, -math.inf).softmax(-1)
        outputs.append(weights @ value[:, :, first:last])
    return torch.cat(outputs, dim=2)
""",
    "receptive_field": """
def heard_and_kept(windows, position):
    first = 0 if None in windows else max(0, position - sum(w - 1 for w in windows))
    return first, sum(position + 1 if w is None else min(w, position + 1) for w in windows)
""",
    "rolling_cache": """
class RepairedRolling(RollingAsFound):
    def append(self, new):
        window = self.memory.size(2)
        self.length += new.size(2)
        kept, last = new[:, :, -window:], self.length - 1
        self.memory[:, :, torch.arange(self.length - kept.size(2), self.length) % window] = kept
        slots = torch.arange(min(self.length, window))
        return self.memory[:, :, : len(slots)], last - (last - slots) % window
""",
    "global_rule": """
def visible_pairs(is_global, lengths, left, right, causal):
    at, real = torch.arange(is_global.size(1)), torch.arange(is_global.size(1)) < lengths[:, None]
    apart = at - at[:, None]
    mask = ((apart >= -left) & (apart <= right))[None] | is_global[:, :, None] | is_global[:, None]
    mask = (mask & real[:, :, None] & real[:, None])[:, None]
    return mask.tril() if causal else mask
""",
    "layers_needed": """
def heard_after(masks):
    known = torch.eye(masks.size(1))
    found = known.long() - 1
    for layer, mask in enumerate(masks, start=1):
        known = ((known + mask.float() @ known) > 0).float()
        found = torch.where((known > 0) & (found < 0), layer, found)
    return found
""",
    "repair_plan": """
def repaired_plan(draws, num_random):
    at = torch.arange(draws.size(-1))
    fixed = (at[:, None] - at).abs() <= 1
    fixed[:, [0, -1]] = fixed[[0, -1]] = True
    best = draws.masked_fill(fixed, -math.inf).argsort(-1, descending=True)[..., :num_random]
    return fixed.expand(draws.shape).scatter(-1, best, True)
""",
    "pairs_read": """
def pairs_read(n, left, right, num_global):
    m = n - num_global
    return n * n - m * m + sum(max(m - abs(d), 0) for d in range(-left, right + 1))
""",
    "extrapolation": "far_shares = [0.3575, 0.0183]\n",
    "numbers_moved": "numbers_moved = (32_114_688, 63_571_968)\n",
}
