"""Values as trees for JSON, and back: what a message can hold, and how much of it.

A tensor is a place in memory that both sides know: views, strides and shared memory survive. What comes from a
submission is bounded before it is used: kinds, depth, number of nodes, length of texts, bits of numbers.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy
import torch
from torch import Tensor

from attngrade.sandbox.wire import Lost, expect

# Of one message: a view of stride 0 is small on the wire and large when it is used.
MOST_NODES, MOST_NUMBERS = 60_000, 2**25
MOST_DEPTH, MOST_TEXT, MOST_KEY, MOST_BITS = 16, 1000, 200, 1024
MOST_RESULT = 5_000  # nodes of what one call returns
MOST_KEPT = 2**28  # bytes of memory that is known over many messages

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128,
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    )
}  # fmt: skip


class Opaque:
    """Something that does not travel: its kind and how it prints."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def without_addresses(text: str) -> str:
    """The text without addresses of memory, which differ from run to run."""
    return re.sub(r"0x[0-9a-fA-F]{6,}", "0x...", text[:MOST_TEXT])


def opaque(kind: str, text: str) -> Opaque:
    """An `Opaque` whose class is called as the class of what it stands for."""
    name = kind[:60] if kind[:60].isidentifier() else "object"
    return type(name, (Opaque,), {})(without_addresses(text))


def size(x: Any, most: int = MOST_RESULT, depth: int = 0) -> int:
    """The number of nodes of a value; what is deeper or has more counts as more than ``most``."""
    if not isinstance(x, tuple | list | dict):
        return 1
    if len(x) > most or depth > MOST_DEPTH - 6:  # some levels are the message's own
        return most + 1
    total = 1
    for y in x.values() if isinstance(x, dict) else x:
        total += size(y, most, depth + 1)
        if total > most:
            break
    return total


def bounded(x: Any) -> Any:
    """The value, or what stands for one that is too deep or too long for a message."""
    if size(x) <= MOST_RESULT:
        return x
    return opaque(type(x).__name__, "a result that is nested too deeply or too long")


@dataclass
class Memory:
    """The memory that both sides know, by name; its names begin with the letter of its owner.

    A new one knows nothing. One that is kept makes later messages update the tensors of earlier ones,
    as if both sides looked at the same memory.
    """

    owner: str
    known: dict[str, Tensor] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    def name(self, x: Tensor) -> str:
        """The name of the memory under ``x``; it is kept alive, so that its address stays its own."""
        address = x.untyped_storage().data_ptr()
        if address not in self.names or not address:
            name = f"{self.owner}{len(self.known)}"
            # a tensor over all bytes that shares the memory
            self.known[name] = torch.empty(0, dtype=torch.uint8).set_(x.untyped_storage())
            self.names[address] = name
        return self.names[address]

    def update(self, arrived: dict[str, Tensor]) -> None:
        """Take over what the other side says of its memory and of ours."""
        for name, content in arrived.items():
            mine = self.known.get(name)
            if mine is None:
                self.known[name] = content
                self.names[content.untyped_storage().data_ptr()] = name
            elif mine.shape == content.shape:
                mine.copy_(content)
        if self.owner == "g":
            kept = sum(x.numel() for x in self.known.values())
            expect(kept <= MOST_KEPT, f"it keeps {kept:,} bytes; {MOST_KEPT:,} are allowed")


class Packer:
    """Turns values into a tree for one message, and trees into values.

    Args:
        memory: what both sides know; its owner is ``"g"`` where what arrives must be bounded.
        export: describes an object that stays here.
        resolve: turns such a description into a stand-in, or into our own object.
    """

    def __init__(self, memory: Memory, export: Callable, resolve: Callable):
        self.memory, self.export, self.resolve = memory, export, resolve
        self.wary = memory.owner == "g"
        self.nodes = self.numbers = 0

    def pack(self, x: Any) -> Any:
        """A tree for JSON; what cannot travel becomes how it prints."""
        if x is None or type(x) in (bool, float):
            return x
        if x is ...:
            return {"ellipsis": []}  # what stands for an answer that is not there yet
        if isinstance(x, str):
            text = str.__str__(x)
            return text if self.wary else text[:MOST_TEXT]  # cells are long, answers not
        if isinstance(x, int):
            fits = x.bit_length() <= MOST_BITS
            return int(x) if fits else {"opaque": ["int", "a very large number"]}
        if isinstance(x, Tensor):
            return self._tensor(x)
        if isinstance(x, torch.dtype):
            return {"dtype": str(x).removeprefix("torch.")}
        if isinstance(x, numpy.ndarray | numpy.generic):
            return self._array(x)
        if isinstance(x, tuple | list):
            parts = [self.pack(y) for y in x]
            return parts if isinstance(x, list) else {"tuple": parts}
        if isinstance(x, dict):
            return {"dict": {str(k)[:MOST_KEY]: self.pack(y) for k, y in x.items()}}
        if isinstance(x, Fraction):
            return {"fraction": [self.pack(x.numerator), self.pack(x.denominator)]}
        if isinstance(x, Opaque):
            return {"opaque": [type(x).__name__, x.text]}
        return self.export(x)

    def _tensor(self, x: Tensor) -> dict:
        needs = x.requires_grad
        if type(x) is not Tensor:
            with torch._C.DisableTorchFunctionSubclass():
                x = x.as_subclass(Tensor)
        dtype = str(x.dtype).removeprefix("torch.")
        if x.layout != torch.strided or x.device.type != "cpu" or dtype not in DTYPES:
            text = f"a tensor of shape {tuple(x.shape)}, layout {x.layout}, dtype {x.dtype}, on {x.device}"
            return {"opaque": ["Tensor", text]}
        if not self.wary and self.numbers + x.numel() > MOST_NUMBERS:
            return {"opaque": ["Tensor", f"a tensor of shape {tuple(x.shape)}"]}
        self.numbers += x.numel()
        x = x.detach().resolve_conj().resolve_neg()
        place = [x.storage_offset(), list(x.shape), list(x.stride())]
        return {"tensor": [self.memory.name(x), dtype, *place, needs]}

    def _array(self, x: Any) -> Any:
        if isinstance(x, numpy.generic):
            number = x.dtype.kind in "biuf"
            return self.pack(x.item()) if number else {"opaque": ["generic", str(x)[:MOST_TEXT]]}
        try:
            return {"array": self._tensor(torch.from_numpy(numpy.array(x, order="C")))}
        except (TypeError, ValueError):
            return {"opaque": ["ndarray", f"an array of {x.dtype}"[:MOST_TEXT]]}

    def unpack(self, tree: Any, depth: int = 0) -> Any:
        """The value of a tree.

        Raises:
            Lost: no honest side packs such a tree.
        """
        self.nodes += 1
        if self.wary:
            fits = self.nodes <= MOST_NODES and depth <= MOST_DEPTH
            expect(fits, "it sent a value that is nested too deeply or too long")
        if isinstance(tree, list):
            return [self.unpack(x, depth + 1) for x in tree]
        if not isinstance(tree, dict):
            return self._leaf(tree)
        expect(len(tree) == 1, "it sent a value of no known kind")
        ((kind, x),) = tree.items()
        try:
            return getattr(self, f"_unpack_{kind}")(x, depth + 1)
        except Lost:
            raise
        except Exception as error:
            raise Lost(f"it sent a value that makes no sense ({type(error).__name__})") from None

    def _leaf(self, x: Any) -> Any:
        if self.wary and isinstance(x, str):
            expect(len(x) <= MOST_TEXT, "it sent a text that is too long")
        if isinstance(x, int):
            expect(x.bit_length() <= MOST_BITS, "it sent a number that is too long")
        return x

    def _unpack_tuple(self, x, depth):
        return tuple(self.unpack(list(x), depth))

    def _unpack_ellipsis(self, x, depth):
        return ...

    def _unpack_dict(self, x, depth):
        expect(all(len(k) <= MOST_KEY for k in x), "it sent a key that is too long")
        return {k: self.unpack(y, depth) for k, y in x.items()}

    def _unpack_fraction(self, x, depth):
        above, below = map(self._leaf, x)
        expect(type(above) is int and type(below) is int)  # "1e99999999" would take minutes
        return Fraction(above, below)

    def _unpack_dtype(self, x, depth):
        return DTYPES[x]

    def _unpack_opaque(self, x, depth):
        kind, text = map(self._leaf, x)
        return opaque(str(kind), str(text))

    def _unpack_array(self, x, depth):
        return self.unpack(x, depth).numpy()

    def _unpack_object(self, x, depth):
        return self.resolve(x)

    def _unpack_tensor(self, x, depth):
        name, dtype, offset, shape, stride, needs = x
        memory, dtype = self.memory.known[name], DTYPES[dtype]
        places = [offset, *shape, *stride]
        possible = all(type(k) is int and 0 <= k < 2**40 for k in places) and len(shape) <= 16
        expect(possible, "it sent a tensor of no possible shape")
        self.numbers += math.prod(shape)
        if self.wary:
            expect(self.numbers <= MOST_NUMBERS, "it sent tensors of too many numbers")
        last = offset + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
        there = 0 in shape or (last + 1) * dtype.itemsize <= memory.numel()
        expect(there, "it sent a tensor that is larger than its memory")
        tensor = torch.empty(0, dtype=dtype)
        tensor.set_(memory.untyped_storage(), offset, shape, stride)
        return tensor.requires_grad_() if needs is True and dtype.is_floating_point else tensor
