"""What a computation moves: a counted memory of two levels, a slow one that holds all and a fast one that is small."""

import itertools
import weakref
from collections import Counter, OrderedDict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

LINE = 16  # numbers that move together: 64 bytes of float32, as in most processors
TAKES_MEMORY_ONLY = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
OVERWRITES = ("copy_", "fill_", "zero_")


class TwoLevels(TorchDispatchMode):
    """Counts the numbers that move between slow and fast memory while torch computes.

    Every operation finds its inputs in fast memory and leaves its result there. What is missing is read
    from slow memory. When fast memory is full, what was not used for longest makes room, and is written
    to slow memory first if it is new. What the program has given up is dropped and never written.

        with TwoLevels(capacity=16_384) as memory:
            output = attention(query, key, value)
        memory.read, memory.written

    Args:
        capacity: numbers that fit into fast memory.

    An operation reads each input once, from its first number to its last, however large it is: nothing is
    charged for the tiles that a product of large matrices needs. No gradients are recorded inside.

    Cost: Python for every line of 16 numbers that an operation uses; n = 1,000 is plenty.
    Reduces to: each input read once and each output written once, when everything fits.
    Source: dao2022, sections 2.1 (the two levels) and 3.2 (what is counted).
    Chapter: 10_flash.
    """

    def __init__(self, capacity: int):
        super().__init__()
        self.capacity = capacity
        self.read = self.written = 0
        self.held: OrderedDict[tuple[int, int], bool] = OrderedDict()  # line: is it new?
        self.names: dict[int, int] = {}  # of a storage, by its address
        self.fresh = itertools.count()
        self.users: Counter[int] = Counter()  # live tensors on each storage made inside

    @property
    def moved(self) -> int:
        """Numbers read and written."""
        return self.read + self.written

    def __enter__(self):
        self.without_gradients = torch.no_grad()
        self.without_gradients.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self.without_gradients.__exit__(*error)
        while self.held:  # the results
            self.make_room()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::")
        given, results = tensors((args, kwargs)), tensors(out)
        for x in given:
            if address(x) not in self.names:
                self.names[address(x)] = next(self.fresh)
        shared = {address(x) for x in given}
        is_view = not func._schema.is_mutable and all(address(x) in shared for x in results)
        for x in results:
            self.follow(x, is_new=address(x) not in shared)
        if not is_view and name not in TAKES_MEMORY_ONLY:
            for x in given[name in OVERWRITES :]:  # the first one is only written
                self.use(x)
            for x in results:
                self.use(x, is_new=True)
        return out

    def use(self, x: Tensor, is_new: bool = False) -> None:
        """Bring a tensor into fast memory, or make it there."""
        name = self.names[address(x)]
        for line in lines(x):
            known = self.held.pop((name, line), None)
            if known is None:
                self.read += 0 if is_new else LINE
                if (len(self.held) + 1) * LINE > self.capacity:
                    self.make_room()
            self.held[name, line] = is_new or bool(known)

    def make_room(self) -> None:
        """Give up what was not used for longest; only what is new has to be written."""
        if self.held:
            _, is_new = self.held.popitem(last=False)
            self.written += LINE if is_new else 0

    def follow(self, x: Tensor, is_new: bool) -> None:
        """Notice when the last tensor on a storage that was made inside is given up."""
        if is_new:
            self.names[address(x)] = next(self.fresh)
            self.users[self.names[address(x)]] = 0
        name = self.names[address(x)]
        if name in self.users:
            self.users[name] += 1
            numbers = x.untyped_storage().nbytes() // x.element_size()
            weakref.finalize(x, self.give_up, name, address(x), numbers).atexit = False

    def give_up(self, name: int, where: int, numbers: int) -> None:
        """One tensor less on this storage; after the last one its numbers are not worth a place."""
        self.users[name] -= 1
        if self.users[name] == 0:
            del self.users[name], self.names[where]
            for line in range(-(-numbers // LINE)):
                self.held.pop((name, line), None)


def tensors(objects: Any) -> list[Tensor]:
    """The tensors among these objects, and in their lists, that hold a number."""
    return [x for x in tree_leaves(objects) if isinstance(x, Tensor) and x.numel()]


def address(x: Tensor) -> int:
    """Where the storage of a tensor begins."""
    return x.untyped_storage().data_ptr()


def lines(x: Tensor) -> Iterable[int]:
    """The lines of its storage on which a tensor lies."""
    first = x.storage_offset()
    last = first + sum((size - 1) * step for size, step in zip(x.shape, x.stride(), strict=True))
    if last - first + 1 <= x.numel():
        return range(first // LINE, last // LINE + 1)
    at = torch.tensor(first)
    for size, step in zip(x.shape, x.stride(), strict=True):
        at = at[..., None] + torch.arange(size) * step
    return torch.unique(at // LINE).tolist()
