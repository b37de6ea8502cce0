"""Exercise decay_mask: decay as a mask, the table of what each token still counts."""

import math

import torch
import torch.nn.functional as F

from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.exercises.gated_delta._tables import Table, Tables, between, later
from attncourse.grading.inputs import seeded
from attncourse.grading.observe import Case
from attncourse.grading.slips import alone
from attncourse.spec import state_space

CALLS = (  # what is special, b h n, the range of the log-decays, gradients
    ("only token 2 of 9 forgets", (1, 1, 9), (0.0, 0.0), True),
    ("2 samples, 3 heads, 5 tokens", (2, 3, 5), (-1.5, -0.05), True),
    ("3 samples, 2 heads, 4 tokens", (3, 2, 4), (-0.8, 0.0), False),
    ("nothing forgets", (1, 2, 3), (0.0, 0.0), False),
    ("one token", (2, 1, 1), (-1.0, -0.5), False),
    ("strong decay", (1, 2, 4), (-80.0, -5.0), False),
    ("very strong decay", (1, 2, 9), (-150.0, -100.0), True),  # float64 ends at exp(709)
)


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, sizes, (low, high), gradients in CALLS:
        logs = low + (high - low) * torch.rand(sizes, generator=g)
        if "only" in what:
            logs[..., 2] = -0.3 - torch.rand((), generator=g)
        found.append(Case(what, (logs,), gradients=gradients))
    return found


def definition(log_decay):
    """What a state of one channel holds, token by token, when token j writes a 1 into column j."""
    (*_, n), ones = log_decay.shape, torch.ones_like(log_decay)[..., None]
    value = torch.eye(n, dtype=log_decay.dtype).expand(*log_decay.shape, n)
    return state_space(ones, ones, value, log_decay, scale=1.0)[0]


RIGHT = Table()
ACCEPTED = Accepted(differences_of_running_sums=RIGHT)


@ACCEPTED.add
def row_by_row(log_decay):
    """The row before, faded, with a 1 for the new token: as the state does it."""
    b, h, n = log_decay.shape
    row, rows = log_decay.new_zeros(b, h, n), []
    for t in range(n):
        row = row * log_decay[:, :, t : t + 1].exp() + F.one_hot(torch.tensor(t), n)
        rows.append(row)
    return torch.stack(rows, dim=2)


@ACCEPTED.add
def sums_of_segments(log_decay):
    """Each column sums only what comes behind its token: no difference of large numbers."""
    n = log_decay.shape[-1]
    below = torch.ones(n, n, dtype=torch.bool).tril(-1)
    logs = log_decay.unsqueeze(-1).expand(*log_decay.shape, n).masked_fill(~below, 0)
    return logs.cumsum(-2).masked_fill(later(n), float("-inf")).exp()


@ACCEPTED.add
def one_number_at_a_time(log_decay):
    b, h, n = log_decay.shape
    out = torch.zeros(b, h, n, n, dtype=torch.float64)
    for i in range(n):
        for j in range(i + 1):
            out[:, :, i, j] = torch.exp(log_decay[:, :, j + 1 : i + 1].sum(-1))
    return out


@ACCEPTED.add
def a_bias_of_large_negative_numbers(log_decay):
    total = torch.einsum("bht,it->bhi", log_decay, torch.ones(*[log_decay.size(-1)] * 2).tril())
    bias = total.unsqueeze(-1) - total.unsqueeze(-2)
    return torch.exp(torch.where(later(log_decay.size(-1)), torch.tensor(-1e9), bias))


@ACCEPTED.add
def products_of_decays(log_decay):
    n = log_decay.size(-1)
    keep = log_decay.exp()[..., None].expand(*log_decay.shape, n)
    below = torch.ones(n, n).tril(-1).bool()
    return torch.tril(torch.where(below, keep, 1.0).cumprod(-2))


def shifted(by_row: int, by_column: int):
    """Sums that begin or end at another token; a row 0 of zeros stands in front of the running sums."""

    def pairs(total, logs):
        first, last = F.pad(total, (1, 0)), F.pad(total, (0, 1))
        rows = (first[..., :-1], total, torch.cat([last[..., 1:-1], total[..., -1:]], -1))
        row, column = rows[1 + by_row], rows[1 + by_column]
        return row[..., :, None] - column[..., None, :]

    return pairs


MISTAKES = Mistakes(RIGHT.but(says, **steps) for says, steps in (
    ("A token's own decay fades it, too; it was written behind its decay, so that the diagonal is 1.", {"pairs": shifted(0, -1)}),
    ("The decay of token i itself is left out; token j has faded by tokens j + 1 to i.", {
        "pairs": lambda total, logs: (total - logs)[..., :, None] - total[..., None, :], "finish": lambda t, hidden: t.clamp(max=1.0)}),
    ("The sum runs over tokens j to i - 1; token j has faded by tokens j + 1 to i.", {"pairs": shifted(-1, -1)}),
    ("The sum is one token late: j + 2 to i + 1 instead of j + 1 to i.", {"pairs": shifted(1, 1)}),
    ("The decay of token i itself is left out; token j has faded by tokens j + 1 to i.", {"pairs": shifted(-1, 0)}),
    ("The decay of token j + 1 is left out; token j has faded by tokens j + 1 to i.",
     {"pairs": lambda total, logs: shifted(0, 1)(total, logs).where(steps_back(logs) > 0, 0.0)}),
    ("Nothing is hidden: later tokens count more than 1; they count 0.", {"hide": lambda t, hidden: t}),
    ("Later tokens count 1; they count 0.", {"hide": lambda t, hidden: t.masked_fill(hidden, 0.0)}),
    ("Tokens fade forwards and backwards; later tokens count 0.", {"hide": lambda t, hidden: -t.abs()}),
    ("Later tokens are minus infinity; they count 0: hide them before exp.",
     {"hide": lambda t, hidden: t, "finish": lambda t, hidden: t.masked_fill(hidden, -math.inf)}),
    ("exp is taken before later tokens are hidden: where it is infinite, the gradient is NaN. Hide them first.",
     {"hide": lambda t, hidden: t, "finish": lambda t, hidden: t.masked_fill(hidden, 0.0)}),
    ("exp is taken before later tokens are hidden: where it is infinite, 0 times infinity is NaN. Hide them first.",
     {"hide": lambda t, hidden: t, "finish": lambda t, hidden: t * ~hidden}),
    ("The earlier tokens are hidden and the later ones are left; row i is the token that reads.", {"later": lambda n: later(n).mT}),
    ("Each token's own place is hidden, too; there stands 1.", {"later": lambda n: torch.ones(n, n, dtype=torch.bool).triu(0)}),
    ("Each row has one token too many: the next one is not hidden.", {"later": lambda n: torch.ones(n, n, dtype=torch.bool).triu(2)}),
    ("The table is transposed: row i is the token that reads, column j the one that was written.", {"finish": lambda t, hidden: t.mT}),
    ("These are the logarithms; take exp of them.", {"power": lambda t: t}),
    ("The decays are added; they are multiplied, or their logarithms added and exp taken.",
     {"logs": torch.exp, "hide": lambda t, hidden: t.masked_fill(hidden, 0.0), "power": lambda t: t}),
    ("Only the decays of tokens i and j are multiplied; all from j + 1 to i are.",
     {"pairs": lambda total, logs: logs[..., :, None] + logs[..., None, :]}),
    ("Only what is left at the end is returned, the last row; return all rows.", {"finish": lambda t, hidden: t[..., -1, :]}),
    ("The table is returned for one sample and head only; return all of them.", {"finish": lambda t, hidden: t[0, 0]}),
    ("The logarithms are returned, with 0 for later tokens; take exp of them.",
     {"hide": lambda t, hidden: t.masked_fill(hidden, 0.0), "power": lambda t: t}),
    ("2 to the power of the sums; the logarithms are natural, so exp.", {"power": lambda t: 2.0**t}),
    ("exp is taken twice: of each log-decay, and of the sums again.", {"logs": torch.exp}),
    ("The log-decays are taken for decays and multiplied; add them up, then exp.",
     {"total": lambda x: x.abs().clamp(min=1e-9).log().cumsum(-1)}),
    ("The sign of the logarithms is turned: the table grows where it should fade.", {"logs": torch.neg}),
    ("The sums are not running: only the log-decays of i and j are subtracted.", {"total": lambda logs: logs}),
    ("The sums run over the heads; they run over the tokens, dim=-1.", {"total": lambda logs: logs.cumsum(1)}),
    ("The sums run over the samples; they run over the tokens, dim=-1.", {"total": lambda logs: logs.cumsum(0)}),
    ("The sums run from the end to the front.", {"total": lambda logs: logs.flip(-1).cumsum(-1).flip(-1)}),
    ("The running sums are sorted by size or mirrored: tokens are counted from the end.", {"total": lambda logs: logs.flip(-1).cumsum(-1)}),
    ("Each token fades as if all decays since were its own; it fades by those that come behind it.",
     {"pairs": lambda total, logs: logs[..., None, :] * steps_back(logs)}),
    ("Each row fades as if all decays were that of its own token; each token has its own.",
     {"pairs": lambda total, logs: logs[..., :, None] * steps_back(logs)}),
    ("One decay is used for all tokens, their mean; each token has its own.",
     {"pairs": lambda total, logs: logs.mean(-1)[..., None, None] * steps_back(logs)}),
    ("Only the last decay counts, that of token i; all since token j are multiplied.",
     {"pairs": lambda total, logs: logs[..., :, None].where(steps_back(logs) > 0, 0.0) + 0 * steps_back(logs)}),
    ("Only the decay of token j + 1 counts; all up to token i are multiplied.",
     {"pairs": lambda total, logs: F.pad(logs, (0, 1))[..., None, 1:].where(steps_back(logs) > 0, 0.0)}),
    ("All tokens fade from the beginning of the text on; token j fades from token j + 1 on.",
     {"pairs": lambda total, logs: total[..., :, None] + 0 * steps_back(logs)}),
    ("Each column has the whole sum up to its own token; it fades from there on.",
     {"pairs": lambda total, logs: total[..., None, :] + 0 * steps_back(logs)}),
    ("The two running sums are added; subtract that of j from that of i.", {"pairs": lambda total, logs: total[..., :, None] + total[..., None, :]}),
    ("The rows are divided by their sums, as a softmax does; what is left of a token does not depend on others.",
     {"finish": lambda t, hidden: t / t.sum(-1, keepdim=True)}),
    ("The logarithms go through a sigmoid; take exp.", {"power": torch.sigmoid}),
    ("This is 1 minus what is left: what was forgotten.", {"finish": lambda t, hidden: (1 - t).masked_fill(hidden, 0.0)}),
    ("All earlier tokens count 1: the decays are not used.", {"logs": torch.zeros_like}),
    ("The decays of head 0 are used for all heads.", {"logs": lambda x: x[:, :1].expand_as(x)}),
    ("The decays of sample 0 are used for all samples.", {"logs": lambda x: x[:1].expand_as(x)}),
    ("The table is returned for one head only; each head has its own.", {"finish": lambda t, hidden: t[:, 0]}),
    ("The decays are averaged over the heads; each head has its own.", {"logs": lambda x: x.mean(1, keepdim=True).expand_as(x)}),
    ("The table is detached; gradients flow to log_decay.", {"finish": lambda t, hidden: t.detach()}),
    ("The sums are taken in place, which changes the caller's tensor.", {"total": lambda x: x.cumsum_(-1)}),
    ("The table is one of booleans; return what is left of each token.", {"finish": lambda t, hidden: ~hidden.expand_as(t)}),
    ("Exponentials of running sums are divided, or multiplied: for strong decays that is 0 / 0 or 0 times infinity. Subtract first, then exp.",
     {"pairs": lambda total, logs: total.exp()[..., :, None] / total.exp()[..., None, :], "power": lambda t: t,
      "hide": lambda t, hidden: t, "finish": lambda t, hidden: t.masked_fill(hidden, 0.0)}),
    ("Exponentials of running sums are divided, or multiplied: for strong decays that is 0 / 0 or 0 times infinity. Subtract first, then exp.",
     {"pairs": lambda total, logs: total.exp()[..., :, None] * (-total).exp()[..., None, :], "power": lambda t: t,
      "hide": lambda t, hidden: t, "finish": lambda t, hidden: t.masked_fill(hidden, 0.0)}),
))  # fmt: skip
MISTAKES += alone(RIGHT.but(says, **steps) for says, steps in (
    *(("Later tokens count exp of a number such as -10 or -50, which is not 0; hide them with minus infinity.",
       {"hide": lambda t, hidden, x=x: t.masked_fill(hidden, x)}) for x in (-1.0, -5.0, -10.0, -20.0, -30.0, -50.0, -80.0, -100.0)),
    *(("The log-decays are clamped, so that strong ones fade less than they should.", {"logs": lambda g, x=x: g.clamp(min=x)})
      for x in (-1.0, -5.0, -10.0, -20.0, -30.0, -50.0)),
    *(("The sums of log-decays are clamped, so that what has faded far stays where it is.",
       {"pairs": lambda total, logs, x=x: between(total, logs).clamp(min=x)}) for x in (-5.0, -10.0, -20.0, -30.0, -50.0, -80.0)),
    *(("Later tokens count a small number, which is added to the table or is its lower limit; they count exactly 0.", {"finish": lambda t, hidden, x=x: t + x})
      for x in (1e-3, 1e-5, 1e-6, 1e-8)),
))  # fmt: skip


def steps_back(logs):
    """How many tokens lie between i and j, i included."""
    at = torch.arange(logs.size(-1), dtype=logs.dtype)
    return (at[:, None] - at).expand(*logs.shape, -1)


EXERCISE = Exercise(
    name="decay_mask", judge=Tables(definition, cases), accepted=ACCEPTED, mistakes=MISTAKES
)
