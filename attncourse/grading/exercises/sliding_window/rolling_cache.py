"""Exercise rolling_cache: a cache that rolls, and takes its oldest token for one of the future."""

from functools import lru_cache

import torch

from attncourse.grading.exercise import Accepted, Exercise, Facts, Mistake, Mistakes
from attncourse.grading.exercises.sliding_window import _rolling as roll
from attncourse.grading.exercises.sliding_window._feeder import facts, steps

RIGHT = roll.RIGHT
ACCEPTED = Accepted(slots_by_a_remainder=RIGHT)


@ACCEPTED.add
class TokenByToken:
    def __init__(self, batch, heads, window, head_dim):
        self.memory = torch.zeros(batch, heads, window, head_dim)
        self.positions, self.length = [None] * window, 0

    def append(self, new):
        for token in new.unbind(2):
            slot = self.length % len(self.positions)
            self.memory[:, :, slot] = token
            self.positions[slot] = self.length
            self.length += 1
        n = min(self.length, len(self.positions))
        return self.memory[:, :, :n], self.positions[:n]


@ACCEPTED.add
class SequenceFirst:
    def __init__(self, batch, heads, window, head_dim):
        self.rows = torch.full((window, batch, heads, head_dim), torch.nan, dtype=torch.float64)
        self.at, self.length = torch.full((window,), -1), torch.tensor(0)

    def append(self, new):
        n, window = new.size(2), len(self.rows)
        positions = torch.arange(int(self.length), int(self.length) + n)[-window:]
        self.rows[positions % window] = new[:, :, -window:].permute(2, 0, 1, 3).double()
        self.at[positions % window] = positions
        self.length = self.length + n
        there = int((self.at >= 0).sum())
        return self.rows[:there].permute(1, 2, 0, 3), self.at[:there].clone()


@ACCEPTED.add
class TwoPieces(RIGHT):
    """What does not fit behind the last token goes to the front."""

    def append(self, new):
        window = self.memory.size(2)
        if new.size(2) > window:
            self.length += new.size(2) - window
            new = new[:, :, -window:]
        slot, n = self.length % window, new.size(2)
        room = min(n, window - slot)
        self.memory[:, :, slot : slot + room] = new[:, :, :room]
        self.memory[:, :, : n - room] = new[:, :, room:]
        self.length += n
        if self.length < window:
            return self.memory[:, :, : self.length], torch.arange(self.length)
        turns, newest = divmod(self.length - 1, window)
        slots = torch.arange(window)
        return self.memory, torch.where(
            slots > newest, slots + (turns - 1) * window, slots + turns * window
        )


SLOT = "position p belongs into slot p % window"
TOLD = "a slot holds the newest position p with p % window = slot that is not beyond the last token"
MISTAKES = Mistakes(Mistake(says, roll.repaired(**step)) for says, step in (
    ("This is the code as found: once the memory is full, the oldest token is taken for one of the future, and a chunk that "
     "crosses its end raises an error.", {"write": roll.plain_slice, "label": roll.late, "keep": lambda new, start, w: (new, start)}),
    (f"Once the memory is full, the oldest token is still taken for the next one to come: {TOLD}.", {"label": roll.late}),
    ("A chunk that crosses the end of the memory still raises an error; what does not fit goes on at the front.",
     {"write": roll.plain_slice}),
    (f"The positions are the numbers of the slots; {TOLD}.", {"label": lambda slots, length, w: slots}),
    ("The positions are sorted, and the slots are not: in a memory that has rolled, slot 0 does not hold the oldest token.",
     {"label": lambda slots, length, w: torch.arange(length - len(slots), length)}),
    ("These are distances to the last token; positions are asked.", {"label": lambda slots, length, w: (length - 1 - slots) % w}),
    ("The positions count from 1; the first token stands at 0.", {"label": lambda slots, length, w: 1 + roll.newest_in(slots, length, w)}),
    ("The positions are one too small.", {"label": lambda slots, length, w: roll.newest_in(slots, length, w) - 1}),
    (f"All slots are given positions of the current round; those that it has not reached yet hold the round before: {TOLD}.",
     {"label": lambda slots, length, w: slots + (length - 1) // w * w}),
    (f"All slots are given positions of the current round; those that it has not reached yet hold the round before: {TOLD}.",
     {"label": lambda slots, length, w: slots + length // w * w}),
    (f"The slot of the last token is taken for one of the round before: {TOLD}.",
     {"label": lambda slots, length, w: roll.newest_in(slots, length, w) - w * ((slots == (length - 1) % w) & (length > w))}),
    (f"The positions run backwards through the slots: {TOLD}.",
     {"label": lambda slots, length, w: length - 1 - (slots - (length - 1)) % w if length > w else slots}),
    ("The slots of the round before are given the positions of the very first round.",
     {"label": lambda slots, length, w: torch.where(slots < length % w, slots + length // w * w, slots)}),
    ("The cache starts anew where it is full; a new token takes the place of the oldest one.",
     {"start": lambda length, n, w: 0 if length + n > w else length}),
    ("The tokens are sorted, and the positions are still those of the slots.",
     roll.returns(lambda tokens, positions: (tokens[:, :, positions.argsort()], positions))),
    ("The newest slot is given the position before the last one, and so on: the last token stands at length - 1.",
     {"label": lambda slots, length, w: length - 1 - (length - slots) % w}),
    ("The slots are taken to begin with the oldest token; where the memory is not full, the positions are even negative.",
     {"label": lambda slots, length, w: length - w + slots}),
    ("The positions stand in the opposite order of the slots.", {"label": lambda *x: roll.newest_in(*x).flip(0)}),
    ("Every slot is given the position of the last token.", {"label": lambda slots, length, w: torch.full_like(slots, length - 1)}),
    ("The positions are not whole numbers.", {"label": lambda *x: roll.newest_in(*x).float()}),
    (f"Tokens are written one slot too late; {SLOT}.", {"slots": lambda first, n, w: roll.around(first + 1, n, w)}),
    (f"The last slot is never used: the remainder is taken of window - 1; {SLOT}.",
     {"slots": lambda first, n, w: roll.around(first, n, max(1, w - 1))}),
    (f"The remainder is taken of window + 1, and there is no such slot; {SLOT}.",
     {"slots": lambda first, n, w: roll.around(first, n, w + 1)}),
    (f"Nothing leads back to the front of the memory; {SLOT}.", {"slots": lambda first, n, w: first + torch.arange(n)}),
    (f"Every token behind the last slot is written into the last slot; {SLOT}.",
     {"slots": lambda first, n, w: (first + torch.arange(n)).clamp(max=w - 1)}),
    (f"A chunk that does not fit behind the last token starts at slot 0; {SLOT}.",
     {"slots": lambda first, n, w: first % w * (first % w + n <= w) + torch.arange(n)}),
    (f"Every chunk starts at slot 0; {SLOT}.", {"slots": lambda first, n, w: torch.arange(n)}),
    ("Where a chunk goes over the end of the memory, its beginning is written to the front once more; what did not fit belongs there.",
     {"write": roll.beginning_again}),
    ("The tokens of a chunk are written in the opposite order.",
     {"keep": lambda new, start, w: roll.last_tokens(new.flip(2), start, w)}),
    ("The slots are counted from the length after the chunk, not from the one before it; position p belongs into slot p % window.",
     {"slots": lambda first, n, w: roll.around(first + n, n, w)}),
    ("Every token behind the last slot is written into the last slot; position p belongs into slot p % window.",
     {"keep": lambda new, start, w: (new, start), "slots": lambda first, n, w: (first + torch.arange(n)).clamp(max=w - 1)}),
    ("What comes when the memory is full is dropped; it takes the place of the oldest tokens.",
     {"keep": lambda new, start, w: (new[:, :, : max(0, w - start)], start), "count": lambda length, n, w: min(length + n, w)}),
    ("A full memory raises an error; a new token takes the place of the oldest one.", {"keep": roll.no_room}),
    ("The tokens stand in the opposite order of the slots, and the positions do not.",
     roll.returns(lambda tokens, positions: (tokens.flip(2), positions))),
    ("The memory is made anew in every call; write the new tokens into the one that is there.",
     {"renew": torch.clone}),
    ("The tokens of a chunk are written in the opposite order.", {"slots": lambda *x: roll.around(*x).flip(0)}),
    ("Of a chunk that is longer than the window the first tokens are kept; keep the last ones.",
     {"keep": lambda new, start, w: (new[:, :, :w], start)}),
    (f"Of a chunk that is longer than the window the last tokens are kept, but from the slot on where the chunk began; {SLOT}.",
     {"keep": lambda new, start, w: (new[:, :, -w:], start)}),
    ("A chunk that is longer than the window raises an error; keep its last tokens.", {"keep": roll.raising}),
    ("A chunk that is longer than the window raises an error; keep its last tokens.",
     {"keep": lambda new, start, w: (new, start), "write": roll.two_pieces}),
    ("Where a chunk goes over the end of the memory, its beginning is written to the front once more; what did not fit belongs there. "
     "And a chunk that is longer than the window raises an error.",
     {"keep": lambda new, start, w: (new, start), "write": roll.beginning_again}),
    ("Only the first token of a chunk is kept, as if they came one by one.",
     {"keep": lambda new, start, w: (new[:, :, :1], start), "count": lambda length, n, w: length + 1}),
    ("A chunk that is longer than the window raises an error; keep its last tokens.",
     {"keep": lambda new, start, w: (new, start) if new.size(2) <= w else torch.zeros(0)[1]}),
    ("Only the last token of a chunk is kept.", {"keep": lambda new, start, w: (new[:, :, -1:], start + new.size(2) - 1)}),
    ("length stops at the window; it counts all tokens that were seen.", {"count": lambda length, n, w: min(length + n, w)}),
    ("length stops at the window; it counts all tokens that were seen.",
     {"end": lambda cache, w: setattr(cache, "length", min(cache.length, w))}),
    ("length goes around with the slots; it counts all tokens that were seen.", {"count": lambda length, n, w: (length + n) % w}),
    ("length grows by 1 in every call; it must grow by the number of new tokens.", {"count": lambda length, n, w: length + 1}),
    ("length grows by the tokens that are kept; of a long chunk it must count all.",
     {"count": lambda length, n, w: length + min(n, w)}),
    ("length does not grow.", {"count": lambda length, n, w: length}),
    ("The whole memory is returned while it is not full, with slots that nothing was written to.", {"filled": lambda length, w: w}),
    ("The whole memory is returned while it is not full, with slots that nothing was written to.",
     {"filled": lambda length, w: w, "label": lambda *x: roll.newest_in(*x).clamp(min=-1)}),
    ("The whole memory is returned while it is not full, and the positions are the numbers of the slots.",
     {"filled": lambda length, w: w, "label": lambda slots, length, w: slots}),
    ("The last slot that is filled is missing in what is returned.", {"filled": lambda length, w: min(length, w) - 1}),
    ("The tokens are copied in every call, by clone, roll, cat, flip, an index or a sort; return a view of the memory, in the order of "
     "its slots.", roll.returns(lambda tokens, positions: (tokens.clone(), positions))),
    ("The tokens are copied in every call, by clone, roll, cat, flip, an index or a sort; return a view of the memory, in the order of "
     "its slots.", roll.returns(roll.in_order)),
    ("The tokens are copied in every call, by clone, roll, cat, flip, an index or a sort; return a view of the memory, in the order of "
     "its slots.", roll.returns(lambda tokens, positions: (tokens.flip(2), positions.flip(0)))),
    ("The memory is made anew in every call; write the new tokens into the one that is there.",
     {"end": lambda cache, w: setattr(cache, "memory", cache.memory.clone())}),
    ("Only the new tokens are returned; attention needs all that are kept.",
     {"returned": lambda memory, filled, positions, new: (new, torch.arange(new.size(2)))}),
    ("The first chunk is returned itself, and not as a view of the memory.",
     {"returned": lambda memory, filled, positions, new: (
         new if filled == new.size(2) == int(positions[-1]) + 1 else memory[:, :, :filled], positions)}),
    ("Only the tokens are returned; return (tokens, positions).", roll.returns(lambda tokens, positions: tokens)),
    ("The positions come first; return (tokens, positions).", roll.returns(lambda tokens, positions: (positions, tokens))),
    ("All caches share one memory; make it in the constructor.", {"memory": lru_cache(maxsize=2)(torch.zeros)}),
    ("One token too many is kept; the window counts the last one, too.",
     {"memory": lambda b, h, w, d: torch.zeros(b, h, w + 1, d)}),
    ("One token too few is kept; the window counts the last one, too.",
     {"memory": lambda b, h, w, d: torch.zeros(b, h, max(1, w - 1), d)}),
    ("The tokens are added to what stood in their slots.",
     {"write": lambda memory, at, new: memory.index_add_(2, at, new)}),
    ("The tokens are not written.", {"write": lambda memory, at, new: None}),
))  # fmt: skip
MISTAKES.append(Mistake(
    "The kept tokens are joined anew in every call, by torch.cat or by moving all of them on; write the new ones into the slots, and "
    "return a view of one memory.", roll.Joined))  # fmt: skip

EXERCISE = Exercise(
    name="rolling_cache",
    answer="RepairedRolling",
    judge=Facts(facts, tuple(dict(steps(RIGHT, 0)))),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
