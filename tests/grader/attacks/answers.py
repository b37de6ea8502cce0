"""What the answers under attack are called and build on; the answers are in `right_answers` and `wrong_answers`."""

# Cells of the notebook that the answer builds on.
CACHE_AS_FOUND = """
class CacheAsFound:
    def __init__(self, batch, heads, max_length, head_dim):
        self.memory = torch.zeros(batch, heads, max_length, head_dim)
        self.length = 0

    def append(self, new):
        n = new.size(2)
        self.memory[:, :, :n] = new
        self.length += n
        return self.memory
"""

ATTENTION_AS_FOUND = """
class AttentionAsFound(torch.nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        self.q_proj = torch.nn.Linear(embed_dim, embed_dim)
        self.k_proj = torch.nn.Linear(embed_dim, embed_dim)
        self.v_proj = torch.nn.Linear(embed_dim, embed_dim)
        self.out_proj = torch.nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        batch = x.size(0)
        q, k, v = (
            p(x).view(batch, -1, self.num_heads, self.head_dim).transpose(1, 2)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        weights = torch.softmax(q @ k.transpose(2, 3) / self.head_dim**0.5, dim=-1)
        out = (weights @ v).transpose(1, 2).contiguous().view(batch, -1, self.embed_dim)
        return self.out_proj(out)
"""

ROLLING_AS_FOUND = """
class RollingAsFound:
    def __init__(self, batch, heads, window, head_dim):
        self.memory = torch.zeros(batch, heads, window, head_dim)
        self.length = 0

    def append(self, new):
        n, window = new.size(2), self.memory.size(2)
        slot = self.length % window
        self.memory[:, :, slot : slot + n] = new
        self.length += n
        slots = torch.arange(min(self.length, window))
        positions = self.length - (self.length - slots) % window
        return self.memory[:, :, : len(slots)], positions
"""

TRITON = """
import os

os.environ["TRITON_INTERPRET"] = "1"
import triton
import triton.language as tl
"""

BEFORE = {
    "append": (CACHE_AS_FOUND,),
    "rolling_cache": (ROLLING_AS_FOUND,),
    "head_dim": (ATTENTION_AS_FOUND,),
    "attention_tile": (TRITON,),
}

NAMES = {
    "scaled_dot_product_attention": "scaled_dot_product_attention",
    "causal_mask": "causal_mask",
    "find_the_leak": "first_leak",
    "multi_head_attention": "multi_head_attention",
    "head_dim": "RepairedAttention",
    "train_reversal": "model",
    "train_forecaster": "forecaster",
    "longer": "model",
    "append": "RepairedCache",
    "decode_without_copy": "decode_step",
    "grouped_query_attention": "grouped_query_attention",
    "repair_no_softmax": "grouped_attention",
    "absorbed_attention": "absorbed_attention",
    "crossover": "largest_n",
    "attention_tile": "attention_tile",
    "repair_edge": "repaired_kernel",
    "merge_parts": "merge_parts",
    "zigzag_schedule": "schedule",
    "sinusoid": "sinusoid",
    "t5_bucket": "t5_bucket",
    "rotary_step": "rotary_step",
    "repair_positions": "repaired_bias",
    "extrapolation": "far_shares",
    "linear_window": "linear_mix",
    "receptive_field": "heard_and_kept",
    "rolling_cache": "RepairedRolling",
    "global_rule": "visible_pairs",
    "layers_needed": "heard_after",
    "repair_plan": "repaired_plan",
    "pairs_read": "pairs_read",
    "gather_c2p": "content_to_position",
    "convolve_scores": "convolved_weights",
    "repair_leak": "without_leaks",
    "kernel_by_hand": "four_kernels",
    "online_step": "online_step",
    "merge_halves": "merge_halves",
    "repair_rescaling": "repaired_attention",
    "numbers_moved": "numbers_moved",
    "tiled_forward": "tiled_attention",
    "block_gradients": "block_gradients",
}

SIGNATURE = "query, key, value, w_q, w_k, w_v, w_o, num_heads"


def by_heads(function: str, name: str = "multi_head_attention") -> str:
    """An answer of multi_head_attention; ``function`` stands for torch's multi_head_attention_forward."""
    return f"""
def {name}({SIGNATURE}):
    output, weights = {function}(
        *(x.transpose(0, 1) for x in (query, key, value)), query.size(-1), num_heads,
        None, None, None, None, False, 0.0, w_o, None, use_separate_proj_weight=True,
        q_proj_weight=w_q, k_proj_weight=w_k, v_proj_weight=w_v, average_attn_weights=False,
    )
    return output.transpose(0, 1), weights
"""


def by_softmax(function: str) -> str:
    """An answer of repair_no_softmax; ``function`` stands for torch's scaled_dot_product_attention."""
    return f"""
def grouped_attention(query, key, value):
    key, value = (x.repeat_interleave(query.size(1) // x.size(1), dim=1) for x in (key, value))
    return {function}(query, key, value)
"""
