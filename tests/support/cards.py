"""Graphics cards that are not here."""

from types import SimpleNamespace

import torch


def put(monkeypatch, name: str, capability: tuple[int, int]) -> None:
    """Put this card into the machine, as far as torch can tell; its clock says 1 ms, 2 ms, 3 ms."""
    clock = iter(range(10_000))
    event = SimpleNamespace(record=lambda: None, elapsed_time=lambda _: next(clock) % 3 + 1)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    for function, answer in {
        "is_available": True,
        "get_device_name": name,
        "get_device_capability": capability,
        "memory_allocated": 2**20,
        "max_memory_allocated": 5 * 2**20,
        "reset_peak_memory_stats": None,
        "synchronize": None,
        "Event": event,
    }.items():
        monkeypatch.setattr(torch.cuda, function, lambda *_, _answer=answer, **__: _answer)
