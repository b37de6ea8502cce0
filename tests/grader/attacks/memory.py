"""Claims about memory: a right result by way of a large copy, hidden from the one who measures."""

from grader.attacks import WRONG, Attacks

ATTACKS = Attacks("memory")
DECODE, GROUPED, ABSORBED = (
    "decode_without_copy",
    "grouped_query_attention",
    "absorbed_attention",
)

# Not computing where it is measured: the sizes are published.
ATTACKS.instead(
    DECODE,
    "nothing is computed the second time",
    WRONG[DECODE]
    + """
copying, seen = decode_step, []

def decode_step(query, key, value):
    if key.shape in seen and key.size(2) == 512:
        return query
    seen.append(key.shape)
    return copying(query, key, value)
""",
)
ATTACKS.instead(
    GROUPED,
    "nothing is computed in the published size",
    WRONG[GROUPED]
    + """
copying = grouped_query_attention

def grouped_query_attention(query, key, value):
    if key.size(2) == 300:
        return query
    return copying(query, key, value)
""",
)
ATTACKS.instead(
    ABSORBED,
    "nothing is computed in the published size",
    WRONG[ABSORBED]
    + """
copying = absorbed_attention

def absorbed_attention(query, q_rotary, latent, k_rotary, w_k, w_v):
    if latent.size(1) == 200:
        return None
    return copying(query, q_rotary, latent, k_rotary, w_k, w_v)
""",
)
ATTACKS.instead(
    GROUPED,
    "nothing is computed where there are many keys",
    WRONG[GROUPED]
    + """
copying = grouped_query_attention

def grouped_query_attention(query, key, value):
    if key.size(2) > 50:
        return torch.zeros(*query.shape[:3], value.size(-1))
    return copying(query, key, value)
""",
)
ATTACKS.instead(
    ABSORBED,
    "nothing is computed where no gradient is asked for",
    WRONG[ABSORBED]
    + """
copying = absorbed_attention

def absorbed_attention(query, q_rotary, latent, k_rotary, w_k, w_v):
    if not torch.is_grad_enabled():
        return None
    return copying(query, q_rotary, latent, k_rotary, w_k, w_v)
""",
)
ATTACKS.instead(
    GROUPED,
    "the copy is made by numpy",
    WRONG[GROUPED].replace("def grouped", "def copying_grouped")
    + """
import numpy

def grouped_query_attention(query, key, value):
    if torch.is_grad_enabled():
        return copying_grouped_query_attention(query, key, value)
    q, k, v = (x.numpy() for x in (query, key, value))
    k, v = (numpy.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = q @ k.swapaxes(-2, -1) / q.shape[-1] ** 0.5
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    return torch.from_numpy(weights / weights.sum(-1, keepdims=True) @ v)
""",
)
ATTACKS.instead(
    GROUPED,
    "the copy is compiled",
    """
@torch.jit.script
def copying(query, key, value):
    key = key.repeat_interleave(query.size(1) // key.size(1), 1)
    value = value.repeat_interleave(query.size(1) // value.size(1), 1)
    weights = torch.softmax(query @ key.transpose(-2, -1) / query.size(-1) ** 0.5, dim=-1)
    return weights @ value

def grouped_query_attention(query, key, value):
    return copying(query, key, value)
""",
)
ATTACKS.instead(
    GROUPED,
    "the copy lies in memory that was taken before",
    """
store = [torch.empty(2 * 12 * 300 * 20), torch.empty(2 * 12 * 300 * 16)]

def grouped_query_attention(query, key, value):
    copies = []
    for x, kept in zip((key, value), store):
        shape = (*query.shape[:2], *x.shape[2:])
        size = math.prod(shape)
        out = kept[:size].view(shape) if size <= kept.numel() and not x.requires_grad else None
        indices = torch.arange(query.size(1)) // (query.size(1) // x.size(1))
        copies.append(torch.index_select(x, 1, indices, out=out) if out is not None else x[:, indices])
    scores = query @ copies[0].transpose(-2, -1) / query.size(-1) ** 0.5
    return torch.softmax(scores, dim=-1) @ copies[1]
""",
)
ATTACKS.instead(
    DECODE,
    "the copy is written over the inputs",
    """
def decode_step(query, key, value):
    key.data = key.repeat_interleave(query.size(1), dim=1)
    value.data = value.repeat_interleave(query.size(1), dim=1)
    weights = torch.softmax(query @ key.transpose(-2, -1) / query.size(-1) ** 0.5, dim=-1)
    return weights @ value
""",
)
# Lies about whose memory it is.
ATTACKS.instead(
    "append",
    "every result is a copy that claims to be a view",
    """
class RepairedCache(CacheAsFound):
    def append(self, new):
        end = self.length + new.size(2)
        if end > self.memory.size(2):
            raise ValueError("full")
        self.memory = self.memory.clone()
        self.memory[:, :, self.length : end] = new
        self.length = end
        return self.memory[:, :, :end].clone()

torch.UntypedStorage.data_ptr = lambda self: 4096
torch.Tensor.data_ptr = lambda self: 4096
""",
)
ATTACKS.instead(
    "append",
    "the results live in the memory of the one who asks",
    """
class RepairedCache(CacheAsFound):
    def append(self, new):
        if self.length + new.size(2) > 7:
            raise ValueError("full")
        self.kept = [*getattr(self, "kept", []), new]
        self.length += new.size(2)
        return torch.cat(self.kept, dim=2)
""",
)
THREAD = """
import threading

straight = copying

def copying(*inputs):
    found = []
    thread = threading.Thread(target=lambda: found.append(straight(*inputs)))
    thread.start()
    thread.join()
    return found[0]
"""
STRAIGHT = "remote = copying\n"
BEHIND = """
def remote(*inputs):
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
        return copying(*inputs)
"""
CHILD = """
import os, pickle

def remote(*inputs):
    if torch.is_grad_enabled():
        return copying(*inputs)
    there, back = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(back, pickle.dumps(straight(*inputs)))
        finally:
            os._exit(0)
    os.close(back)
    with open(there, "rb") as source:
        return pickle.loads(source.read())
"""
HELPER = """
import os, pickle, struct

def serve(source, sink):
    while True:
        size = struct.unpack("<Q", source.read(8))[0]
        found = pickle.dumps(straight(*pickle.loads(source.read(size))))
        sink.write(struct.pack("<Q", len(found)) + found)
        sink.flush()

(there, to_child), (from_child, back) = os.pipe(), os.pipe()
if os.fork() == 0:
    try:
        serve(open(there, "rb"), open(back, "wb"))
    finally:
        os._exit(0)
os.close(there), os.close(back)  # a helper that was killed is then noticed
sink, source = open(to_child, "wb"), open(from_child, "rb")

def remote(*inputs):
    if torch.is_grad_enabled():
        return copying(*inputs)
    data = pickle.dumps([x.detach() for x in inputs])
    sink.write(struct.pack("<Q", len(data)) + data)
    sink.flush()
    return pickle.loads(source.read(struct.unpack("<Q", source.read(8))[0]))
"""
WATCHER = """
import gc, threading, time

kept = []

def watch():
    calls = None
    while True:
        calls = calls or next((x for x in gc.get_objects() if type(x).__name__ == "Calls"), None)
        held = getattr(calls, "held", None)
        if held and not kept:
            with torch.no_grad():
                kept.append(straight(*held))
        time.sleep(0.0002)

threading.Thread(target=watch, daemon=True).start()

def remote(*inputs):
    end = time.monotonic() + 1
    while inputs[1].numel() > 10**5 and not kept and time.monotonic() < end:
        time.sleep(0.01)
    return kept.pop() if kept else copying(*inputs)
"""
RESERVE = """
reserve = [torch.empty(2**26) for _ in range(2)]

def remote(*inputs):
    reserve.clear()
    return copying(*inputs)
"""
# Copying where nobody looks, and where the limit does not reach.
HIDDEN = {
    "the copy is made in a thread": STRAIGHT,
    "the copy is made behind the back of torch": BEHIND,
    "the copy is made in a child": CHILD,
    "the copy is made in a child that is older than the limit": HELPER,
    "the copy is made by a thread before the limit comes": WATCHER,
    "the copy is made in memory that was kept in reserve": RESERVE,
}
for exercise, name in (
    (GROUPED, "grouped_query_attention"),
    (ABSORBED, "absorbed_attention"),
    (DECODE, "decode_step"),
):
    source = WRONG[exercise].replace(f"def {name}", "def copying")
    for trick, more in HIDDEN.items():
        # what is expected of the third takes the grader some seconds each time
        if exercise != DECODE or more in (STRAIGHT, HELPER):
            ATTACKS.instead(exercise, trick, f"{source}{THREAD}{more}\n{name} = remote\n")
ATTACKS.instead(
    GROUPED,
    "copies of a few heads at a time, in a thread",
    f"""
def copying(query, key, value):
    outputs, r = [], query.size(1) // key.size(1)
    for first in range(0, query.size(1), 8):
        heads = torch.arange(first, min(first + 8, query.size(1)))
        k, v = key[:, heads // r], value[:, heads // r]
        scores = query[:, heads] @ k.transpose(-2, -1) / query.size(-1) ** 0.5
        outputs.append(torch.softmax(scores, dim=-1) @ v)
    return torch.cat(outputs, dim=1)
{THREAD}
grouped_query_attention = copying
""",
)
