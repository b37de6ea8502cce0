"""What is noticed of wrong answers that no known mistake explains, in latent attention."""

from itertools import product
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.compare import plain
from attncourse.grading.exercise import Calls, cases_of
from attncourse.grading.compare import same
from attncourse.grading.told import only_loud

NEAR = 1e-2


class Stepwise(Calls):
    """Tells the weights of an absorbed step from its output; its first call is an ordinary one."""

    def notice(self, expected: dict[str, Any], seen: dict[str, Any], seed: int) -> str:
        case = cases_of(self, seed)[0]
        found = results(case.label, expected, seen)
        if not found:
            return only_loud(expected, seen)
        query, q_rotary, latent, k_rotary, w_k, w_v = (x.double() for x in case.args)
        output, weights = found
        h = query.size(1)
        heads = (weights @ latent).transpose(0, 1)  # (h, b, latent)
        used = [
            [g for g, w in enumerate(w_v.chunk(h)) if near(mix @ w.mT, output[:, i])]
            for i, mix in enumerate(heads)
        ]
        says = of_weights(weights, query, q_rotary, latent, k_rotary, w_k.chunk(h))
        if [i for i, blocks in enumerate(used) if i not in blocks]:
            if all(used):
                blocks = ", ".join(str(g[0]) for g in used)
                says += f" Output heads 0 to {h - 1} use the blocks {blocks} of w_v; head h uses block h."
            else:
                says += " The output is not what these weights make: they mix the latents, which then meet the head's rows of w_v."
        return says.strip()


def results(
    label: str, expected: dict[str, Any], seen: dict[str, Any]
) -> tuple[Tensor, ...] | None:
    """The results of one call in float64, where all have the right shapes and something is clearly wrong."""
    right, found = (x.get(f"{label}, output") for x in (expected, seen))
    if not isinstance(found, tuple) or len(found) != len(right) or same(right, found, NEAR):
        return None
    if not all(
        plain(x) and x.shape == y.shape and x.isfinite().all()
        for x, y in zip(found, right, strict=True)
    ):
        return None
    return tuple(x.double() for x in found)


def near(a: Tensor, b: Tensor) -> bool:
    """Are these equal within a thousandth of the largest number?"""
    return bool((a - b).abs().max() <= 1e-3 * (1 + b.abs().max()))


def of_weights(weights, query, q_rotary, latent, k_rotary, blocks) -> str:
    """What is wrong with the weights (b, h, m), or ''."""
    sums = weights.sum(-1)
    if (sums - 1).abs().max() > NEAR:
        worst = float(sums.flatten()[(sums - 1).abs().argmax()])
        return f"The weights of a head should add up to 1; here some add up to {worst:.3g}."
    if weights.min() < 1e-6:
        return "A softmax gives every token a weight above 0; here some have none."
    root = (query.size(-1) + q_rotary.size(-1)) ** 0.5
    found = []
    for i, logs in enumerate(weights.log().unbind(1)):
        heads = range(query.size(1))
        for asks, block, turned in sorted(
            product(heads, repeat=3), key=lambda x: sum(k != i for k in x)
        ):
            parts = (
                torch.einsum("bd,dc,bmc->bm", query[:, asks], blocks[block], latent),
                torch.einsum("br,bmr->bm", q_rotary[:, turned], k_rotary),
            )
            if factors := fitted(logs, [x / root for x in parts]):
                found.append((asks, block, turned, *factors))
                break
    if len(found) < query.size(1):
        return "The weights add up to 1, but come from no sum of q . (W c) and q_rotary . r, whatever their scales."
    return told(found)


def told(found: list[tuple]) -> str:
    """Whose parts met, and how large each part was, in words."""
    asks, block, turned, content, rotary = map(list, zip(*found, strict=True))
    right, says = list(range(len(found))), []
    for who, what in (
        (asks, "queries of heads"),
        (block, "blocks"),
        (turned, "rotary queries of heads"),
    ):
        if who != right:
            where = " of w_k" if what == "blocks" else ""
            says.append(
                f"Heads 0 to {right[-1]} use the {what} {', '.join(map(str, who))}{where}; head h uses its own."
            )
    a, b = content[0], rotary[0]
    if max(map(abs, (*(x - a for x in content), *(x - b for x in rotary)))) > NEAR:
        return " ".join([*says, "The scores have another scale in each head."])
    if abs(a - b) <= NEAR and abs(a - 1) > NEAR:
        says.append(
            f"The scores that reach the softmax are {a:.3g} times what they should be: look at the scale."
        )
    elif abs(a - b) > NEAR:
        says.append(
            f"In the scores q . (W c) counts {a:.3g} times and q_rotary . r {b:.3g} times what they should."
        )
    return " ".join(says)


def fitted(logs: Tensor, parts: list[Tensor]) -> list[float] | None:
    """The factors on these parts that give the logarithms of the weights up to a constant for each row, or None."""
    logs, *parts = (x - x.mean(-1, keepdim=True) for x in (logs, *parts))
    table = torch.stack([x.flatten() for x in parts], 1)
    factors = torch.linalg.lstsq(table, logs.flatten()[:, None]).solution
    off = (table @ factors).flatten() - logs.flatten()
    return factors.flatten().tolist() if off.square().sum() <= 1e-4 * logs.square().sum() else None


class Turned(Calls):
    """Tells how large each part of the scores is; its first call is an ordinary one."""

    def notice(self, expected: dict[str, Any], seen: dict[str, Any], seed: int) -> str:
        case = cases_of(self, seed)[0]
        found = results(case.label, expected, seen)
        if not found:
            return ""
        right = [x.double() for x in expected[f"{case.label}, output"]]
        names = "scores", "cached latent", "cached rotary key"
        wrong = [name for name, x, y in zip(names, found, right, strict=True) if not near(x, y)]
        says = f"Not right: the {' and the '.join(wrong)}."
        x, positions, w_q, w_qr, w_c, w_kr, w_k, h = (
            a.double() if isinstance(a, Tensor) else a for a in case.args
        )
        if names[2] in wrong:
            says += by_angles(x @ w_kr.mT, right[2], found[2], positions)
        if names[0] not in wrong:
            return says + " The scores are right."
        root = ((len(w_q) + len(w_qr)) / h) ** 0.5
        q, k = (
            (y @ w.mT).unflatten(-1, (h, -1)).transpose(1, 2)
            for y, w in ((x, w_q), (x @ w_c.mT, w_k))
        )
        content = q @ k.mT / root
        table = torch.stack([content.flatten(), (right[0] - content).flatten()], 1)
        factors = torch.linalg.lstsq(table, found[0].flatten()[:, None]).solution
        if near((table @ factors).flatten(), found[0].flatten()):
            a, b = (round(x, 6) + 0.0 for x in factors.flatten().tolist())
            if abs(a - b) < NEAR:
                return (
                    f"{says} The scores are {a:.3g} times what they should be: look at the scale."
                )
            return f"{says} In the scores q . k counts {a:.3g} times and the rotary part {b:.3g} times what it should."
        return f"{says} The scores are no sum of q . k and the rotary part as these should be, whatever their scales."


def by_angles(key: Tensor, right: Tensor, seen: Tensor, positions: Tensor) -> str:
    """How far the rotary key was turned, where the first angle is another."""
    key, right, seen = (torch.complex(*x.chunk(2, -1)) for x in (key, right, seen))
    turns, others = right / key, seen / key
    if (others.abs() - 1).abs().max() > NEAR:
        return " The rotary key is not turned in the pairs of features i and i + d / 2."
    where = ((turns - others).abs() > NEAR).any(0).nonzero()[0].tolist()  # (token, pair)
    expected, found = (float(x[0][tuple(where)].angle()) for x in (turns, others))
    return (
        f" The key of position {int(positions[where[0]])} has feature pair {where[1]} turned by {found:.3g} (in radians, less full "
        f"turns) instead of {expected:.3g}."
    )
