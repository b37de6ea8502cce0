"""Runs a Gluon kernel for Hopper on the CPU: no card, no compiler, every group of warps a thread of its own.

It is as unkind as the card may be. A copy by the tensor memory unit first fills its target with NaN and writes the
numbers some time later. A product of matrices reads its operands only when it is waited for, so a tile that is given
back too early is seen changed. A store to global memory reads late as well. Barriers count arrivals, bytes and
phases; a wait that takes too long is an error and says which phase it is in. A debugger can step through all of it;
`gluon_names` loads the kernel.
"""

import random
import threading
import time
from types import SimpleNamespace

import torch

PATIENCE = 20.0  # seconds until a wait is a deadlock
LOCAL = threading.local()  # what a group of warps has under way


class Deadlock(RuntimeError):
    """A barrier that does not open."""


class Run:
    """What has failed, so that no thread waits for another in vain; and chance, which is the same every time."""

    def __init__(self):
        self.problems, self.random = [], random.Random(0)


RUN = Run()


class Barrier:
    """Opens when all have arrived and all bytes have landed; then the next phase begins."""

    def __init__(self):
        self.count = self.pending = self.bytes = self.phase = 0
        self.changed = threading.Condition()

    def init(self, count):
        self.count = self.pending = count

    def arrive(self, count=1, nbytes=0):
        """Some have arrived, and expect so many bytes more."""
        with self.changed:
            assert self.pending >= count, f"more arrivals than {self.count} in one phase"
            self.bytes += nbytes
            self.pending -= count
            self.open()

    def land(self, nbytes):
        with self.changed:
            self.bytes -= nbytes
            assert self.bytes >= 0, "bytes have landed that were not expected"
            self.open()

    def open(self):
        if self.pending == self.bytes == 0:
            self.phase += 1
            self.pending = self.count
            self.changed.notify_all()

    def wait(self, parity):
        """Phases count from 0; this passes if the phase that is under way has another parity."""
        end = time.monotonic() + PATIENCE
        with self.changed:
            while (self.phase & 1) == (int(parity) & 1):
                if RUN.problems or (not self.changed.wait(0.05) and time.monotonic() > end):
                    state = (
                        f"phase {self.phase}, {self.pending} to arrive, {self.bytes} bytes to land"
                    )
                    raise Deadlock(f"waits for parity {parity}: {state}")


class Barriers:
    """An array of barriers in shared memory."""

    def __init__(self, count):
        self.bars, self.shape = [Barrier() for _ in range(count)], [count]

    def index(self, i):
        assert 0 <= int(i) < len(self.bars)
        return self.bars[int(i)]


class Memory:
    """A view of shared memory."""

    def __init__(self, data):
        self.data, self.shape, self.dtype = data, list(data.shape), data.dtype

    def index(self, i):
        assert 0 <= int(i) < self.shape[0]
        return Memory(self.data[int(i)])

    def reshape(self, shape):
        return Memory(self.data.view(list(shape)))

    def permute(self, order):
        return Memory(self.data.permute(*order))

    def store(self, value):
        assert value.dtype == self.dtype
        assert list(value.shape) == self.shape
        self.data.copy_(value)
        LOCAL.unfenced = True


class Tensor(torch.Tensor):
    """A torch tensor that can be asked for its layout, of which there is none."""

    @staticmethod
    def __new__(cls, x):
        return torch.Tensor._make_subclass(cls, x.detach())

    def __getitem__(self, key):
        return Tensor(torch.Tensor.__getitem__(self.as_subclass(torch.Tensor), key))

    @property
    def type(self):
        return SimpleNamespace(layout=None)


def wrap(x):
    return Tensor(x) if isinstance(x, torch.Tensor) and not isinstance(x, Tensor) else x


class Product:
    """a b + sum, under way; its operands may still change."""

    type = SimpleNamespace(layout=None)

    def __init__(self, a, b, total, adds):
        self.a, self.b, self.total, self.adds, self.value = a, b, total, adds, None
        LOCAL.flight.append(self)

    def finish(self):
        a = self.a.data if isinstance(self.a, Memory) else torch.as_tensor(self.a)
        product = torch.Tensor.float(a) @ self.b.data.float()
        total = self.total.value if isinstance(self.total, Product) else self.total
        self.value = Tensor(product + torch.as_tensor(total) if self.adds else product)


def start_product(a, b, acc, *, use_acc=True, is_async=False):
    assert isinstance(b, Memory), "the right operand must be in shared memory"
    assert is_async
    return Product(a, b, acc, use_acc)


def wait_for_products(num_outstanding=0, deps=()):
    """Until no more than so many are under way, the operands must stay as they are."""
    if len(LOCAL.flight) > num_outstanding:
        time.sleep(RUN.random.choice((0, 0, 0.0002, 0.003)))
    while len(LOCAL.flight) > num_outstanding:
        LOCAL.flight.pop(0).finish()
    found = [x.value if isinstance(x, Product) else x for x in deps]
    assert all(x is not None for x in found), "a result is used that the wait does not wait for"
    return found[0] if len(found) == 1 else tuple(found)


class Descriptor:
    """A tensor in global memory, moved in blocks."""

    def __init__(self, base, block_shape):
        strides = base.stride()
        assert base.data_ptr() % 16 == 0
        assert strides[-1] == 1
        assert all(s * base.element_size() % 16 == 0 for s in strides[:-1]), "in steps of 16 bytes"
        assert all(b & (b - 1) == 0 for b in block_shape), "blocks are powers of 2"
        self.base, self.dtype, self.layout = base, base.dtype, None
        nbytes = base.element_size() * torch.Size(block_shape).numel()
        self.block_type = SimpleNamespace(nbytes=nbytes, shape=list(block_shape))

    @classmethod
    def from_tensor(cls, x, block_shape, layout=None):
        return cls(x, block_shape)

    def overlap(self, corner):
        """Where a block lies in the tensor, and which part of the block that is; None if it lies outside."""
        there, here = [], []
        for c, b, size in zip(
            map(int, corner), self.block_type.shape, self.base.shape, strict=True
        ):
            low, high = max(c, 0), min(c + b, size)
            if high <= low:
                return None
            there.append(slice(low, high))
            here.append(slice(low - c, high - c))
        return tuple(there), tuple(here)


def later(job) -> threading.Thread:
    """Do it some time from now."""
    delay = RUN.random.choice((0, 0, 0.0005, 0.002, 0.005))

    def go():
        time.sleep(delay)
        attempt(job)

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    return thread


def attempt(function, *arguments):
    """Call it in a thread, where an exception would be lost."""
    try:
        function(*arguments)
    except Exception as problem:
        RUN.problems.append(problem)


def copy_in(matrices, corner, barrier, target):
    """Into shared memory; what lies outside is 0."""
    assert target.shape == matrices.block_type.shape
    target.data.fill_(float("nan"))

    def land():
        block = torch.zeros(target.shape, dtype=matrices.dtype)
        if found := matrices.overlap(corner):
            there, here = found
            block[here] = matrices.base[there]
        target.data.copy_(block)
        barrier.land(matrices.block_type.nbytes)

    later(land)


def copy_out(matrices, corner, source):
    """From shared memory; what lies outside is not written."""
    assert not LOCAL.unfenced, "shared memory was written, and fence_async_shared did not follow"

    def land():
        if found := matrices.overlap(corner):
            there, here = found
            matrices.base[there] = source.data[here]

    LOCAL.stores.append(later(land))


def wait_for_stores(pendings):
    while len(LOCAL.stores) > pendings:
        LOCAL.stores.pop(0).join()


def fence():
    LOCAL.unfenced = False


def begin(program, programs):
    """What a thread knows when it starts."""
    LOCAL.program, LOCAL.programs = program, programs
    LOCAL.flight, LOCAL.stores, LOCAL.unfenced = [], [], False


def specialize(functions_and_arguments, warps, registers):
    """Each function in a thread of its own; the first that fails is the one to hear of."""
    assert len(functions_and_arguments) == len(warps) + 1 == len(registers) + 1
    program, programs = LOCAL.program, LOCAL.programs

    def work(function, arguments):
        begin(program, programs)
        function(*arguments)
        assert not LOCAL.flight, "products are still under way"
        assert not LOCAL.stores, "stores are still under way"

    threads = [
        threading.Thread(target=attempt, args=(work, *x), daemon=True)
        for x in functions_and_arguments
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10 * PATIENCE)
    if RUN.problems:
        raise next((x for x in RUN.problems if not isinstance(x, Deadlock)), RUN.problems[0])


class Kernel:
    """A function that can be launched: its programs run one after the other."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *args):
        return self.function(*args)

    def __getitem__(self, grid):
        def launch(*args, num_warps, maxnreg, **constants):
            args = [Pointer(x) if isinstance(x, torch.Tensor) else x for x in args]
            for program in range(grid[0]):
                RUN.problems.clear()
                begin(program, grid[0])
                self.function(*args, **constants)

        return launch


class Pointer:
    """An address in global memory, or many."""

    def __init__(self, base, index=0):
        self.base, self.index = base, index

    def __add__(self, more):
        return Pointer(self.base, self.index + more)


def store(pointer, value, mask):
    mask = torch.as_tensor(mask)
    pointer.base.view(-1)[torch.as_tensor(pointer.index)[mask].long()] = torch.as_tensor(value)[
        mask
    ]
