"""A small language model: it reads and writes English about Python, and shows what its heads read."""

import json
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

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
        attention: of the layers, as in `EncoderLayer`; called with ``is_causal=True`` and ``positions``.

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
        self, tokens: Int[Tensor, "b n"], maps: list[Tensor] | None = None
    ) -> Float[Tensor, "b n vocab"]:
        """Logits of the token that follows each position, from the tokens up to it."""
        positions = torch.arange(tokens.size(1), device=tokens.device)
        x = self.encoder(self.token(tokens), maps, is_causal=True, positions=positions)
        return x @ self.token.weight.T

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
        """How surprising a text is to the model: mean negative log-likelihood, in nats a token."""
        _, tokens = self.read(text)
        return F.cross_entropy(self(tokens)[0, :-1], tokens[0, 1:]).item()

    @torch.no_grad()
    def write(self, prompt: str, length: int = 40, temperature: float = 0.7, seed: int = 0) -> str:
        """The prompt and ``length`` more tokens, drawn one by one.

        Args:
            prompt: how the text begins; may be empty.
            length: number of tokens to write.
            temperature: divides the logits; 0 always takes the likeliest token.
            seed: of the draws; the same seed writes the same text.

        Raises:
            ValueError: a negative temperature.

        Cost: one pass over all tokens for each new one; the chapter on the cache saves most of it.
        """
        if temperature < 0:
            raise ValueError(f"temperature must be 0 or more; got {temperature}")
        generator = torch.Generator().manual_seed(seed)
        _, tokens = self.read(prompt)
        for _ in range(length):
            logits = self(tokens)[:, -1]
            if temperature:
                weights = torch.softmax(logits / temperature, dim=-1)
                token = torch.multinomial(weights, 1, generator=generator)
            else:
                token = logits.argmax(-1, keepdim=True)
            tokens = torch.cat([tokens, token], dim=1)
        return self.tokenizer.decode(tokens[0].tolist())


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
