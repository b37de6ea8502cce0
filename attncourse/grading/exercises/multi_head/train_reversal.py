"""Exercise train_reversal: a trained model that says sequences backwards, judged on new ones."""

import warnings

import torch
import torch.nn.functional as F
from torch import nn

from attncourse.grading.exercise import Accepted, Exercise, Facts, Mistakes
from attncourse.grading.exercises.multi_head._train_reversal_judge import (
    LENGTH,
    NAMES,
    VOCAB,
    facts,
)


def one_hot(tokens):
    return F.one_hot(tokens, VOCAB).float()


class MovePositions(nn.Module):
    """Logits at position i are the one-hot token at the position that row i of a matrix names."""

    def __init__(self, matrix, gain=9.0):
        super().__init__()
        self.matrix = nn.Parameter(gain * matrix.float())

    def forward(self, tokens):
        return self.matrix @ one_hot(tokens)


class Torch(nn.Module):
    """Embeddings and nn.MultiheadAttention; weights set by hand, so that the check stays quick."""

    def __init__(self, num_heads=1, batch_first=True, is_causal=False):
        super().__init__()
        width = VOCAB + LENGTH
        self.token, self.position = nn.Embedding(VOCAB, width), nn.Embedding(LENGTH, width)
        self.attention = nn.MultiheadAttention(width, num_heads, batch_first=batch_first)
        self.logits = nn.Linear(width, VOCAB)
        self.is_causal = is_causal
        with torch.no_grad():
            for p in self.parameters():
                p.zero_()
            token, position = torch.eye(width).split([VOCAB, LENGTH])
            self.token.weight.copy_(token)
            self.position.weight.copy_(position)
            q, k, v = self.attention.in_proj_weight.view(3, width, width)
            for h in range(0, width, width // num_heads):
                q[h : h + LENGTH, VOCAB:] = 99 * torch.eye(LENGTH).flip(1)
                k[h : h + LENGTH, VOCAB:] = torch.eye(LENGTH)
            v[:VOCAB, :VOCAB] = torch.eye(VOCAB)
            self.attention.out_proj.weight.copy_(torch.eye(width))
            self.logits.weight[:, :VOCAB] = torch.eye(VOCAB)

    def forward(self, tokens):
        x = self.token(tokens) + self.position.weight
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH) if self.is_causal else None
        out, _ = self.attention(x, x, x, attn_mask=mask, need_weights=False)
        return self.logits(out)


class OwnAttention(nn.Module):
    """One head of einsum with its own parameters."""

    def __init__(self):
        super().__init__()
        self.ask = nn.Parameter(50 * torch.eye(LENGTH).flip(0))
        self.answer = nn.Parameter(torch.eye(LENGTH))
        self.say = nn.Parameter(torch.eye(VOCAB))

    def forward(self, tokens):
        weights = torch.softmax(torch.einsum("nd,md->nm", self.ask, self.answer), dim=-1)
        return torch.log(torch.einsum("nm,bmv->bnv", weights, self.say[tokens]) + 1e-9)


class Encoder(nn.Module):
    """nn.TransformerEncoderLayer: residual, two norms and a feed-forward layer around it."""

    def __init__(self, width=52):
        super().__init__()
        self.token, self.position = nn.Embedding(VOCAB, width), nn.Embedding(LENGTH, width)
        self.layer = nn.TransformerEncoderLayer(width, 1, dim_feedforward=8, batch_first=True)
        self.logits = nn.Linear(width, VOCAB)
        with torch.no_grad():
            for module in (self.token, self.position, self.layer.linear2, self.logits):
                for p in module.parameters():
                    p.zero_()
            attention = self.layer.self_attn
            attention.in_proj_weight.zero_()
            self.token.weight[:, :VOCAB] = torch.eye(VOCAB)
            self.position.weight[:, VOCAB : VOCAB + LENGTH] = torch.eye(LENGTH)
            q, k, v = attention.in_proj_weight.view(3, width, width)
            q[:LENGTH, VOCAB : VOCAB + LENGTH] = 99 * torch.eye(LENGTH).flip(1)
            k[:LENGTH, VOCAB : VOCAB + LENGTH] = torch.eye(LENGTH)
            v[-VOCAB:, :VOCAB] = torch.eye(VOCAB)
            attention.out_proj.weight.copy_(torch.eye(width))
            self.logits.weight[:, -VOCAB:] = torch.eye(VOCAB)

    def forward(self, tokens):
        return self.logits(self.layer(self.token(tokens) + self.position.weight))


def scripted(model):
    """The model as torch.jit.script makes it; newer versions of torch warn about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(model)


ANTI_DIAGONAL = torch.eye(LENGTH).flip(1)

ACCEPTED = Accepted(
    multihead_attention_of_torch=Torch(),
    two_heads=Torch(num_heads=2),
    transformer_encoder_layer=Encoder(),
    own_attention_with_probabilities=OwnAttention(),
    double_precision=Torch().double(),
    compiled_by_script=scripted(OwnAttention()),
    a_matrix_over_positions=MovePositions(ANTI_DIAGONAL),
)

MISTAKES = Mistakes()


class Guess(nn.Module):
    """Logits by a random table: the same for the same token at the same position."""

    def __init__(self):
        super().__init__()
        random = torch.rand(LENGTH, VOCAB, VOCAB, generator=torch.Generator().manual_seed(3))
        self.table = nn.Parameter(random)

    def forward(self, tokens):
        return self.table[torch.arange(LENGTH), tokens]


class Change(nn.Module):
    """A right model with something done to its input or to its logits."""

    def __init__(self, change=lambda x: x, before=lambda x: x, model=None):
        super().__init__()
        self.model = MovePositions(ANTI_DIAGONAL) if model is None else model
        self.change, self.before = change, before

    def forward(self, tokens):
        return self.change(self.model(self.before(tokens)))


def no_positions(model):
    model.position.weight.data.zero_()
    return model


def fixed_batch(tokens):
    return tokens.view(128, LENGTH)


def unsure(logits):
    """Right with three of four tokens."""
    wrong = logits.argmax(-1) % 4 == 0
    return torch.where(wrong[..., None], logits.roll(1, -1), logits)


class InAPlainList(nn.Module):
    """The parameters are there, but no one who asks the model for them finds them."""

    def __init__(self):
        super().__init__()
        self.hidden = [MovePositions(ANTI_DIAGONAL)]

    def forward(self, tokens):
        return self.hidden[0](tokens)


class FlipScaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, tokens):
        return self.scale * one_hot(tokens.flip(1))


class Flattened(nn.Module):
    """One linear layer over the whole sequence: 57,600 weights."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.kron(ANTI_DIAGONAL, torch.eye(VOCAB)))

    def forward(self, tokens):
        return (one_hot(tokens).flatten(1) @ self.weight.T).unflatten(1, (LENGTH, VOCAB))


def in_place(tokens):
    return tokens.clamp_(max=VOCAB - 2)


for says, answer in (
    ("It is untrained, or it knows a fixed set of sequences by heart. Draw a new batch in every "
     "step, and look at the loss: guessing costs log(20) = 3.00.", Guess()),
    ("It learned, but not enough: train longer, or with another learning rate.",
     Change(unsure)),
    ("It copies the sequence as it is; the target of position i is token 11 - i: tokens.flip(1).",
     MovePositions(torch.eye(LENGTH))),
    ("The target was one place late: compare with tokens.flip(1), without a shift.",
     MovePositions(ANTI_DIAGONAL.roll(1, 0))),
    ("The target was one place early: compare with tokens.flip(1), without a shift.",
     MovePositions(ANTI_DIAGONAL.roll(-1, 0))),
    ("It reverses the alphabet (19 - token), not the order.",
     Change(lambda x: x.flip(-1), model=MovePositions(torch.eye(LENGTH)))),
    ("It says one token everywhere. Has the loss become NaN, or do the logits ignore the input?",
     Change(torch.zeros_like)),
    ("A causal mask hides what comes later, so the first half of the answer cannot be known.",
     Torch(is_causal=True)),
    ("It knows no positions: without position embeddings, attention cannot tell the order.",
     no_positions(Torch())),
    ("The batch is read as the sequence: nn.MultiheadAttention needs batch_first=True.",
     Torch(batch_first=False)),
    ("It returns tokens; return logits of shape (batch, 12, 20).",
     Change(lambda x: x.argmax(-1))),
    ("The logits are (batch, vocabulary, position); that order is for cross_entropy only.",
     Change(lambda x: x.transpose(1, 2))),
    ("Only one position is answered; return logits for all 12.", Change(lambda x: x[:, -1])),
    ("Logits and weights come out together; return the logits alone.",
     Change(lambda x: (x, None))),
    ("Positions and vocabulary are flattened; return logits of shape (batch, 12, 20).",
     Change(lambda x: x.flatten(1))),
    ("The size of the training batch is built in; take it from tokens.",
     Change(before=fixed_batch)),
    ("The model has more than 20,000 parameters. Attention needs few: share them over positions.",
     Flattened()),
    ("The answer is written into forward, or it sits where model.parameters() does not see it, "
     "such as in a plain list.", InAPlainList()),
    ("The answer is written into forward; a parameter only scales it.", FlipScaled()),
    ("Some logits are not finite; the training has diverged.",
     Change(lambda x: x.masked_fill(x == 0, float("-inf")))),
    ("forward changes the tokens of its caller in place.", Change(before=in_place)),
    ("This is the class; check an instance: check(..., model).", Torch),
    ("This is a function; wrap it in a torch.nn.Module with parameters.", one_hot),
):  # fmt: skip
    MISTAKES.add(says)(answer)


EXERCISE = Exercise(
    name="train_reversal",
    answer="model",
    title="Train a model to read backwards",
    kind="Train",
    points=3,
    difficulty=3,
    minutes=25,
    needs="section 'What the heads learned' of chapter 3",
    judge=Facts(facts, NAMES),
    hints=(
        "Which token is asked for depends on the position only: the model needs embeddings for "
        "tokens and for positions, and one attention layer without a mask.",
        "x = token(tokens) + position(torch.arange(12)); x = x + attention(norm(x), norm(x), "
        "norm(x)); logits = linear(norm2(x)). Use nn.MultiheadAttention(32, 1, batch_first=True).",
        "Adam with lr=3e-3, 300 steps: tokens = torch.randint(20, (128, 12)); loss = cross_entropy("
        "model(tokens).flatten(0, 1), tokens.flip(1).flatten()).",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
