"""Make the course's language model from nothing: vocabulary, weights and card.

The text is English that every Python ships: its manual (``pydoc_data.topics``) and the docstrings of the
standard library. It differs a little from version to version, so the weights are made once and shipped.

    python tools/train_manual.py              about an hour on two cores, minutes on a GPU
    python tools/train_manual.py --steps 50   a quick look whether everything runs
"""

import argparse
import ast
import json
import math
import random
import re
import sys
import sysconfig
from collections import Counter
from pathlib import Path
from pydoc_data.topics import topics

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tqdm import tqdm

from attncourse.lab.models.language import FOLDER, LanguageModel
from attncourse.lab.models.tokenizer import START, WORD, Tokenizer

CONTEXT, BATCH = 128, 16
AGAIN, PERIODS = 4, (16, 80)  # so many of a batch repeat themselves, after so many tokens
PEAK, WARM_UP, DECAY, DROPOUT = 2e-3, 200, 0.1, 0.1
VOCABULARY, SEED = 4096, 0


def documents() -> list[str]:
    """The topics of the manual, and the docstrings of more than 200 characters, tests left out."""
    found = [f"{name}\n{text}" for name, text in sorted(topics.items())]
    library = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(library.rglob("*.py")):
        if {"test", "tests", "idle_test", "site-packages", "lib2to3"} & set(path.parts):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8", errors="ignore"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node) or ""
                if len(text) > 200:
                    found.append(text)
    return [joined(text) for text in dict.fromkeys(found)]


def joined(text: str) -> str:
    """Paragraphs of one line each, without the lines under headings."""
    text = re.sub(r"^[*=~^\-\"']{3,}$", "", text, flags=re.M)
    paragraphs = re.split(r"\n\s*\n", text.encode("ascii", "ignore").decode())
    return "\n".join(" ".join(p.split()) for p in paragraphs if p.strip()) + "\n"


def vocabulary(texts: list[str], size: int) -> list[str]:
    """Byte-pair encoding: single signs, then again and again the pair that stands together most often."""
    counts = Counter(word for text in texts for word in WORD.findall(text))
    words = [list(word) for word in counts]
    often = list(counts.values())
    pieces = [START, *sorted({sign for word in words for sign in word})]
    pairs, places = Counter(), {}
    for number, word in enumerate(words):
        for pair in zip(word, word[1:], strict=False):
            pairs[pair] += often[number]
            places.setdefault(pair, set()).add(number)
    for _ in tqdm(range(size - len(pieces)), desc="vocabulary", file=sys.stdout):
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        pieces.append("".join(best))
        for number in places[best]:
            word = words[number]
            for pair in zip(word, word[1:], strict=False):
                pairs[pair] -= often[number]
            words[number] = word = merged(word, best)
            for pair in zip(word, word[1:], strict=False):
                pairs[pair] += often[number]
                places.setdefault(pair, set()).add(number)
        del pairs[best]
    return list(dict.fromkeys(pieces))


def merged(word: list[str], pair: tuple[str, str]) -> list[str]:
    """The word with every such pair as one piece."""
    out, k = [], 0
    while k < len(word):
        step = 2 if tuple(word[k : k + 2]) == pair else 1
        out.append("".join(word[k : k + step]))
        k += step
    return out


def sample(stream: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A batch of passages (BATCH, CONTEXT + 1), each behind ``<start>``; AGAIN of them repeat themselves."""
    starts = torch.randint(len(stream) - CONTEXT, (BATCH, 1), generator=generator)
    periods = torch.full((BATCH, 1), CONTEXT)
    periods[:AGAIN] = torch.randint(*PERIODS, (AGAIN, 1), generator=generator)
    return F.pad(stream[starts + torch.arange(CONTEXT) % periods], (1, 0))


def rate(step: int, steps: int) -> float:
    """Learning rate: up in a straight line, then down along a cosine."""
    progress = max(0, step - WARM_UP) / max(1, steps - WARM_UP)
    falling = 0.05 + 0.95 * (1 + math.cos(math.pi * progress)) / 2
    return PEAK * min(1, step / WARM_UP) * falling


def losses(tokens: list[int], stream: torch.Tensor, size: int) -> dict[str, float]:
    """Nats a token of held-out text, by counts of single tokens and of pairs (mixed with the single ones)."""
    single = Counter(stream.tolist())
    pairs = Counter(zip(stream[:-1].tolist(), stream[1:].tolist(), strict=True))
    total = len(stream) + size
    one = [(single[t] + 1) / total for t in tokens]
    two = []
    for before, t, p in zip(tokens, tokens[1:], one[1:], strict=False):
        trust = single[before] / (single[before] + 20)
        seen = pairs[before, t] / single[before] if single[before] else 0
        two.append(trust * seen + (1 - trust) * p)
    mean = lambda ps: -sum(map(math.log, ps)) / len(ps)  # noqa: E731
    return {"single": mean(one), "pairs": mean(two)}


@torch.no_grad()
def held_out_loss(model: LanguageModel, tokens: torch.Tensor) -> float:
    """Nats a token, in passages of the context's length, each behind ``<start>``."""
    model.eval()
    passages = tokens[: len(tokens) // CONTEXT * CONTEXT].view(-1, CONTEXT).to(device(model))
    total = 0.0
    for part in passages.split(32):
        logits = model(F.pad(part, (1, 0))[:, :-1])
        total += F.cross_entropy(logits.flatten(0, 1), part.flatten(), reduction="sum").item()
    model.train()
    return total / passages.numel()


def device(model: LanguageModel) -> torch.device:
    return model.token.weight.device


def save(model: LanguageModel, card: dict) -> None:
    """Weights in 16 bits, and the card's figures."""
    FOLDER.mkdir(exist_ok=True)
    weights = {name: x.detach().cpu().half().contiguous() for name, x in model.state_dict().items()}
    save_file(weights, FOLDER / "weights.safetensors")
    (FOLDER / "card.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")


def train(model: LanguageModel, stream: torch.Tensor, held_out: torch.Tensor, steps: int) -> None:
    """AdamW on random passages; every 500 steps the weights and the figures are written."""
    where = "cuda" if torch.cuda.is_available() else "cpu"
    model.to(where).train()
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=DECAY)
    generator = torch.Generator().manual_seed(SEED)
    recent = []
    bar = tqdm(range(1, steps + 1), desc="training", file=sys.stdout, mininterval=10)
    for step in bar:
        for group in optimizer.param_groups:
            group["lr"] = rate(step, steps)
        passages = sample(stream, generator).to(where)
        logits = model(passages[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), passages[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        recent = [*recent[-99:], loss.item()]
        bar.set_postfix(loss=f"{sum(recent) / len(recent):.2f}", refresh=False)
        if step % 500 == 0 or step == steps:
            card = {"steps": step, "of": steps, "training_loss": sum(recent) / len(recent)}
            card["held_out_loss"] = held_out_loss(model, held_out)
            card |= losses(held_out.tolist(), stream, len(model.tokenizer))
            card |= {"training_tokens": len(stream), "held_out_tokens": len(held_out)}
            print(card, flush=True)
            save(model, card)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=5000)
    steps = parser.parse_args().steps
    texts = documents()
    random.Random(SEED).shuffle(texts)
    kept = len(texts) * 95 // 100
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / "vocabulary.json"
    file.write_text(json.dumps(vocabulary(texts[:kept], VOCABULARY)), encoding="utf-8")
    tokenizer = Tokenizer(json.loads(file.read_text(encoding="utf-8")))
    stream, held_out = (
        torch.tensor([k for text in part for k in [0, *tokenizer.encode(text)]])
        for part in (texts[:kept], texts[kept:])
    )
    torch.manual_seed(SEED)
    train(LanguageModel(tokenizer, dropout=DROPOUT), stream, held_out, steps)


if __name__ == "__main__":
    main()
