"""A small language model: it reads and writes English about Python, and shows what its heads read."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attncourse.lab.models.generation import generate, padded
from attncourse.lab.models.stacks import Encoder
from attncourse.lab.models.tokenizer import Tokenizer
from attncourse.lab.models.transformer import MakeAttention
from attncourse.layers import MultiHeadAttention

FOLDER = Path(__file__).parent / "manual"


class LanguageModel(nn.Module):
    """Tokens in, logits of the next token out: a causal stack of encoder layers, rotary positions.

        x = token;  x = layers(x);  logits = norm(x) token^T

    The embedding serves twice: its rows are what a token means, and what the output is compared with.

    Args:
        tokenizer: cuts the text; its length is the number of tokens.
        embed_dim, num_heads, layers: as in `Encoder`.
        dropout: as in `EncoderLayer`.
        attention: of the layers, as in `EncoderLayer`; called with ``is_causal=True`` and ``positions``, so any
            layer that can be causal will do.

    Source: vaswani2017, section 3.1, the decoder without cross-attention; su2024 for the positions;
        press2017 for the embedding that serves twice.
    Chapter: 05_transformer, 20_choosing.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        embed_dim: int = 192,
        num_heads: int = 6,
        layers: int = 4,
        dropout: float = 0.0,
        attention: MakeAttention = partial(MultiHeadAttention, bias=False),  # noqa: B008
    ):
        super().__init__()
        self.tokenizer = tokenizer
        self.token = nn.Embedding(len(tokenizer), embed_dim)
        nn.init.normal_(self.token.weight, std=0.02)
        self.encoder = Encoder(
            embed_dim,
            num_heads,
            layers,
            attention=attention,
            activation=nn.GELU,
            dropout=dropout,
        )

    def forward(
        self,
        tokens: Int[Tensor, "b n"],
        maps: list[Tensor] | None = None,
        attn_mask: Bool[Tensor, "b 1 1 n"] | None = None,
    ) -> Float[Tensor, "b n vocab"]:
        """Logits of the token that follows each position, from the tokens up to it; padding may be masked."""
        positions = torch.arange(tokens.size(1), device=tokens.device)
        options: dict[str, Any] = {"is_causal": True, "positions": positions}
        if attn_mask is not None:
            options["attn_mask"] = attn_mask
        return self.encoder(self.token(tokens), maps, **options) @ self.token.weight.T

    def new_caches(self, batch: int, max_length: int) -> list[Any]:
        """Empty caches for `decode`, one for each layer."""
        return self.encoder.new_caches(batch, max_length)

    @torch.no_grad()
    def decode(
        self,
        tokens: Int[Tensor, "b n"],
        caches: list[Any],
        attn_mask: Bool[Tensor, "b 1 1 n"] | None = None,
    ) -> Float[Tensor, "b n vocab"]:
        """The logits of new tokens, given the caches of the tokens before: the last rows of the full pass."""
        options = {"use_rotary": True, "attn_mask": attn_mask}
        return self.encoder.decode(self.token(tokens), caches, **options) @ self.token.weight.T

    @torch.no_grad()
    def with_weights(self, tokens: Int[Tensor, "b n"]) -> tuple[Tensor, list[Tensor]]:
        """Logits and, layer by layer, the weights (b, h, n, n) of the same forward pass."""
        maps: list[Tensor] = []
        return self(tokens, maps), maps

    def read(self, text: str) -> tuple[list[str], Int[Tensor, "1 n"]]:
        """The pieces of a text as labels for a figure, and as tokens; ``<start>`` comes first."""
        numbers = [0, *self.tokenizer.encode(text)]
        return [self.tokenizer.pieces[k].strip(" ") for k in numbers], torch.tensor([numbers])

    @torch.no_grad()
    def loss(self, text: str) -> float:
        """How surprising a text is to the model: mean negative log-likelihood, in nats a token.

        Raises:
            ValueError: a text without a token.
        """
        _, tokens = self.read(text)
        if tokens.size(1) < 2:
            raise ValueError(
                f"text must hold one token or more to be surprised by; got {text!r}. Its characters may all be unknown"
            )
        return F.cross_entropy(self(tokens)[0, :-1], tokens[0, 1:]).item()

    @torch.no_grad()
    def write(
        self,
        prompt: str | list[str],
        length: int = 40,
        temperature: float = 0.7,
        seed: int = 0,
        *,
        top_k: int | None = None,
        top_p: float | None = None,
        use_cache: bool = True,
    ) -> str | list[str]:
        """The prompt and ``length`` more tokens, drawn one by one.

        Args:
            prompt: how the text begins; may be empty. Of a list all are continued side by side.
            length: number of tokens to write.
            temperature: divides the logits; 0 always takes the likeliest token.
            seed: of the draws; the same seed writes the same text. Prompt k of a list has seed + k.
            top_k: draw from the k likeliest tokens only.
            top_p: draw from the likeliest tokens that have this much of the probability together.
            use_cache: ``False`` reads the whole text again for every token.

        Returns: the text, or a list of them.

        Raises:
            ValueError: a negative temperature or length, top_k below 1, or top_p outside 0..1.

        Cost: with caches one pass over the prompt and one over each new token; without, over all tokens each time.
        """
        prompts = [prompt] if isinstance(prompt, str) else prompt
        tokens, real = padded([self.read(x)[1][0] for x in prompts])
        chosen = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        written = generate(self, tokens, real, length, seed=seed, use_cache=use_cache, **chosen)
        texts = [
            self.tokenizer.decode(row[start:].tolist())
            for row, start in zip(written, (~real).sum(1).tolist(), strict=True)
        ]
        return texts[0] if isinstance(prompt, str) else texts


def manual() -> LanguageModel:
    """The course's language model, trained on Python's manual and docstrings; ready to read and write.

    ``manual/README.md`` beside this file says what it was trained on, its licence, its loss, and what it
    cannot do; ``tools/train_manual.py`` makes it again.

    Cost: 2.6 million parameters, 10 MB in memory.
    Chapter: 03_multi_head, 05_transformer.
    """
    from safetensors.torch import load_file

    tokenizer = Tokenizer(json.loads((FOLDER / "vocabulary.json").read_text(encoding="utf-8")))
    with torch.random.fork_rng(devices=[]):  # the start values are drawn, and thrown away
        model = LanguageModel(tokenizer)
    weights = load_file(FOLDER / "weights.safetensors")
    model.load_state_dict({name: x.float() for name, x in weights.items()})
    return model.eval()
