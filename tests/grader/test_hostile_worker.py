"""Nothing that a hostile worker sends does harm: it is read, or refused, in little time and memory."""

import json
import random
import socket
import struct
import threading
import time
from contextlib import suppress

import pytest
import torch
from grader.attacks import WRONG, as_found
from support.grader.forked import ForkedBox, forked_session
from support.grader.hostile import peak_memory

from attncourse.grading import load
from attngrade.sandbox import calls, peer, values
from attngrade.sandbox.calls import Calls
from attngrade.sandbox.peer import Peer
from attngrade.sandbox.stand_ins import stand_in
from attngrade.sandbox.values import Memory, Packer
from attngrade.sandbox.wire import Lost, Pipe

MEBIBYTE = 2**20


def frame(header, data: bytes = b"") -> bytes:
    """The bytes of a message with this header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def body(tree) -> bytes:
    """A message whose tree is this, with 16 bytes of memory."""
    return frame([tree, [["w0", 16]]], bytes(16))


LEAVES = [None, True, False, 0, 1, -1, 7, 2**31, 2**63, 10**30, 0.5, 1e308, float("nan"), float("inf"), "", "w0", "g0",
          "bool", "float64", "1e99999999", "ask", "reply", "raised", "SystemExit", "call", "x" * 600]  # fmt: skip
KINDS = ["tuple", "dict", "dtype", "opaque", "array", "object", "tensor", "ellipsis", "", "__class__", "code"]  # fmt: skip
PARTS = {"mine": 0, "yours": 0, "kind": "function", "type": "f"}


def tree(r: random.Random, depth: int = 0):
    """A tree that is nearly right, or not at all."""
    how = r.random()
    if depth > 4 or how < 0.3:
        return r.choice(LEAVES)
    if how < 0.45:
        return [tree(r, depth + 1) for _ in range(r.randrange(4))]
    if how < 0.65:
        place = ["w0", r.choice(["bool", "float32", "int64"]), 0, [2, 2], [2, 1], r.random() < 0.5]
        for _ in range(r.randrange(3)):
            where = r.randrange(6)
            if isinstance(place[where], list) and r.random() < 0.7:
                place[where] = [r.choice([0, 1, 2, 2**39, 2**62, -1, 0.5, True]) for _ in range(r.randrange(18))]  # fmt: skip
            else:
                place[where] = tree(r, depth + 3)
        return {"tensor": place[: r.choice([6, 6, 6, 5])]}
    if how < 0.8:
        described = {k: r.choice([v, v, v, *LEAVES]) for k, v in PARTS.items() if r.random() < 0.7}
        kinds = ["function", "class", "module", "object", "none"]
        return {"object": described | {"kind": r.choice(kinds)}}
    if how < 0.9:
        return {r.choice(KINDS): [tree(r, depth + 1) for _ in range(r.randrange(4))]}
    return {r.choice(KINDS): tree(r, depth + 1) for _ in range(r.choice([1, 1, 0, 2]))}


def message(r: random.Random) -> bytes:
    """One message of a worker that wants to do harm."""
    how = r.random()
    if how < 0.1:
        return r.randbytes(r.randrange(200))
    if how < 0.3:
        return frame([tree(r), [[r.choice(LEAVES), r.choice(LEAVES)]]], bytes(16))
    kind = r.choice(["reply", "reply", "reply", "raised", "ask", "other"])
    rest = {"reply": [tree(r)], "raised": ["ValueError", "text", False]}.get(kind)
    rest = rest or [r.choice(["call", "vjp", "run"]), [tree(r) for _ in range(r.randrange(6))]]
    raw = bytearray(body(tree(r) if r.random() < 0.3 else [kind, *rest]))
    if how < 0.45:
        for _ in range(r.randrange(1, 4)):
            raw[r.randrange(len(raw))] = r.randrange(256)
    return bytes(raw[: r.randrange(len(raw))] if how > 0.97 else raw)


def received(raw: bytes):
    """What the judge makes of the bytes of a message."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sender = threading.Thread(target=sent, args=(ours, raw))
        sender.start()
        pipe = Pipe(theirs, MEBIBYTE)
        pipe.deadline = time.monotonic() + 60
        try:
            tree, arrived = pipe.receive()
        finally:
            theirs.shutdown(socket.SHUT_RD)
            sender.join()
    packer = Packer(Memory("g"), None, lambda x: x["mine"])
    packer.memory.update(arrived)
    return packer.unpack(tree)


def sent(sock: socket.socket, raw: bytes) -> None:
    """All of it, if somebody reads it."""
    with suppress(OSError):
        sock.sendall(raw)
        sock.shutdown(socket.SHUT_WR)


def test_thousands_of_hostile_messages_are_read_or_refused():
    r, read, before = random.Random(5), 0, peak_memory(reset=True)
    for _ in range(3000):
        with suppress(Lost):
            received(message(r))
            read += 1
    assert 300 < read < 2000
    assert peak_memory() - before < 100 * MEBIBYTE


def tensor(dtype, offset, shape, stride, name="w0"):
    return {"tensor": [name, dtype, offset, shape, stride, False]}


REFUSED = {
    "cut short": body(["reply", 1])[:-3],
    "a length without a message": struct.pack("<Q", 2**20),
    "no memory": frame([1]),
    "memory of less than nothing": frame([1, [["w0", -1], ["w1", 17]]], bytes(16)),
    "memory of half a byte": frame([1, [["w0", 0.5]]], bytes(16)),
    "very many names": frame([1, [[f"w{k}", 0] for k in range(100_000)]]),
    "a long header": frame(["x" * 2**22, []]),
    "nested too deeply": body([[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]),
    "a million nodes": body([0] * 10**6),
    "a long text": body("[" * 40_000),
    "a long number": body(10**4000),
    "an unknown kind": body({"code": 1}),
    "two kinds": body({"tuple": [], "dict": {}}),
    "keys that are no texts": body({"dict": [[2**61 - 1, 1], [0, 1]]}),
    "thirty tensors without end": body([tensor("bool", 0, [2**24], [0])] * 30),
    "one tensor without end": body(tensor("bool", 0, [2**13, 2**13], [0, 0])),
    "a tensor larger than its memory": body(tensor("float64", 0, [3], [1])),
    "a negative offset": body(tensor("bool", -8, [2], [1])),
    "half a shape": body(tensor("bool", 0, [0.5], [1])),
    "a shape of truths": body(tensor("bool", 0, [True], [True])),
    "seventeen axes": body(tensor("bool", 0, [1] * 17, [1] * 17)),
    "no dtype": body({"dtype": "nn"}),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    before = peak_memory(reset=True)
    with pytest.raises(Lost):
        received(REFUSED[name])
    assert peak_memory() - before < 200 * MEBIBYTE


# Of a conversation


@pytest.fixture
def talk():
    """A judge's `Peer` and the socket of its worker."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        pipe = Pipe(ours, MEBIBYTE)
        pipe.deadline = time.monotonic() + 60
        served = Calls(lambda: made.objects)
        made = Peer(pipe, "g", {"call": served.call, "vjp": served.vjp}, stand_in)
        yield made, theirs


@pytest.mark.parametrize("asks", [["call"] * 4, ["limit"], ["__class__"], ["get"], ["each"]])
def test_a_worker_may_ask_for_little(asks, talk, monkeypatch):
    monkeypatch.setattr(peer, "MOST_REQUESTS", 3)
    made, theirs = talk
    for name in asks:
        theirs.sendall(body(["ask", name, []]))
    with pytest.raises(Lost, match="it may not have"):
        made.listen()
    assert made.requests == len(asks)


def test_memory_that_is_kept_and_bytes_of_an_exercise_are_bounded(talk, monkeypatch):
    made, theirs = talk
    monkeypatch.setattr(values, "MOST_KEPT", 50)
    made.remember()
    for name in "abcd":
        theirs.sendall(frame([["reply", 1], [[f"w{name}", 16]]], bytes(16)))
    assert [made.ask("call") for _ in range(3)] == [1, 1, 1]
    with pytest.raises(Lost, match="more memory than it may"):
        made.ask("call")
    monkeypatch.setattr(peer, "MOST_BYTES", 100)
    made.begin()
    theirs.sendall(body(["reply", 1]) * 3)
    assert made.ask("call") == made.ask("call") == 1
    with pytest.raises(Lost, match="are allowed"):
        made.ask("call")


def test_graphs_of_the_judge_are_bounded(monkeypatch):
    monkeypatch.setattr(calls, "MOST_GRAPH_BYTES", 10_000)
    kept = Calls(lambda: [lambda x: x * 2])
    numbers = [kept.call(0, [torch.ones(500, requires_grad=True)], {}, None, True, 0)[1] for _ in range(9)]  # fmt: skip
    assert list(kept.graphs) == numbers[-2:]
    assert kept.kept_bytes() == 8000
    assert kept.vjp(numbers[-1], [torch.ones(500)])[0].sum() == 1000
    with pytest.raises(RuntimeError, match="too many others"):
        kept.vjp(numbers[0], [torch.ones(500)])


def test_a_worker_cannot_put_numbers_into_our_layers():
    layer, state = torch.nn.Linear(1, 1), torch.get_rng_state()
    lent = {"parameters": {"weight": torch.ones(1, 1)}, "buffers": {}, "training": {}}
    before = layer.weight.item()
    Calls(lambda: [layer]).call(0, [torch.ones(1)], {}, lent, True, 5)
    assert layer.weight.item() == before
    assert torch.equal(torch.get_rng_state(), state)


REPLIES = {  # to one question with two calls
    "one": [["reply", {"tuple": [1, [], []]}]],
    "three": [["reply", {"tuple": [1, [], []]}]] * 3,
    "no list": 7,
    "no message": [1, 2],
    "a question": [["ask", "call", []]] * 2,
    "no outcome": [["reply", 1]] * 2,
    "gradients that nobody asked for": [["reply", {"tuple": [1, [None], []]}]] * 2,
    "a change of nothing": [["reply", {"tuple": [1, [], [7]]}]] * 2,
    "a change of less": [["reply", {"tuple": [1, [], [-1]]}]] * 2,
    "half an error": [["reply", {"tuple": [1, ["ValueError", "x"], []]}]] * 2,
}


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_has_what_was_asked_for(name, talk):
    made, theirs = talk
    theirs.sendall(body(["reply", REPLIES[name]]))
    answer = stand_in(made, PARTS)
    with pytest.raises(Lost):
        [result() for result in answer.results([calls.Question(())] * 2)]


# A whole session with a worker that sends anything


def spoilt(r: random.Random, node):
    """A message with one of its nodes changed."""
    if r.random() < 0.2 or not node or not isinstance(node, (list, dict)):
        return tree(r)
    node = node.copy()
    key = r.choice(list(node)) if isinstance(node, dict) else r.randrange(len(node))
    node[key] = spoilt(r, node[key])
    return node


class SpoiltBox(ForkedBox):
    """What its worker says is changed on the way, every now and then."""

    random = None

    def __init__(self, *settings):
        super().__init__()
        receive = self.pipe.receive

        def changed():
            message, arrived = receive()
            is_spoilt = self.random.random() < 0.3
            return spoilt(self.random, message) if is_spoilt else message, arrived

        self.pipe.receive = changed


EXERCISES = "causal_mask", "scaled_dot_product_attention", "find_the_leak", "append", "train_reversal"  # fmt: skip
MEASURED = "def decode_step(query, key, value): return query, key @ query.mT"
ANSWERS = {name: WRONG[name] for name in EXERCISES} | {"decode_without_copy": MEASURED}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_session_survives_a_worker_that_sends_anything(name, monkeypatch):
    before, statuses = peak_memory(reset=True), set()
    monkeypatch.setattr(SpoiltBox, "random", random.Random(1))
    for _ in range(6):
        with forked_session(*as_found(name), ANSWERS[name], box=SpoiltBox, seconds=20) as session:
            verdict = session.judge(load(name), seed=2**127)
        assert verdict.points == 0, verdict
        assert verdict.findings or verdict.status in ("not attempted", "not found")
        statuses.add(verdict.status)
    assert "did not finish" in statuses
    assert peak_memory() - before < 300 * MEBIBYTE
