"""Claims about memory: a right result by way of a large copy, hidden from the one who measures."""

from attacks import WRONG, Attacks

ATTACKS = Attacks("memory")
DECODE, GROUPED, ABSORBED = (
    "05.decode_without_copy",
    "06.grouped_query_attention",
    "07.absorbed_attention",
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
# Copying where nobody looks.
for exercise, name in ((DECODE, "decode_step"), (GROUPED, "grouped_query_attention"), (ABSORBED, "absorbed_attention")):  # fmt: skip
    ATTACKS.instead(
        exercise,
        "the copy is made by numpy",
        WRONG[exercise].replace(f"def {name}", "def copying")
        + f"""
import numpy

def {name}(*inputs):
    large = [numpy.repeat(x.detach().numpy(), 8, axis=1) for x in inputs]
    with torch.no_grad():
        return copying(*inputs)
""",
    )
    ATTACKS.instead(
        exercise,
        "the copy is made in a thread",
        WRONG[exercise].replace(f"def {name}", "def copying")
        + f"""
import threading

def {name}(*inputs):
    found = []
    thread = threading.Thread(target=lambda: found.append(copying(*inputs)))
    thread.start()
    thread.join()
    return found[0]
""",
    )
    ATTACKS.instead(
        exercise,
        "the copy is made behind the back of torch",
        WRONG[exercise].replace(f"def {name}", "def copying")
        + f"""
def {name}(*inputs):
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
        return copying(*inputs)
""",
    )
    ATTACKS.instead(
        exercise,
        "the copy is made in a child",
        WRONG[exercise].replace(f"def {name}", "def copying")
        + f"""
import multiprocessing

def task(pipe, inputs):
    pipe.send(copying(*inputs))

def {name}(*inputs):
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=task, args=(theirs, [x.detach() for x in inputs]))
    child.start()
    found = ours.recv()
    child.join()
    return found
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
    "04.append",
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
    "04.append",
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
