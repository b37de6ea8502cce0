"""How much memory a call needs, told by the allocator: the same on every run and every machine."""

import os
from collections.abc import Callable
from typing import Any

from torch.profiler import ProfilerActivity, profile


def peak_bytes(function: Callable[[], Any]) -> int:
    """The most memory that a call holds at any time on the CPU, beyond what was there before it.

        peak = max over time of (bytes allocated so far - bytes freed so far)

    Args:
        function: called once, without arguments; what it returns counts as long as it runs.

    Cost: a fraction of a millisecond for each operation.
    Chapter: 10_flash.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or its log stands between the outputs
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        kept = function()  # noqa: F841
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak
