"""What goes over the wire arrives as it was, or says what it was."""

import builtins
import math
import socket
import threading
from contextlib import suppress
from fractions import Fraction

import numpy
import pytest
import torch

from attngrade.sandbox.peer import raised
from attngrade.sandbox.values import Memory, Packer, bounded
from attngrade.sandbox.wire import Lost, Pipe


def send(pipe: Pipe, *message) -> None:
    """Send it, even if nobody wants it."""
    with suppress(Lost):
        pipe.send(*message)


def across(value, most_bytes=2**28):
    """What a worker returns, as it arrives at the judge in a message of its own."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        packer = Packer(Memory("w"), lambda x: {"opaque": [type(x).__name__, "far"]}, None)
        tree = packer.pack(bounded(value))
        message = tree, packer.memory.known
        sender = threading.Thread(target=send, args=(Pipe(ours, 2**30), *message))
        sender.start()
        tree, arrived = Pipe(theirs, most_bytes).receive()
        sender.join()
    other = Packer(Memory("g"), None, lambda x: x)
    other.memory.update(arrived)
    return other.unpack(tree)


x = torch.arange(24.0).view(2, 3, 4)
TENSORS = {
    "plain": x,
    "transposed": x.mT,
    "every second": x[:, ::2, 1::2],
    "from the middle": x[1:, 1:],
    "expanded": torch.ones(1, 3).expand(5, 3),
    "without an axis": torch.tensor(2.5),
    "empty": torch.empty(0),
    "empty in the middle": torch.empty(2, 0, 3),
    "truths": x > 3,
    "bfloat16": x.bfloat16(),
    "float16": x.half(),
    "float64": x.double() / 3,
    "int64": torch.tensor([2**62, -(2**62)]),
    "uint8": torch.tensor([0, 255], dtype=torch.uint8),
    "complex": torch.complex(x, -x),
    "conjugate": torch.complex(x, -x).conj(),
    "negative view": torch.complex(x, -x).conj().imag,
    "not finite": torch.tensor([math.nan, math.inf, -math.inf, -0.0]),
    "wants a gradient": torch.ones(3, requires_grad=True),
    "has a graph": torch.ones(3, requires_grad=True) * 2,
    "subclass": torch.nn.Parameter(torch.ones(2, 2)),
}


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_arrives_as_it_was(name):
    sent = TENSORS[name]
    came = across(sent)
    assert type(came) is torch.Tensor
    assert (came.dtype, came.shape) == (sent.dtype, sent.shape)
    assert came.stride() == sent.stride() or sent.is_neg()
    assert came.requires_grad == sent.requires_grad
    assert torch.equal(came.detach().nan_to_num(7), sent.detach().nan_to_num(7))


def test_memory_that_is_shared_stays_shared():
    whole, part, turned, other = across((x, [x[1]], {"turned": x.mT}, x.clone()))[:4]
    whole[1, 2, 3] = -1
    assert part[0][2, 3] == turned["turned"][1, 3, 2] == -1
    assert other[1, 2, 3] == 23
    assert across(torch.ones(1).expand(1000, 1000)).untyped_storage().nbytes() == 4


VALUES = [
    None,
    ..., True, False, 0, -1, 2**63, 10**300, -(10**300), 1.5, -0.0, math.inf, -math.inf, "", "text", "π ≈ 3",
    "\ud800", "\0", [], (), {}, [1, (2, [3, {}])], {"a": 1, "b": (3,)}, torch.float32, torch.bool,
    {"tensor": 1}, {"tuple": {"object": [{"opaque": 2}]}},
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda v: repr(v)[:30])
def test_a_value_arrives_as_it_was(value):
    came = across(value)
    assert type(came) is type(value)
    assert came == value
    assert repr(came) == repr(value)


def test_numbers_arrive_as_numbers():
    arrays = (
        numpy.arange(6).reshape(2, 3).T, numpy.float32([1.5]), numpy.array([True]), numpy.zeros((0, 2)),
        numpy.array(81), torch.tensor(81).numpy(),
    )  # fmt: skip
    for sent in arrays:
        came = across(sent)
        assert type(came) is numpy.ndarray
        assert (came.dtype, came.shape) == (sent.dtype, sent.shape)
        numpy.testing.assert_array_equal(came, sent)
    numbers = (numpy.float64(2.5), numpy.int8(-3), numpy.bool_(True), Fraction(-1, 4), numpy.float32("nan"))  # fmt: skip
    assert [repr(across(x)) for x in numbers] == ["2.5", "-3", "True", "-0.25", "nan"]
    assert across({1: "a", None: "b"}) == {"1": "a", "None": "b"}


def test_what_cannot_travel_says_what_it_was():
    sparse, meta = torch.eye(2).to_sparse(), torch.empty(2, device="meta")
    arrays = numpy.array(["a"]), numpy.zeros(1, numpy.uint16)
    cases = [object(), {1, 2}, 10**2000, 2j, b"bytes", sparse, meta, numpy.str_, *arrays]
    for case in cases:
        came = across(case)
        assert type(came) is not type(case)
        assert len(repr(came)) > 2, case
    assert type(across(sparse)).__name__ == "Tensor"
    assert "sparse" in repr(across(sparse))
    assert "(70000, 70000)" in repr(across(torch.ones(1).expand(70_000, 70_000)))
    plain, *_, last = across([torch.ones(1).expand(2**24)] * 30)
    assert plain.shape == (2**24,)
    assert "(16777216,)" in repr(last), "together they are too many numbers"


def test_what_is_too_deep_or_too_long_ends_in_words():
    endless = []
    endless.append(endless)
    shared = []
    for _ in range(40):
        shared = [shared, shared]
    for case in (endless, shared, [0] * 20_000, [0] * 10**6, dict.fromkeys(range(10**6))):
        assert "nested too deeply or too long" in repr(across(case))
    assert len(across("a" * 10**6)) == len(across({"a" * 10**6: 1}).popitem()[0]) == 1000
    with pytest.raises(Lost, match="4,000,000 bytes; 1,000,000 are allowed"):
        across(torch.zeros(10**6), most_bytes=10**6)


def test_every_error_that_python_knows_arrives_as_itself():
    types = {k: v for k, v in vars(builtins).items() if isinstance(v, type)}
    for kind in [k for k, v in types.items() if issubclass(v, Exception)]:
        error = raised(kind, "what it said", False)
        assert isinstance(error, getattr(builtins, kind)) or kind == "ExceptionGroup"
        assert str(error) == "what it said"
    assert isinstance(raised("SystemExit", "", True), SystemExit)
    for kind in ("KeyboardInterrupt", "GeneratorExit", "print", "no such", "__import__", "Warning"):
        assert isinstance(raised(kind, "no", False), Exception)
