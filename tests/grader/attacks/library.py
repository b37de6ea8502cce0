"""Ready-made attention, which nothing forbids, as the answer of an exercise that asks for something else."""

from grader.attacks import Attacks

ATTACKS = Attacks("library", "import torch.nn.functional as F\n")
HEADS, GROUPED = "multi_head_attention", "repair_no_softmax"

for name, text in {
    "the layer of torch": """
def multi_head_attention(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    layer = torch.nn.MultiheadAttention(query.size(-1), num_heads, bias=False, batch_first=True)
    weights = {"in_proj_weight": torch.cat([w_q, w_k, w_v]), "out_proj.weight": w_o}
    return torch.func.functional_call(layer, weights, (query, key, value), {"average_attn_weights": False})
""",
    "the function below it": """
def multi_head_attention(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    output, weights = F.multi_head_attention_forward(
        *(x.transpose(0, 1) for x in (query, key, value)), query.size(-1), num_heads, None, None, None, None, False, 0.0,
        w_o, None, use_separate_proj_weight=True, q_proj_weight=w_q, k_proj_weight=w_k, v_proj_weight=w_v,
        average_attn_weights=False)
    return output.transpose(0, 1), weights
""",
    "the fused function for each head": """
def multi_head_attention(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = ((x @ w.T).unflatten(-1, (num_heads, -1)).transpose(1, 2) for x, w in ((query, w_q), (key, w_k), (value, w_v)))
    mixed = F.scaled_dot_product_attention(q, k, v)
    return mixed.transpose(1, 2).flatten(2) @ w_o.T, mixed
""",
}.items():
    ATTACKS.add(name, text, HEADS)
for name, call in {
    "the fused function, with copied heads": "F.scaled_dot_product_attention(query, *(x.repeat_interleave(query.size(1) // x.size(1), 1) for x in (key, value)))",
    "the fused function, which knows groups": "F.scaled_dot_product_attention(query, key, value, enable_gqa=True)",
    "flex_attention": "__import__('torch.nn.attention.flex_attention', fromlist=['x']).flex_attention(query, key, value, enable_gqa=True)",
    "flex_attention, with its sums": "__import__('torch.nn.attention.flex_attention', fromlist=['x']).flex_attention(query, key, value, enable_gqa=True, return_lse=True)",
    "the operator below": "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, *(x.repeat_interleave(query.size(1) // x.size(1), 1) for x in (key, value)))",
}.items():  # fmt: skip
    ATTACKS.add(name, f"def grouped_attention(query, key, value):\n    return {call}\n", GROUPED)
ATTACKS.add(
    "the fused function, where the weights are asked for as well",
    "def decode_step(query, key, value):\n    return F.scaled_dot_product_attention(query, key, value, enable_gqa=True)\n",
    "decode_without_copy",
)
