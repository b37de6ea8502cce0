"""Local proxies for functions, classes and layers that live in the sandboxed worker.

A function is a `StandIn`. A layer is a real `torch.nn.Module` with local parameters, whose `forward` runs in the
worker.
"""

from typing import Any

from torch import Tensor, nn

from attncourse.grading.allocations import Allocations
from attncourse.grading.answer import RemoteLayer
from attngrade.sandbox.calls import StandIn, allocations, call, state_of
from attngrade.sandbox.peer import Far, Peer
from attngrade.sandbox.takes import signature_of
from attngrade.sandbox.values import named
from attngrade.sandbox.wire import expect

STATE = {"parameters": Tensor, "buffers": Tensor, "training": bool}  # of a layer, by name


class FarClass(type):
    """Proxy of a class; a call makes an object in the worker."""

    def __call__(cls, *args, **kwargs):
        return call(cls.peer, cls.far_id, args, kwargs)


class FarModule(nn.Module, RemoteLayer):
    """Proxy of a layer: parameters, buffers and modes are local, `forward` runs in the worker."""

    def __init__(self, peer: Peer, far_id: int):
        super().__init__()
        self.peer, self.far_id = peer, far_id
        state = peer.ask("module", far_id)
        expect(isinstance(state, dict) and state.keys() == STATE.keys())
        for part, kind in STATE.items():
            named = state[part]
            expect(isinstance(named, dict) and all(isinstance(x, kind) for x in named.values()))
        for name, x in state["training"].items():
            if name:
                put(self, "add_module", name, nn.Module())
            self.get_submodule(name).training = x
        for name, x in state["parameters"].items():
            put(self, "register_parameter", name, nn.Parameter(x.detach(), x.requires_grad))
        for name, x in state["buffers"].items():
            put(self, "register_buffer", name, x)

    def forward(self, *args, **kwargs):
        return call(self.peer, self.far_id, args, kwargs, state_of(self))

    def allocations(self, *args) -> Allocations:
        """Sizes of the tensors that `forward` creates with the parameters of its last call, as the worker reports."""
        return allocations(self.peer, self.far_id, args)


def put(layer: nn.Module, how: str, name: str, x: Any) -> None:
    """Register ``x`` under a dotted name such as ``a.b.c``."""
    owner, _, last = name.rpartition(".")
    getattr(layer.get_submodule(owner), how)(last, x)


KINDS = {"function": StandIn, "class": FarClass, "module": FarModule, "object": Far}


def stand_in(peer: Peer, described: dict) -> Any:
    """The proxy of an object, from its description; `Lost` if the description is impossible."""
    kind, name, number = described.get("kind"), described.get("type"), described["mine"]
    known = isinstance(name, str) and kind in KINDS
    expect(known, "it described an object of no known kind")
    takes = signature_of(described.get("takes"))
    own = {"__signature__": takes} if takes and kind in ("class", "function") else {}
    if kind == "class":
        return FarClass(named(name), (), {"peer": peer, "far_id": number, **own})
    made = type(named(name), (KINDS[kind],), own)
    try:
        return made(peer, number)
    except Exception:  # a layer that was never initialised; neither is its proxy
        return made.__new__(made)
