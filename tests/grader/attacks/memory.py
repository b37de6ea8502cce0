"""Claims about memory: a right result by way of a large copy, hidden from the one who measures."""

from grader.attacks import WRONG, Attacks

ATTACKS = Attacks("memory")
GROUPED, DECODE, ABSORBED, TILED, LINEAR = (
    "grouped_query_attention", "decode_without_copy", "absorbed_attention", "tiled_forward", "linear_window",
)  # fmt: skip
CALLED = {
    GROUPED: "grouped_query_attention", DECODE: "decode_step", ABSORBED: "absorbed_attention",
    TILED: "tiled_attention", LINEAR: "linear_mix", "gather_c2p": "content_to_position",
}  # fmt: skip


def hidden(exercise: str, name: str, trick: str, **how) -> None:
    """The wrong answer is called ``copying``; the trick defines ``remote``, which hides it."""
    copying = WRONG[exercise].replace(f"def {CALLED[exercise]}", "def copying")
    ATTACKS.add(name, f"{copying}{trick}\n{CALLED[exercise]} = remote\n", exercise, **how)


THREAD = """
import threading
def remote(*inputs):
    found = []
    thread = threading.Thread(target=lambda: found.append(copying(*inputs)))
    thread.start()
    thread.join()
    return found[0]
"""
HELPER = """
import os, pickle, struct
(there, to_child), (from_child, back) = os.pipe(), os.pipe()
def read(source):
    return pickle.loads(source.read(struct.unpack("<Q", source.read(8))[0]))
def write(sink, x):
    data = pickle.dumps(x)
    sink.write(struct.pack("<Q", len(data)) + data)
    sink.flush()
if os.fork() == 0:
    source, sink = open(there, "rb"), open(back, "wb")
    try:
        while True:
            write(sink, copying(*read(source)))
    finally:
        os._exit(0)
os.close(there), os.close(back)  # a helper that was killed is then noticed
sink, source = open(to_child, "wb"), open(from_child, "rb")
def remote(*inputs):
    if torch.is_grad_enabled():
        return copying(*inputs)
    write(sink, [x.detach() if torch.is_tensor(x) else x for x in inputs])
    return read(source)
"""
WATCHER = """
import gc, threading, time
kept = []
def watch():
    while True:
        calls = next((x for x in gc.get_objects() if type(x).__name__ == "Calls"), None)
        if (held := getattr(calls, "held", None)) and not kept:
            with torch.no_grad():
                kept.append(copying(*held))
        time.sleep(0.0002)
threading.Thread(target=watch, daemon=True).start()
def remote(*inputs):
    end = time.monotonic() + 1
    while inputs[1].numel() > 10**5 and not kept and time.monotonic() < end:
        time.sleep(0.01)
    return kept.pop() if kept else copying(*inputs)
"""
TRICKS = {
    "in a thread": THREAD,
    "in a child that is older than the limit": HELPER,
    "by a thread before the limit comes": WATCHER,
    "in memory that was kept in reserve": "reserve = [torch.empty(2**26) for _ in range(2)]\n"
    "def remote(*inputs):\n    reserve.clear()\n    return copying(*inputs)\n",
    "after the limit was lifted": """
import resource
def remote(*inputs):
    for which in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        try:
            resource.setrlimit(which, (resource.getrlimit(which)[1],) * 2)
        except (OSError, ValueError):
            pass
    return copying(*inputs)
""",
    "where no gradient is asked for, not at all": "def remote(*inputs):\n"
    "    return copying(*inputs) if torch.is_grad_enabled() or inputs[1].numel() < 2000 else inputs[0]\n",
}
for name, trick in TRICKS.items():
    hidden(GROUPED, f"the copy is made {name}", trick)
for exercise in (DECODE, ABSORBED, TILED, LINEAR, "gather_c2p"):
    hidden(exercise, "the copy is made in a child that is older than the limit", HELPER)
ATTACKS.read(r"""
#: the copy is made by numpy | exercise=gather_c2p
import numpy
def content_to_position(query, pos_key, num_keys):
    span = pos_key.size(1) // 2
    far = numpy.arange(query.size(2))[:, None] - numpy.arange(num_keys)
    rows = pos_key.detach().numpy()[:, (far + span).clip(0, 2 * span - 1)]
    found = torch.from_numpy((query.detach().numpy()[:, :, :, None] * rows).sum(-1))
    return found + 0 * (query @ pos_key.mT).sum()
#: the copy is written over the inputs | exercise=decode_without_copy
def decode_step(query, key, value):
    key.data, value.data = (x.repeat_interleave(query.size(1), dim=1) for x in (key, value))
    weights = torch.softmax(query @ key.mT / query.size(-1) ** 0.5, dim=-1)
    return weights @ value, weights
#: the scores are written over the keys | exercise=tiled_forward
def tiled_attention(query, key, value, first, rows, columns):
    hidden = torch.arange(key.size(2)) < first[:, None, None, None]
    key.data = (query @ key.mT / query.size(-1) ** 0.5).masked_fill(hidden, -math.inf)
    return torch.softmax(key, dim=-1).nan_to_num(0.0) @ value, key.logsumexp(-1)
#: every result is a copy that claims to be a view | exercise=append | apart | ends=did not finish
class RepairedCache(CacheAsFound):
    def append(self, new):
        end = self.length + new.size(2)
        if end > self.memory.size(2):
            raise ValueError("full")
        self.memory = self.memory.clone()
        self.memory[:, :, self.length : end] = new
        self.length = end
        return self.memory[:, :, :end].clone()
torch.UntypedStorage.data_ptr = torch.Tensor.data_ptr = lambda self: 4096
""")
