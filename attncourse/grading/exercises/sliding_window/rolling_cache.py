"""Exercise rolling_cache: a cache that rolls, and takes its oldest token for one of the future."""

from operator import index

import torch

from attncourse.grading.exercise import Exercise, Raised, run
from attncourse.grading.feed import ONE, Feed, WritesTwice, judged, other_tokens


class Right:
    def __init__(self, batch, heads, window, head_dim):
        self.memory, self.length = torch.zeros(batch, heads, window, head_dim), 0

    def append(self, new):
        window, n = self.memory.size(2), new.size(2)
        self.length += n
        at = torch.arange(self.length - n, self.length)[-window:]
        self.memory[:, :, at % window] = new[:, :, -window:]
        slots, last = torch.arange(min(self.length, window)), self.length - 1
        return self.memory[:, :, : len(slots)], last - (last - slots) % window


TWICE = "no; torch leaves open which of two tokens stays there, so cut a longer chunk before it"


def steps(answer, seed: int, spoil: bool = False):
    """Facts, and what is seen of them."""
    feed = Feed(answer, 4 + seed % 4, seed, spoil)
    w, one, two, long, narrow = feed.window, feed.new(), feed.new(), feed.new(), feed.new(1)
    for what, cache, appended in (
        ("while there is room, every token is kept at its position", one, [(0, 1), (1, 2)]),
        ("the token in the last slot is kept at its position, too", one, [(3, w - 3)]),
        ("each further token replaces the oldest one", one, [(w + k, 1) for k in range(w + 1)]),
        ("a chunk goes on at the front where the memory ends", two, [(0, w - 1), (w - 1, 3)]),
        ("a chunk may be as long as the window", two, [(w + 2, w)]),
        ("of a longer chunk the last tokens are kept", two, [(2 * w + 2, w + 3)]),
        ("behind a longer chunk, a token replaces the oldest one, too", two, [(3 * w + 5, 1)]),
        ("two caches have nothing in common", one, [(2 * w + 1, 1)]),
        ("a first chunk may be longer, too", long, [(0, 2 * w + 1)]),
        ("a window of 1 keeps the last token", narrow, [(0, 1), (1, 1), (2, 1)]),
        ("a first chunk may be as long as the window", feed.new(), [(2, w), (w + 2, 1)]),
    ):  # fmt: skip
        told = [feed.append(cache, *tokens) for tokens in appended]
        yield what, next((x for x in told if isinstance(x, Raised)), "; ".join(map(str, told)))
    slots = run(lambda: [int(x) % w for x in feed.give(two, 3 * w + 6)[1]])
    yield (
        "the token of position p stands in slot p mod window",
        slots == [*range(w)] or f"no, slots 0 to {w - 1} hold {slots} mod window",
    )
    yield "length is the number of tokens seen so far", f"{index(one.length)}, {index(two.length)}"
    fresh = feed.new()
    shared = [
        feed.one_memory(cache, [feed.give(cache, at)[0]], at + 1)
        for cache, at in ((one, 2 * w + 2), (fresh, 0))
    ]
    yield ONE, next((x for x in shared if x is not True), True)
    memory = feed.give(feed.new(), 0)[0]
    room = memory.untyped_storage().nbytes() // memory.element_size() // feed.tokens(0).numel()
    what = "the memory has as many slots as the window, and no more"
    yield what, room <= w or f"{room} slots for a window of {w}"
    yield "what is appended stays as it was", feed.kept()
    with WritesTwice() as written:
        feed.append(feed.new(), 0, 2 * w + 1)
    yield "no index names a slot twice", not written.found or TWICE


EXERCISE = Exercise(
    name="rolling_cache",
    answer="RepairedRolling",
    judge=judged(steps, Right),
    right=Right,
    explain=(other_tokens,),
    asks_for="class",
    keeps_memory=True,
)
