"""What must hold for every variant: functions that raise AssertionError, or return `UNDEFINED`.

They take ``make``, so that each can build the variant in the sizes it needs.
"""

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from attncourse import cost

UNDEFINED = object()
CONTRACTS = {}


def contract(title: str):
    def register(check):
        CONTRACTS[title] = check
        return check

    return register


def close(ours, theirs, rtol=0.0, atol=1e-12):
    torch.testing.assert_close(ours, theirs, rtol=rtol, atol=atol)


def same(ours: Tensor, theirs: Tensor, inputs) -> None:
    """Two outputs are equal, and so is what they send back to the inputs."""
    close(ours, theirs)
    found, expected = (gradients([x], inputs) for x in (ours, theirs))
    close(found, expected, atol=1e-11)


def named(variant) -> list[tuple[str, Tensor]]:
    """Everything a gradient can reach: float inputs, and the parameters of a layer."""
    inputs = [("input", x.requires_grad_()) for x in variant.inputs if x.is_floating_point()]
    return inputs + (list(variant.layer.named_parameters()) if variant.layer else [])


def learnable(variant) -> list[Tensor]:
    return [x for _, x in named(variant)]


def gradients(outputs, sources: list[Tensor]) -> list[Tensor]:
    """Gradients of a fixed random mixture of the outputs; 0 where nothing arrives."""
    generator = torch.Generator().manual_seed(2)
    mixtures = [torch.randn(x.shape, generator=generator, dtype=x.dtype) for x in outputs]
    total = sum((x * mixture).sum() for x, mixture in zip(outputs, mixtures, strict=True))
    found = torch.autograd.grad(total, sources, allow_unused=True, retain_graph=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(sources, found, strict=True)]


@contract("equals its loops")
def equals_spec(make):
    variant = make()
    output, weights = variant.spec(*variant.inputs)
    close(variant.run(*variant.inputs), output)
    if variant.stored:
        close(variant.stored(*variant.inputs), (output, weights))


@contract("gradients equal those of its loops")
def gradients_equal_spec(make):
    variant = make()
    if not variant.learns:
        return UNDEFINED
    sources = learnable(variant)
    known = variant.spec(*variant.inputs)
    if variant.stored:  # then that is known, and cheaper than the loops
        stored = variant.stored(*variant.inputs)
        close(gradients(stored, sources), gradients(known, sources), atol=1e-10)
        known = stored
    run = variant.run(*variant.inputs)
    return close(gradients([run], sources), gradients(known[:1], sources), atol=1e-10)


@contract("equals PyTorch's own")
def equals_torch(make):
    variant = make()
    if variant.torch is None:
        return UNDEFINED
    return close(variant.run(*variant.inputs), variant.torch(*variant.inputs))


@contract("equals flex_attention")
def equals_flex(make):
    variant = make()
    if variant.flex is None:
        return UNDEFINED
    return close(variant.run(*variant.inputs), variant.flex(*variant.inputs))


@contract("limiting case")
def reaches_its_limit(make):
    close(*make().limit())


@contract("weights are those of the output")
def weights_remake_output(make):
    variant = make()
    if variant.stored is None:
        return UNDEFINED
    output, weights = variant.stored(*variant.inputs)
    close(variant.remake(weights, *variant.inputs), output)
    close(output, variant.run(*variant.inputs))
    if variant.any_sum:
        return None
    if variant.leaves_rest:
        assert (weights.sum(-1) < 1).all()
        return None
    return close(weights.sum(-1), torch.ones_like(weights[..., 0]))


@contract("dropout")
def dropout(make):
    variant = make(n=31, m=31 if make().inputs[0] is make().inputs[-1] else 37)
    if variant.dropped is None:
        return UNDEFINED
    _, kept = variant.stored(*variant.inputs)
    output, weights = variant.dropped(*variant.inputs)
    zeroed = weights == 0
    close(weights, (2 * kept).masked_fill(zeroed, 0.0))
    close(variant.remake(weights, *variant.inputs), output)
    share = zeroed[kept > 0].double().mean()
    assert 0.45 < share < 0.55, f"dropout of one half zeroed {share:.2f} of the weights"
    return None


@contract("future changes nothing")
def future_changes_nothing(make):
    variant = make()
    if not variant.is_causal:
        return UNDEFINED
    before = variant.run(*variant.inputs)
    for t in range(before.size(-2) - 1):
        changed = [x.clone() for x in variant.inputs]
        for x in changed[:3]:  # behind query, key and value there may be a mask
            x[..., t + 1 :, :] += 100.0
        close(variant.run(*changed)[..., : t + 1, :], before[..., : t + 1, :])
    return None


@contract("empty row gives 0")
def empty_row(make):
    variant = make()
    if variant.masked is None:
        return UNDEFINED
    weights = variant.stored(*variant.inputs)[1]
    visible = torch.ones_like(weights, dtype=torch.bool)
    visible[:, :, 0] = False
    added = torch.zeros_like(weights).masked_fill(~visible, -torch.inf)
    full_output, full_weights = variant.masked(torch.ones_like(visible), *variant.inputs)
    sources = learnable(variant)
    for mask in (visible, added):
        output, weights = variant.masked(mask, *variant.inputs)
        close(weights[:, :, 0], torch.zeros_like(weights[:, :, 0]))
        close(output, variant.remake(weights, *variant.inputs))
        # The other rows do not notice.
        close(weights[:, :, 1:], full_weights[:, :, 1:])
        close(output[..., 1:, :], full_output[..., 1:, :])
        reached = gradients([output[..., 0, :], weights[:, :, 0]], sources)
        # What a constant bias adds to the empty row is all that may learn from it.
        constant = [name == "out_proj.bias" for name, _ in named(variant)]
        for is_constant, gradient in zip(constant, reached, strict=True):
            assert gradient.isfinite().all(), "the empty row sends NaN backwards"
            assert is_constant or not gradient.any(), "the empty row sends a gradient backwards"
        rest = gradients([output, weights], sources)
        assert all(gradient.isfinite().all() for gradient in rest)
    return None


@contract("single token")
def single_token(make):
    variant = make(n=1, m=1)
    output, weights = (variant.stored or variant.spec)(*variant.inputs)
    if not (variant.leaves_rest or variant.any_sum):
        close(weights, torch.ones_like(weights))
    close(output, variant.remake(weights, *variant.inputs))
    close(variant.run(*variant.inputs), output)


@contract("scores x 300")
def large_scores(make):
    variant = make()
    loud = [variant.inputs[0] * 300, *variant.inputs[1:]]
    loops = variant.spec(*loud)
    if variant.stored:
        close(variant.stored(*loud), loops, rtol=1e-9)
    close(variant.run(*loud), loops[0], rtol=1e-9)
    single = [x.float() if x.is_floating_point() else x for x in loud]
    if variant.layer:
        variant.layer.float()
    assert variant.run(*single).isfinite().all()


@contract("inputs unchanged")
def inputs_unchanged(make):
    variant = make()
    before = [x.clone() for x in variant.inputs]
    for call in calls(variant):
        call(*variant.inputs)
    close(list(variant.inputs), before, atol=0.0)


@contract("error in float32")
def float32_error(make):
    """No more than 8 times what rounding the inputs to float32 does to the exact result."""
    variant = make()
    rounded = [x.float().double() if x.is_floating_point() else x for x in variant.inputs]
    if variant.layer:
        variant.layer.float().double()
    exact = variant.run(*rounded)
    parameters = list(variant.layer.parameters()) if variant.layer else []
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        budget = 0.0
        for _ in range(8):
            kept = [x.clone() for x in parameters]
            for x in parameters:
                x.copy_(nudged(x, generator))
            moved = variant.run(*[nudged(x, generator) for x in rounded])
            budget = max(budget, 8 * (moved - exact).abs().max().item())
            for x, old in zip(parameters, kept, strict=True):
                x.copy_(old)
        if variant.layer:
            variant.layer.float()
        single = [x.float() if x.is_floating_point() else x for x in rounded]
        for call in calls(variant):
            output = call(*single)
            output = output[0] if isinstance(output, tuple) else output
            assert output.dtype == torch.float32
            error = (output.double() - exact).abs().max().item()
            assert error <= budget, f"error {error:.1e}, budget {budget:.1e}"


def calls(variant) -> list:
    """The ways to the output that the variant has."""
    return [call for call in (variant.run, variant.stored) if call]


def nudged(x: Tensor, generator) -> Tensor:
    """Moved by at most the rounding of float32, in a random direction."""
    if not x.is_floating_point():
        return x
    step = torch.rand(x.shape, generator=generator, dtype=x.dtype) * 2 - 1
    return x + x.abs().clamp(max=1e30).nan_to_num() * step * torch.finfo(torch.float32).eps / 2


class Tensors(TorchDispatchMode):
    """Remembers the bytes of the largest tensor that any operation returned, and how many numbers all of them held."""

    largest = numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for x in result if isinstance(result, tuple | list) else [result]:
            if isinstance(x, Tensor):
                self.largest = max(self.largest, x.untyped_storage().nbytes())
                self.numbers += x.numel()
        return result


def largest_tensor(call, *inputs) -> int:
    with Tensors() as seen, torch.no_grad():
        call(*inputs)
    return seen.largest


@contract("memory as declared")
def memory(make):
    # Without stored weights there are tiles: only where n m is much larger do they look small.
    for n, m in ((61, 61), (122, 122)) if make().stored else ((600, 700),):
        variant = make(n=n, m=m, d=4, e=4)  # a fused function may want equal widths
        needed = largest_tensor(variant.run, *variant.inputs)
        weights = variant.stored(*variant.inputs)[1] if variant.stored else None
        b, h = (variant.inputs[0] if weights is None else weights).shape[:2]
        scores = cost.score_bytes(b, h, n + variant.more_rows, m, bytes_per_number=8)
        if variant.stored:
            assert largest_tensor(variant.stored, *variant.inputs) == scores
        if variant.fused:
            assert needed < scores, "the weights were stored, and nobody asked for them"
        else:
            assert needed == scores
