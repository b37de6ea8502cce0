"""Global settings of torch, reset while an answer is judged."""

from contextlib import contextmanager

import torch


@contextmanager
def torch_defaults():
    """float32, gradients and the CPU; all settings and the random state are restored at the end."""
    dtype, device = torch.get_default_dtype(), torch.get_default_device()
    random = torch.get_rng_state()
    torch.set_default_dtype(torch.float32)
    _use(torch.device("cpu"))
    try:
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        torch.set_default_dtype(dtype)
        _use(device)
        torch.set_rng_state(random)


def _use(device: torch.device) -> None:
    """Set the default device; None for the CPU, as an explicit one slows every operation."""
    if torch.get_default_device() != device:
        torch.set_default_device(None if device.type == "cpu" else device)
