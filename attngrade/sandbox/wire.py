"""Values on a socket: what goes over it can carry numbers and text, but no code.

A message is a length and one safetensors blob. Its tensors are the memory that the values stand on;
its metadata is a tree in JSON that says how to read it. Views, strides and shared memory survive.
"""

import json
import math
import re
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy
import torch
from safetensors.torch import load, save
from torch import Tensor

MOST_NUMBERS = (
    2**24
)  # in one tensor: a view of stride 0 is small on the wire and large when it is used
MOST_NODES, MOST_DEPTH, MOST_TEXT = 5_000, 12, 500
MOST_HEADER = 2**22  # bytes of JSON: small on the wire, it becomes large when it is read

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128,
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    )
}  # fmt: skip


class Lost(BaseException):
    """The other side is gone, too slow, or says what no honest side says.

    Not an `Exception`: a judge takes those for the answer's own.
    """


class Opaque:
    """Something that does not travel: its kind and how it prints."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def without_addresses(text: str) -> str:
    """The text without addresses of memory, which differ from run to run."""
    return re.sub(r"0x[0-9a-fA-F]{6,}", "0x...", text)


def opaque(kind: str, text: str) -> Opaque:
    """An `Opaque` whose class is called as the class of what it stands for."""
    name = kind[:60] if kind.isidentifier() else "object"
    return type(name, (Opaque,), {})(without_addresses(text[:MOST_TEXT]))


class Pipe:
    """Sends and receives frames on a socket, until a deadline, up to a number of bytes."""

    def __init__(self, sock: socket.socket, most_bytes: int):
        self.sock, self.most_bytes, self.deadline = sock, most_bytes, math.inf

    def send(self, body: Any, tensors: dict[str, Tensor]) -> None:
        """One message.

        Raises:
            Lost: nobody reads it.
        """
        metadata = {"body": json.dumps(body)}
        frame = save(tensors, metadata)
        self._in_time(self.sock.sendall, struct.pack("<Q", len(frame)) + frame)

    def receive(self) -> tuple[Any, dict[str, Tensor]]:
        """The next message: its tree, and the memory it speaks of.

        Raises:
            Lost: it is late, too long, cut short, or no message at all.
        """
        (length,) = struct.unpack("<Q", self._read(8))
        if length > self.most_bytes:
            raise Lost(f"it sent {length:,} bytes; {self.most_bytes:,} are allowed")
        frame = self._read(length)
        try:
            (size,) = struct.unpack_from("<Q", frame)
            if size > MOST_HEADER:
                raise Lost("it sent a value that is nested too deeply or too long")
            header = json.loads(bytes(frame[8 : 8 + size]))
            body = json.loads(header["__metadata__"]["body"])
            return body, load(bytes(frame))
        except Exception as error:  # whatever is wrong with it, nested too deeply included
            raise Lost(f"what it sent is no message ({type(error).__name__})") from None

    def _read(self, length: int) -> bytearray:
        data, at = bytearray(length), 0
        view = memoryview(data)
        while at < length:
            read = self._in_time(self.sock.recv_into, view[at:])
            if not read:
                raise Lost("it ended")
            at += read
        return data

    def _in_time(self, action: Callable, what: Any) -> Any:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise Lost("it took too long")
        self.sock.settimeout(None if left == math.inf else left)
        try:
            return action(what)
        except TimeoutError:
            raise Lost("it took too long") from None
        except OSError:
            raise Lost("it ended") from None


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
            if content.dtype != torch.uint8 or content.dim() != 1:
                raise Lost("it sent memory that is not made of bytes")
            mine = self.known.get(name)
            if mine is not None and mine.shape == content.shape:
                mine.copy_(content)
            elif mine is None:
                self.known[name] = own = (
                    content.clone()
                )  # what arrived is the frame, and not aligned
                self.names[own.untyped_storage().data_ptr()] = name


class Packer:
    """Turns values into a tree for one message, and trees into values.

    Args:
        memory: what both sides know.
        export: describes an object that stays here.
        resolve: turns such a description into a stand-in, or into our own object.
    """

    def __init__(self, memory: Memory, export: Callable, resolve: Callable):
        self.memory, self.export, self.resolve = memory, export, resolve
        self.nodes = 0

    def pack(self, x: Any, depth: int = 0) -> Any:
        """A tree for JSON; what cannot travel becomes how it prints."""
        self.nodes += 1
        many = isinstance(x, tuple | list | dict) and len(x) > MOST_NODES
        if many or depth > MOST_DEPTH or self.nodes > MOST_NODES:
            return {"opaque": [type(x).__name__, "a result that is nested too deeply or too long"]}
        if x is None or type(x) in (bool, float):
            return x
        if x is ...:
            return {"ellipsis": []}  # what stands for an answer that is not there yet
        if isinstance(x, str):
            text = str.__str__(x)
            return (
                text if self.memory.owner == "g" else text[:MOST_TEXT]
            )  # cells are long, answers not
        if isinstance(x, int) and not isinstance(x, bool):
            return int(x) if x.bit_length() <= 4096 else {"opaque": ["int", "a very large number"]}
        if isinstance(x, Tensor):
            return self._tensor(x)
        if isinstance(x, torch.dtype):
            return {"dtype": str(x).removeprefix("torch.")}
        if isinstance(x, numpy.ndarray | numpy.generic):
            return self._array(x)
        if isinstance(x, tuple | list):
            parts = [self.pack(y, depth + 1) for y in x]
            return parts if isinstance(x, list) else {"tuple": parts}
        if isinstance(x, dict):
            return {
                "dict": [[self.pack(k, depth + 1), self.pack(v, depth + 1)] for k, v in x.items()]
            }
        if isinstance(x, Fraction):
            return {"fraction": [self.pack(x.numerator), self.pack(x.denominator)]}
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
        if x.numel() > MOST_NUMBERS and 0 in x.stride():
            return {"opaque": ["Tensor", f"a tensor of shape {tuple(x.shape)}"]}
        x = x.detach().resolve_conj().resolve_neg()
        place = [x.storage_offset(), list(x.shape), list(x.stride())]
        return {"tensor": [self.memory.name(x), dtype, *place, needs]}

    def _array(self, x: Any) -> Any:
        if isinstance(x, numpy.generic):
            return (
                self.pack(x.item()) if x.dtype.kind in "biuf" else {"opaque": ["generic", str(x)]}
            )
        try:
            return {"array": self._tensor(torch.from_numpy(numpy.ascontiguousarray(x)))}
        except TypeError:
            return {"opaque": ["ndarray", f"an array of {x.dtype}"]}

    def unpack(self, tree: Any) -> Any:
        """The value of a tree.

        Raises:
            Lost: no honest side packs such a tree.
        """
        if isinstance(tree, list):
            return [self.unpack(x) for x in tree]
        if not isinstance(tree, dict):
            return tree
        if len(tree) != 1:
            raise Lost("it sent a value of no known kind")
        ((kind, x),) = tree.items()
        try:
            return getattr(self, f"_unpack_{kind}")(x)
        except Lost:
            raise
        except Exception as error:
            raise Lost(f"it sent a value that makes no sense ({type(error).__name__})") from None

    def _unpack_tuple(self, x):
        return tuple(self.unpack(y) for y in x)

    def _unpack_ellipsis(self, x):
        return ...

    def _unpack_dict(self, x):
        return {self.unpack(k): self.unpack(v) for k, v in x}

    def _unpack_fraction(self, x):
        above, below = x  # never one text: "1e99999999" would take minutes
        return Fraction(above, below)

    def _unpack_dtype(self, x):
        return DTYPES[x]

    def _unpack_opaque(self, x):
        kind, text = x
        return opaque(str(kind), str(text))

    def _unpack_array(self, x):
        return self.unpack(x).numpy()

    def _unpack_object(self, x):
        return self.resolve(x)

    def _unpack_tensor(self, x):
        name, dtype, offset, shape, stride, needs = x
        memory, dtype = self.memory.known[name], DTYPES[dtype]
        places = [offset, *shape, *stride]
        if not all(type(k) is int and 0 <= k < 2**40 for k in places) or len(shape) > 16:
            raise Lost("it sent a tensor of no possible shape")
        if math.prod(shape) > max(MOST_NUMBERS, memory.numel()):
            return opaque("Tensor", f"a tensor of shape {tuple(shape)}")
        last = offset + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
        if 0 not in shape and (last + 1) * dtype.itemsize > memory.numel():
            raise Lost("it sent a tensor that is larger than its memory")
        tensor = torch.empty(0, dtype=dtype)
        tensor.set_(memory.untyped_storage(), offset, shape, stride)
        return tensor.requires_grad_() if needs and dtype.is_floating_point else tensor
