"""A race: the course's language model, made small, with one attention after another in its place.

Each trains for the same seconds of processor time on the characters of Python's manual, and then, one layer alone, on
recall. `results` are those of the run that ``benchmarks/race.py`` kept.
"""

import inspect
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from pathlib import Path

import torch
from torch import Tensor, nn

from attncourse.factory import get_attention
from attncourse.lab import text, train
from attncourse.lab.models.language import LanguageModel
from attncourse.lab.models.recaller import Recaller
from attncourse.lab.models.tokenizer import START, Tokenizer
from attncourse.lab.recall import recall

WIDTH, HEADS, LAYERS = 64, 4, 2
BATCH, LENGTH, FAR = 16, 128, 4  # so many times longer are the texts of the last question
STEPS = 100  # where equal steps are compared
PAIRS, RECALL_WIDTH, RECALL_HEADS = 32, 32, 2
FILE = Path(__file__).with_name("race.json")


@dataclass(frozen=True)
class Contender:
    """An attention in the race.

    Args:
        types: its name in `attncourse.factory.get_attention`; several alternate, layer by layer.
        kept: numbers that a layer keeps of n tokens while it writes, ``kept(n, heads, head_dim)``.
        options: of `get_attention`.
        rotary: whether queries and keys are turned; some bring positions of their own.
    """

    types: tuple[str, ...]
    kept: Callable[[int, int, int], int]
    options: dict = field(default_factory=dict)
    rotary: bool = True

    def maker(self) -> Callable[[int, int], nn.Module]:
        """Makes the layers of a model one by one, as it asks for them."""
        turns = cycle(self.types)

        def make(embed_dim: int, num_heads: int) -> nn.Module:
            layer = get_attention(next(turns), embed_dim, num_heads, **self.options)
            return Placed(layer, self.rotary)

        return make


class Placed(nn.Module):
    """A layer that hears only what it takes: not every attention knows ``positions``, or ``is_causal``."""

    def __init__(self, layer: nn.Module, rotary: bool = True):
        super().__init__()
        self.layer, self.rotary = layer, rotary
        self.takes = inspect.signature(layer.forward).parameters

    def forward(self, x: Tensor, **options):
        """The layer's output; of ``options`` it gets those that it takes."""
        every = "options" in self.takes
        taken = {name: y for name, y in options.items() if every or name in self.takes}
        if not self.rotary:
            taken.pop("positions", None)
        return self.layer(x, **taken)


def _all_heads(n: int, heads: int, head_dim: int) -> int:
    return 2 * n * heads * head_dim


def _state(n: int, heads: int, head_dim: int) -> int:
    return heads * head_dim**2


WINDOW = 32  # tokens that are read, the reader among them
CONTENDERS = {
    "multi-head": Contender(("mha",), _all_heads),
    "grouped-query, 2": Contender(("gqa",), lambda n, h, d: 2 * n * 2 * d, {"num_groups": 2}),
    "multi-query": Contender(("mqa",), lambda n, h, d: 2 * n * d),
    "latent": Contender(
        ("mla",), lambda n, h, d: n * (32 + 8), {"latent_dim": 32, "rotary_dim": 8}
    ),
    "window of 32": Contender(
        ("sliding_window",),
        lambda n, h, d: _all_heads(min(n, WINDOW), h, d),
        {"window_size": (WINDOW - 1, 0)},
    ),
    "learned sink": Contender(("sinks",), _all_heads),
    "gated": Contender(("gated",), _all_heads),
    "differential": Contender(("differential",), _all_heads),
    "multi-token": Contender(("multi_token",), _all_heads),
    "disentangled": Contender(("disentangled",), _all_heads, {"span": 64}, rotary=False),
    "linear": Contender(("linear",), lambda n, h, d: h * d * (d + 1)),
    "gated linear": Contender(("gated_linear",), _state, {"per_channel": False}),
    "gated delta": Contender(("gated_delta",), _state),
    "delta, then softmax": Contender(
        ("gated_delta", "mha"), lambda n, h, d: (_state(n, h, d) + _all_heads(n, h, d)) // 2
    ),
}


def language_model(contender: Contender) -> LanguageModel:
    """The course's language model for characters, with this attention in its layers."""
    tokenizer = Tokenizer([START, *text.characters()[0]])
    return LanguageModel(tokenizer, WIDTH, HEADS, LAYERS, attention=contender.maker())


def recaller(contender: Contender) -> Recaller:
    """One layer that is to recall, or one of each kind; without positions, so that nothing but keys can help."""
    sizes = {"embed_dim": RECALL_WIDTH, "num_heads": RECALL_HEADS, "layers": len(contender.types)}
    return Recaller(attention=contender.maker(), **sizes)


def run(name: str, seed: int, seconds: float, recall_seconds: float) -> dict[str, float]:
    """Train and ask one contender, from one seed.

    Returns: ``loss`` in nats a character of held-out text, ``equal`` the same after `STEPS` steps, ``far`` at the
        end of texts `FAR` times as long as those of the training, ``steps``, and ``recall``, a share.
    """
    contender, found = CONTENDERS[name], {}
    torch.manual_seed(seed)
    model = language_model(contender)

    def watch(step: int) -> None:
        if step == STEPS:
            found["equal"] = loss(model)

    draw = partial(text.passages, batch=BATCH, length=LENGTH)
    found["steps"] = train_for(model, draw, seconds, seed, 3e-3, watch)
    found |= {"loss": loss(model), "far": loss(model, FAR)}
    torch.manual_seed(seed)
    reader = recaller(contender)
    train_for(reader, partial(recall, batch=32, pairs=PAIRS), recall_seconds, seed, 1e-2)
    test = recall(torch.Generator().manual_seed(1_000), batch=256, pairs=PAIRS)
    return found | {"recall": train.accuracy(reader, test)}


def train_for(model, draw, seconds: float, seed: int, lr: float, watch=lambda step: None) -> int:
    """Steps of AdamW for so many seconds of this thread's processor time; what ``watch`` does is not counted."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
    spent, step = 0.0, 0
    while spent < seconds:
        began = time.thread_time()
        batch = draw(generator)
        optimizer.zero_grad()
        train.cross_entropy(model(*batch.inputs), batch.targets).backward()
        optimizer.step()
        spent, step = spent + time.thread_time() - began, step + 1
        watch(step)
    model.eval()
    return step


@torch.no_grad()
def loss(model: nn.Module, times: int = 1) -> float:
    """Nats a character over the last `LENGTH` characters of held-out texts, each ``times * LENGTH`` long."""
    generator = torch.Generator().manual_seed(1_000)
    batch = text.passages(generator, 64 // times, LENGTH * times, held_out=True)
    logits = model(*batch.inputs)[:, -LENGTH:]
    return train.cross_entropy(logits, batch.targets[:, -LENGTH:]).item()


def results() -> dict[str, list[dict[str, float]]]:
    """The runs that were kept: by contender, one dict for each seed, as `run` returns them."""
    return json.loads(FILE.read_text(encoding="utf-8"))["runs"]
