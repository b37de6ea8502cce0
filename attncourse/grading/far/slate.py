"""What a notebook or an answer has set for all of torch does not count while an answer is judged."""

from contextlib import contextmanager, nullcontext

import torch


@contextmanager
def clean_slate():
    """float32, gradients, the CPU, whatever a notebook or an answer has set; nothing stays behind."""
    dtype, random = torch.get_default_dtype(), torch.get_rng_state()
    torch.set_default_dtype(torch.float32)
    is_cpu = torch.get_default_device().type == "cpu"  # to say it again would slow every operation
    try:
        device = nullcontext() if is_cpu else torch.device("cpu")
        with torch.inference_mode(False), torch.enable_grad(), device:
            yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_rng_state(random)
