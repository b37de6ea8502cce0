"""The transformer: right answers in other styles."""

import torch
import torch.nn.functional as F
from torch import nn

from attncourse.grading.exercises.transformer.train_forecaster import Bank
from styles import style

style("train_forecaster", Bank(sharp=1e4), name="best_period_only")
style(
    "train_forecaster", nn.Sequential(nn.Identity(), Bank(32)).double().float(), name="sequential"
)
style("train_forecaster", Bank(periods=61, sharp=6.0), name="other_grid")


@style("residual_block")
def layer_norm_of_torch(x, part, weight, bias, norm_first):
    if norm_first:
        return x + part(F.layer_norm(x, x.shape[-1:], weight, bias))
    return F.layer_norm(x + part(x), (x.size(-1),), weight, bias)


@style("residual_block")
def variance_of_torch(x, part, weight, bias, norm_first):
    def normed(y):
        variance, mean = torch.var_mean(y, dim=2, correction=0, keepdim=True)
        return torch.addcmul(bias, (y - mean) * (variance + 1e-5).rsqrt(), weight)

    y = part(normed(x) if norm_first else x) + x
    return y if norm_first else normed(y)


@style("residual_block")
def position_by_position(x, part, weight, bias, norm_first):
    def normed(y):
        rows = [
            (r - r.mean()) / (((r - r.mean()) ** 2).mean() + 1e-5) ** 0.5 for r in y.flatten(0, 1)
        ]
        return torch.stack(rows).view(y.shape) * weight + bias

    return x + part(normed(x)) if norm_first else normed(x + part(x))


@style("residual_block")
def in_double(x, part, weight, bias, norm_first):
    def normed(y):
        centred = y - y.mean(-1, keepdim=True)
        variance = centred.square().mean(-1, keepdim=True)
        return centred / torch.sqrt(variance + 1e-5) * weight + bias

    x = x.double()
    return x + part(normed(x)) if norm_first else normed(x + part(x))


@style("cross_attention_mask")
def repeated(source, n, pad):
    return torch.ne(source, pad).view(len(source), 1, 1, -1).repeat(1, 1, n, 1)


@style("cross_attention_mask")
def einsum_of_ones(source, n, pad):
    return torch.einsum("i,bj->bij", torch.ones(n), (source != pad).float()).bool().unsqueeze(1)


@style("cross_attention_mask")
def row_after_row(source, n, pad):
    found = torch.zeros(source.size(0), 1, n, source.size(1), dtype=torch.bool)
    for b, words in enumerate(source):
        found[b, 0, :, words.eq(pad).logical_not()] = True
    return found


@style("causal_decoder")
def gradients(decoder, said, memory):
    said, ahead = said.clone().requires_grad_(), 0
    for i, output in enumerate(decoder(said, memory).unbind(1)):
        mixed = (output * torch.randn_like(output)).sum()
        (grad,) = torch.autograd.grad(mixed, said, retain_graph=True)
        read = (grad.abs().amax((0, 2)) > 1e-10).nonzero().flatten()
        ahead = max(ahead, int(read.max()) - i)
    return max(ahead, 0)


@style("causal_decoder")
def longest_distance_first(decoder, said, memory):
    n, before = said.size(1), decoder(said, memory)
    for ahead in range(n - 1, 0, -1):
        for i in range(n - ahead):
            other = said.clone()
            other[:, i + ahead :] = torch.randn_like(other[:, i + ahead :])
            if not torch.allclose(decoder(other, memory)[:, i], before[:, i], rtol=0, atol=1e-8):
                return ahead
    return 0


@style("causal_decoder")
def fewer_words(decoder, said, memory):
    whole = decoder(said, memory)
    return max(
        k - 1 - i
        for k in range(1, said.size(1) + 1)
        for i in range(k)
        if i == k - 1
        or (decoder(said[:, : k - 1], memory) - whole[:, : k - 1])[:, i].abs().max() > 1e-8
    )


@style("causal_decoder")
def sample_by_sample(decoder, said, memory):
    found = torch.zeros(())
    for b in range(len(said)):
        for j in range(said.size(1)):
            other = said.clone()
            other[b, j] += torch.rand_like(other[b, j])
            moved = (decoder(other, memory) != decoder(said, memory)).any(-1)[b]
            far = (decoder(other, memory) - decoder(said, memory)).abs().amax(-1)[b] > 1e-9
            first = (moved & far).int().argmax()
            found = torch.maximum(found, (j - first) * far.any())
    return int(found)


@style("repair_block")
def three_lines(x, memory, self_attend, cross_attend, feed_forward, norms):
    first, second, third = norms
    x = x + self_attend(first(x))
    x = x + cross_attend(second(x), memory)
    return feed_forward(third(x)) + x


@style("repair_block")
def in_double_precision(x, memory, self_attend, cross_attend, feed_forward, norms):
    x, memory = x.double(), memory.double()
    y = x + self_attend(norms[0](x))
    z = y + cross_attend(norms[1](y), memory)
    return z + feed_forward(norms[2](z))


@style("repair_block")
def loop_over_parts(x, memory, self_attend, cross_attend, feed_forward, norms):
    parts = (self_attend, lambda y: cross_attend(y, memory), feed_forward)
    for norm, part in zip(norms, parts, strict=True):
        x = x.add(part(norm(x)))
    return x


@style("repair_block")
def sum_at_the_end(x, memory, self_attend, cross_attend, feed_forward, norms):
    added = [self_attend(norms[0](x))]
    added.append(cross_attend(norms[1](x + added[0]), memory))
    added.append(feed_forward(norms[2](x + added[0] + added[1])))
    return x + torch.stack(added).sum(0)
