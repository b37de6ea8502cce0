"""Nothing that a hostile worker sends does harm: it is read, or refused, in little time and memory."""

import json
import math
import random
import socket
import struct
import threading
import time
from contextlib import suppress

import pytest
import torch
from safetensors.torch import save
from support.hostile_env import peak_memory

from attncourse.grading import load
from attngrade import Cell
from attngrade.far.peer import Peer
from attngrade.far.wire import MOST_NUMBERS, Lost, Memory, Packer, Pipe
from attngrade.session import Session

MEBIBYTE = 2**20


def frame(header, data=b"") -> bytes:
    """The bytes of a message with this header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def body(tree) -> bytes:
    """A message whose tree is this, about 16 bytes of memory."""
    return save({"w0": torch.zeros(16, dtype=torch.uint8)}, {"body": json.dumps(tree)})


LEAVES = [None, True, False, 0, 1, -1, 7, 2**31, 2**63, 10**30, 0.5, 1e308, math.nan, math.inf, "", "w0", "g0",
          "bool", "float64", "1e99999999", "ask", "reply", "raised", "SystemExit", "call", "x" * 600]  # fmt: skip
KINDS = ["tuple", "dict", "fraction", "dtype", "opaque", "array", "object", "tensor", "", "__class__", "code"]  # fmt: skip
PARTS = {"mine": 0, "yours": 0, "kind": "function", "type": "f", "calls": True}


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
    """One frame of a worker that wants to do harm, without its length."""
    how = r.random()
    if how < 0.1:
        return r.randbytes(r.randrange(200))
    if how < 0.2:
        return frame({"__metadata__": tree(r)} | {"w0": tree(r)}, r.randbytes(8))
    if how < 0.3:
        parts = {"dtype": r.choice(["U8", "F32", "X", 1]), "shape": tree(r), "data_offsets": tree(r)}  # fmt: skip
        return frame({"__metadata__": {"body": "[]"}, r.choice(["w0", "g0", ""]): parts}, bytes(8))
    kind = r.choice(["reply", "reply", "reply", "raised", "ask", "other"])
    rest = {"reply": [tree(r)], "raised": ["ValueError", "text", False]}.get(kind)
    rest = rest or [r.choice(["call", "vjp", "run"]), [tree(r) for _ in range(r.randrange(6))]]
    raw = bytearray(body(tree(r) if r.random() < 0.3 else [kind, *rest]))
    if how < 0.45:
        for _ in range(r.randrange(1, 4)):
            raw[r.randrange(len(raw))] = r.randrange(256)
    return bytes(raw[: r.randrange(len(raw))] if how > 0.97 else raw)


def received(raw: bytes, length: int | None = None):
    """What the grader makes of the bytes of a frame."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(struct.pack("<Q", len(raw) if length is None else length) + raw)
        ours.shutdown(socket.SHUT_WR)
        pipe = Pipe(theirs, MEBIBYTE)
        pipe.deadline = time.monotonic() + 10
        tree, arrived = pipe.receive()
    packer = Packer(Memory("g"), None, lambda x: x["mine"])
    packer.memory.update(arrived)
    return packer.unpack(tree)


def test_thousands_of_hostile_frames_are_read_or_refused():
    r, read, refused = random.Random(5), 0, 0
    before, start = peak_memory(reset=True), time.monotonic()
    for _ in range(6000):
        raw = message(r)
        try:
            received(raw)
            read += 1
        except Lost:
            refused += 1
    assert read > 500
    assert refused > 2000
    assert peak_memory() - before < 100 * MEBIBYTE
    assert time.monotonic() - start < 60


DEEP = "[" * 50_000 + "]" * 50_000
ENTRY = {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}
REFUSED = {
    "nothing": (b"", None),
    "cut short": (body(["reply", 1])[:-3], None),
    "a length without a message": (b"", 2**20),
    "a length of 2**63": (b"", 2**63),
    "noise": (random.Random(1).randbytes(5000), None),
    "no JSON": (frame(b"{]"), None),
    "no body": (frame({"__metadata__": {}}), None),
    "nested deeply": (frame({"__metadata__": {"body": DEEP}}), None),
    "text that is no JSON": (frame({"__metadata__": {"body": "{]"}}), None),
    "memory of floats": (save({"w0": torch.ones(2)}, {"body": "[]"}), None),
    "one name twice": (frame(f'{{"w0": {json.dumps(ENTRY)}, "w0": {json.dumps(ENTRY)}, "__metadata__": {{"body": "[]"}}}}'.encode(), bytes(3)), None),
    "an unknown kind": (body({"code": 1}), None),
    "two kinds": (body({"tuple": [], "dict": []}), None),
    "a tensor larger than its memory": (body({"tensor": ["w0", "float64", 0, [3], [1], False]}), None),
    "a negative stride": (body({"tensor": ["w0", "bool", 3, [2], [-1], False]}), None),
    "a negative offset": (body({"tensor": ["w0", "bool", -8, [2], [1], False]}), None),
    "half a shape": (body({"tensor": ["w0", "bool", 0, [0.5], [1], False]}), None),
    "a shape of truths": (body({"tensor": ["w0", "bool", 0, [True], [True], False]}), None),
    "unknown memory": (body({"tensor": ["w7", "bool", 0, [1], [1], False]}), None),
    "an unknown dtype": (body({"dtype": "object"}), None),
    "a fraction of 0": (body({"fraction": [1, 0]}), None),
    "a fraction that takes minutes": (body({"fraction": ["1e999999999"]}), None),
    "a key that is no key": (body({"dict": [[[], 1]]}), None),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    start = time.monotonic()
    with pytest.raises(Lost):
        received(*REFUSED[name])
    assert time.monotonic() - start < 5


def test_a_small_message_with_a_large_header_is_refused():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sender = threading.Thread(target=Pipe(ours, 0).send, args=(["x" * 100] * 50_000, {}))
        sender.start()
        with pytest.raises(Lost, match="nested too deeply or too long"):
            Pipe(theirs, 2**28).receive()
        sender.join()


@pytest.mark.parametrize("asks", [["call"] * 4, ["limit"], ["__class__"]])
def test_a_worker_may_ask_for_little(asks, monkeypatch):
    monkeypatch.setattr("attngrade.far.peer.MOST_REQUESTS", 3)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for name in asks:
            raw = body(["ask", name, []])
            theirs.sendall(struct.pack("<Q", len(raw)) + raw)
        served, pipe = [], Pipe(ours, MEBIBYTE)
        pipe.deadline = time.monotonic() + 5
        peer = Peer(pipe, "g", {"call": lambda: served.append(1)}, None)
        with pytest.raises(Lost, match="it may not have"):
            peer.listen()
    assert len(served) == len(asks) - 1


def test_a_tensor_without_end_is_told_and_not_made():
    came = received(body({"tensor": ["w0", "bool", 0, [2**13, 2**13], [0, 0], False]}))
    assert not isinstance(came, torch.Tensor)
    assert MOST_NUMBERS < 2**26


# A whole session with a worker that sends anything


class HostileBox:
    """Instead of a sandbox: a worker that answers everything with whatever comes to its mind."""

    def __init__(self, seed: int):
        self.random, self.workers = random.Random(seed), []

    def open(self) -> Pipe:
        ours, theirs = socket.socketpair()
        self.workers.append(threading.Thread(target=self.work, args=(theirs,)))
        self.workers[-1].start()
        return Pipe(ours, MEBIBYTE)

    def work(self, sock: socket.socket) -> None:
        pipe = Pipe(sock, 2**28)
        with sock, suppress(Lost, OSError):
            while True:
                (_, asked, *_), _ = pipe.receive()
                raw = body(["reply", self.reply(asked)])
                if asked != "run" and self.random.random() < 0.1:
                    raw = message(self.random)
                sock.sendall(struct.pack("<Q", len(raw)) + raw)

    def reply(self, asked: str):
        """Nearly what an honest worker says to this."""
        r = self.random
        if asked == "begin":
            kind = r.choice(["function", "function", "class", "module", "object"])
            answer = {"object": PARTS | {"kind": kind}} if r.random() < 0.8 else value_of(r)
            return {"tuple": [True, r.random() < 0.3, answer]}
        if asked == "module":
            weights = [["weight", value_of(r)], ["a.b", value_of(r)]][: r.randrange(3)]
            modes = [["", True], ["a", r.choice(LEAVES)]]
            state = {"parameters": weights, "buffers": [], "training": modes}
            return {"dict": [[k, {"dict": v}] for k, v in state.items()]}
        if asked == "call":
            return self.told_of_call()
        if asked == "measure":
            return {"tuple": [r.choice([0, 2**62, -1]), r.choice([0, 2**62]), "no"]}
        if asked == "run":
            failed = [[r.choice([0, -1, 2**70, 0.5]), r.choice(["KeyError", "\0", 7]), "no", True]]
            return {"tuple": [r.choice([[], [], failed, [7], 7]), r.choice([[], ["x"], tree(r)])]}
        if asked == "each":
            replies = [self.reply_to_call() for _ in range(r.choice([1, 8, 8, 8, 9]))]
            return r.choice([replies, replies, replies, tree(r)])
        return r.choice([value_of(r), [value_of(r)]])

    def told_of_call(self):
        r = self.random
        number = r.choice([None, None, 0, -1, "x"])
        changed = [[r.choice([0, 1, 9]), value_of(r)]][: r.random() < 0.2]
        modes = r.choice([None, {"dict": []}])
        return {"tuple": [value_of(r), {"dict": changed}, number, modes, r.choice([[], ["no"]])]}

    def reply_to_call(self):
        r = self.random
        if r.random() < 0.8:
            return ["reply", self.told_of_call()]
        kind = r.choice(["ValueError", "NotImplementedError", "SystemExit", "x" * 99, "", 7])
        return r.choice(
            [["raised", kind, "no", r.choice([True, False, 0])], ["ask", "call", []], tree(r)]
        )

    def end(self, pipe: Pipe) -> int:
        pipe.sock.close()
        self.workers.pop().join(20)
        return 0

    def limit(self, more: int) -> int:
        return 0


def value_of(r: random.Random):
    """A tree, more often of tensors than `tree`."""
    if r.random() < 0.3:
        return tree(r)
    plain = {"tensor": ["w0", r.choice(["bool", "float32"]), 0, [2, 2], [2, 1], r.random() < 0.5]}
    return plain if r.random() < 0.6 else {"tuple": [plain, plain]}


EXERCISES = ["causal_mask", "score_std", "scaled_dot_product_attention", "multi_head_attention",
             "append", "find_the_leak", "decode_without_copy", "train_reversal"]  # fmt: skip


@pytest.mark.parametrize("name", EXERCISES)
def test_a_session_survives_a_worker_that_sends_anything(name):
    before, start = peak_memory(reset=True), time.monotonic()
    statuses = set()
    for k in range(40):
        box = HostileBox(k)
        with Session(box, [Cell(1, "")], 5) as session:
            verdict = session.judge(load(name), seed=1)
        assert verdict.points == 0, (k, verdict)
        assert verdict.findings
        assert not any(worker.is_alive() for worker in box.workers)
        statuses.add(verdict.status)
    assert {"failed", "did not finish"} <= statuses
    assert peak_memory() - before < 300 * MEBIBYTE
    assert time.monotonic() - start < 60
