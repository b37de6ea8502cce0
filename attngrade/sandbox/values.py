"""Values as trees for JSON, and back.

A tensor refers to memory that both sides know, so views, strides and shared memory survive. Trees from a
submission are checked before use: kinds, depth, number of nodes, length of texts, bits of numbers.
"""

import math
import numbers
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch
from torch import Tensor

from attngrade.sandbox.wire import Lost, expect

# Of one message. Numbers are limited, too: a view of stride 0 is small on the wire and large in use.
MOST_NODES, MOST_NUMBERS = 60_000, 2**25
MOST_DEPTH, MOST_TEXT, MOST_BITS = 16, 1000, 1024
MOST_RESULT, MOST_RESULT_DEPTH = 5_000, 8  # nodes and depth of the result of one call
MOST_KEPT = 2**28  # bytes of memory known over many messages
LONG = "a result that is nested too deeply or too long"

KINDS = "float64 float32 float16 bfloat16 complex64 complex128 bool uint8 int8 int16 int32 int64"
DTYPES = {name: getattr(torch, name) for name in KINDS.split()}


class Opaque:
    """Placeholder for an object that does not travel: a class of the same name, with the same repr."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def opaque(kind: str, text: str) -> Opaque:
    """An `Opaque` whose class has this name."""
    return type(named(kind), (Opaque,), {})(without_addresses(text))


def named(kind: str) -> str:
    """A valid class name from untrusted text."""
    return kind[:60] if kind[:60].isidentifier() else "object"


def without_addresses(text: str) -> str:
    """The text without memory addresses, which differ from run to run."""
    return re.sub(r"0x[0-9a-fA-F]{6,}", "0x...", text[:MOST_TEXT])


def bounded(x: Any) -> Any:
    """The value, or an `Opaque` for one that is too deep or too long for a message."""
    return x if nodes(x) <= MOST_RESULT else opaque(type(x).__name__, LONG)


def nodes(x: Any, depth: int = 0) -> float:
    """The number of nodes in the tree of a value."""
    if not isinstance(x, tuple | list | dict):
        return 1
    if depth == MOST_RESULT_DEPTH or len(x) > MOST_RESULT:
        return math.inf
    return 1 + sum(nodes(y, depth + 1) for y in (x.values() if isinstance(x, dict) else x))


@dataclass
class Memory:
    """The memory that both sides know, by names that begin with the letter of the owner.

    Within one `Memory`, later messages update the tensors of earlier ones, as if both sides shared memory.
    """

    owner: str
    known: dict[str, Tensor] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    def name(self, x: Tensor) -> str:
        """The name of the storage of ``x``, which is kept alive so that its address stays unique."""
        address = x.untyped_storage().data_ptr()
        if address not in self.names or not address:
            name = f"{self.owner}{len(self.known)}"
            # a tensor over all bytes of the storage
            self.known[name] = torch.empty(0, dtype=torch.uint8).set_(x.untyped_storage())
            self.names[address] = name
        return self.names[address]

    def update(self, arrived: dict[str, Tensor]) -> None:
        """Add the other side's new memory, and apply its changes to known memory."""
        for name, content in arrived.items():
            mine = self.known.get(name)
            if mine is None:
                self.known[name] = content
                self.names[content.untyped_storage().data_ptr()] = name
            elif mine.shape == content.shape:
                mine.copy_(content)
        kept = sum(x.numel() for x in self.known.values())
        expect(self.owner == "w" or kept <= MOST_KEPT, "it keeps more memory than it may")


class Packer:
    """Turns values into a tree for one message, and trees into values.

    Args:
        memory: the memory that both sides know; on the side of its owner ``"g"``, arriving values are checked.
        export: describes an object that stays on this side.
        resolve: turns such a description into a stand-in, or into our own object.
    """

    def __init__(self, memory: Memory, export: Callable, resolve: Callable):
        self.memory, self.export, self.resolve = memory, export, resolve
        self.wary = memory.owner == "g"
        self.nodes = self.numbers = 0

    def pack(self, x: Any) -> Any:
        """A tree for JSON; what cannot travel becomes how it prints."""
        x = x.item() if isinstance(x, numpy.generic) else x
        if x is None or type(x) in (bool, float):
            return x
        if isinstance(x, str):
            # cells are long, answers are not
            return str.__str__(x) if self.wary else str.__str__(x)[:MOST_TEXT]
        if isinstance(x, Tensor):
            return self._tensor(x)
        if isinstance(x, numpy.ndarray):
            return self._array(x)
        if isinstance(x, int):
            fits = int(x).bit_length() <= MOST_BITS
            return int(x) if fits else {"opaque": ["int", "a very large number"]}
        if isinstance(x, numbers.Real):  # fractions, too
            return float(x)
        if isinstance(x, tuple | list):
            parts = [self.pack(y) for y in x]
            return parts if isinstance(x, list) else {"tuple": parts}
        if isinstance(x, dict):
            return {"dict": {str(k)[:MOST_TEXT]: self.pack(y) for k, y in x.items()}}
        if isinstance(x, torch.dtype):
            return {"dtype": str(x).removeprefix("torch.")}
        if isinstance(x, Opaque):
            return {"opaque": [type(x).__name__, x.text]}
        # `...` stands for an answer that is not there yet
        return {"ellipsis": []} if x is ... else self.export(x)

    def _array(self, x: numpy.ndarray) -> dict:
        try:
            return {"array": self._tensor(torch.from_numpy(numpy.array(x, order="C")))}
        except (TypeError, ValueError):
            return {"opaque": ["ndarray", f"an array of {x.dtype}"[:MOST_TEXT]]}

    def _tensor(self, x: Tensor) -> dict:
        needs = x.requires_grad
        if type(x) is not Tensor:
            with torch._C.DisableTorchFunctionSubclass():
                x = x.as_subclass(Tensor)
        dtype = str(x.dtype).removeprefix("torch.")
        self.numbers += x.numel()
        plain = x.layout == torch.strided and x.device.type == "cpu" and dtype in DTYPES
        if not plain or not self.wary and self.numbers > MOST_NUMBERS:
            text = f"a tensor of shape {tuple(x.shape)}, layout {x.layout}, dtype {x.dtype}, on {x.device}"
            return {"opaque": ["Tensor", text]}
        x = x.detach().resolve_conj().resolve_neg()
        place = [x.storage_offset(), list(x.shape), list(x.stride())]
        return {"tensor": [self.memory.name(x), dtype, *place, needs]}

    def unpack(self, tree: Any, depth: int = 0) -> Any:
        """The value of a tree; `Lost` for a tree that `pack` never makes."""
        self.nodes += 1
        fits = self.nodes <= MOST_NODES and depth <= MOST_DEPTH
        expect(fits or not self.wary, "it sent a value that is nested too deeply or too long")
        if isinstance(tree, list):
            return [self.unpack(x, depth + 1) for x in tree]
        if not isinstance(tree, dict):
            return self._leaf(tree)
        try:
            ((kind, x),) = tree.items()
            return self._unpack(kind, x, depth + 1)
        except Exception as error:
            raise Lost(f"it sent a value that makes no sense ({type(error).__name__})") from None

    def _leaf(self, x: Any) -> Any:
        if isinstance(x, str):
            expect(len(x) <= MOST_TEXT or not self.wary, "it sent a text that is too long")
        elif isinstance(x, int):
            expect(x.bit_length() <= MOST_BITS, "it sent a number that is too long")
        return x

    def _unpack(self, kind: str, x: Any, depth: int) -> Any:
        match kind:
            case "tuple":
                return tuple(self.unpack(y, depth) for y in x)
            case "dict":
                return {self._leaf(k): self.unpack(y, depth) for k, y in x.items()}
            case "tensor":
                return self._place(*x)
            case "array":
                made = self.unpack(x, depth)
                return made.numpy() if isinstance(made, Tensor) else made
            case "object":
                return self.resolve(x)
            case "opaque":
                return opaque(*map(self._leaf, x))
            case "dtype" if isinstance(dtype := getattr(torch, x), torch.dtype):
                return dtype
            case "ellipsis":
                return ...
        raise Lost("it sent a value of no known kind")

    def _place(self, name, dtype, offset, shape, stride, needs) -> Tensor:
        memory, dtype = self.memory.known[name], DTYPES[dtype]
        places = [offset, *shape, *stride]
        possible = all(type(k) is int and 0 <= k < 2**40 for k in places) and len(shape) <= 16
        expect(possible, "it sent a tensor of no possible shape")
        self.numbers += math.prod(shape)
        few = self.numbers <= MOST_NUMBERS or not self.wary
        expect(few, "it sent tensors of too many numbers")
        last = offset + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
        there = 0 in shape or (last + 1) * dtype.itemsize <= memory.numel()
        expect(there, "it sent a tensor that is larger than its memory")
        tensor = torch.empty(0, dtype=dtype)
        tensor.set_(memory.untyped_storage(), offset, shape, stride)
        return tensor.requires_grad_() if needs is True and dtype.is_floating_point else tensor
