"""DeepSeek's layer of transformers with the weights of ours: for a test, and for a benchmark."""

import torch
from transformers import DeepseekV3Config
from transformers.models.deepseek_v3.modeling_deepseek_v3 import (
    DeepseekV3Attention,
    DeepseekV3RotaryEmbedding,
)

from attncourse.variants.latent import LatentAttention


def deepseek(ours: LatentAttention) -> tuple[DeepseekV3Attention, DeepseekV3RotaryEmbedding]:
    """The library's layer and what makes its angles; it pairs features as ours does, i with i + d/2."""
    heads, d, r, c = ours.num_heads, ours.head_dim, ours.rotary_dim, ours.latent_dim
    config = DeepseekV3Config(
        hidden_size=ours.embed_dim,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        q_lora_rank=ours.query_latent_dim,
        kv_lora_rank=c,
        qk_nope_head_dim=d,
        qk_rope_head_dim=r,
        v_head_dim=d,
        head_dim=r,
        rope_interleave=False,
        rms_norm_eps=torch.finfo(torch.float64).eps,
        attn_implementation="sdpa",
    )
    theirs = DeepseekV3Attention(config, 0).to(ours.out_proj.weight)
    parts = {name: x.detach() for name, x in ours.named_parameters()}

    def by_head(*names: str) -> torch.Tensor:
        """Matrices of ours, head by head in one."""
        cut = [parts[f"{name}.weight"].unflatten(0, (heads, -1)) for name in names]
        return torch.cat(cut, dim=1).flatten(0, 1)

    query = "q_proj" if ours.query_latent_dim is None else "q_b_proj"
    state = {
        f"{query}.weight": by_head("q_proj", "q_rotary_proj"),
        "kv_a_proj_with_mqa.weight": torch.cat(
            [parts["latent_proj.weight"], parts["k_rotary_proj.weight"]]
        ),
        "kv_a_layernorm.weight": parts["latent_norm.weight"],
        "kv_b_proj.weight": by_head("k_proj", "v_proj"),
        "o_proj.weight": parts["out_proj.weight"],
    }
    if ours.query_latent_dim is not None:
        state["q_a_proj.weight"] = parts["q_latent_proj.weight"]
        state["q_a_layernorm.weight"] = parts["q_latent_norm.weight"]
    theirs.load_state_dict(state)
    return theirs.eval(), DeepseekV3RotaryEmbedding(config)
