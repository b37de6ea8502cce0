"""What a layer with a state keeps between two calls: the state, and what the last call did to it."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

State = Any  # a table (b, h, f, e), or a tuple of it and the last inputs of a short convolution; None before all tokens


class LastCall(NamedTuple):
    """What `LinearCache.crop` needs to take back a call, or its end."""

    state: State
    length: int
    tokens: Tensor | None
    present: Tensor | None
    use_rotary: bool


class LinearCache:
    """What a layer with a state keeps of all tokens so far: one table a head, which does not grow.

    A state cannot forget its last token. So the state before the last call is kept as well, with that call's tokens if
    they are few: `crop` goes back to it, and reads once more those that stay.

    Args:
        layer: whose tokens these are; it has ``advance``.
        drafts: a call of more tokens can be taken back as a whole only. What is drafted to be checked is shorter.

    Cost: f (e + 1) numbers a head and sequence, however many tokens have passed; as many again, and drafts * embed_dim
        a sequence at most, for what `crop` may take back.
    Source: katharopoulos2020, section 3.4; leviathan2023 for drafts.
    Chapter: 18_linear.
    """

    def __init__(self, layer: Any, drafts: int = 64):
        self.layer, self.drafts = layer, drafts
        self.state: State = None
        self.length = 0
        self.last: LastCall | None = None

    @classmethod
    def of(cls, layer: Any, batch: int, max_length: int) -> "LinearCache":
        """An empty cache, as `attncourse.decoding.new_cache` asks for it; it takes any batch, and does not grow."""
        return cls(layer)

    @property
    def nbytes(self) -> int:
        """Bytes of the state; 0 before the first token. What is kept for `crop` comes on top."""
        return sum(x.nbytes for x in _tensors(self.state))

    @torch.no_grad()
    def advance(
        self,
        x: Float[Tensor, "b n width"],
        use_rotary: bool = False,
        present: Bool[Tensor, "b n"] | None = None,
    ) -> Float[Tensor, "b n width"]:
        """The layer's outputs for n new tokens, which go into the state.

        Args:
            x: the tokens.
            use_rotary: turn queries and keys by their positions.
            present: ``False`` where a token is padding; ``None``: none is.
        """
        n = x.size(1)
        positions = None
        if use_rotary:
            positions = torch.arange(self.length, self.length + n, device=x.device)
        tokens = x if n <= self.drafts else None
        last = LastCall(self.state, self.length, tokens, present, use_rotary)
        out, self.state = self.layer.advance(x, self.state, positions, present)
        self.length, self.last = self.length + n, last
        return out

    def crop(self, length: int) -> None:
        """Forget all tokens but the first: those of the last call that were drafted, and turned out wrong.

        Raises:
            ValueError: a length before the last call, or inside one of more than ``drafts`` tokens.

        Cost: the layer once more, for those tokens of the last call that stay.
        """
        if length == self.length:
            return
        start = self.length if self.last is None else self.last.length
        tokens = None if self.last is None else self.last.tokens
        few = tokens is not None
        if self.last is None or not (length == start or (few and start < length < self.length)):
            within = f"{start} to {self.length}" if few else f"{start} or {self.length}"
            raise ValueError(
                f"length must be {within}: a state holds the sum of all tokens, and of the last call alone it is known "
                f"what was there before, token by token if it had at most drafts={self.drafts}; got {length}. Crop "
                f"before the next call, or draft fewer tokens"
            )
        state, self.length, tokens, present, use_rotary = self.last
        self.state, self.last = state, None
        if tokens is not None and (stay := length - start):
            self.advance(tokens[:, :stay], use_rotary, _each(present, slice(None), slice(stay)))

    def reorder(self, rows: Int[Tensor, " b"]) -> None:
        """Go on with these sequences of the batch, some of them twice or not at all: the beams that are left."""
        self.state = _each(self.state, rows)
        if self.last is not None:
            kept = {x: _each(getattr(self.last, x), rows) for x in ("state", "tokens", "present")}
            self.last = self.last._replace(**kept)

    def __repr__(self) -> str:
        return f"LinearCache({self.length} tokens in {self.nbytes} bytes)"


def decode_with_state(
    layer: Any,
    x: Float[Tensor, "b n width"],
    cache: LinearCache,
    *,
    use_rotary: bool = False,
    present: Bool[Tensor, "b n"] | None = None,
) -> Float[Tensor, "b n width"]:
    """Any other cache would keep tokens, or the state of another layer."""
    if not (isinstance(cache, LinearCache) and cache.layer is layer):
        raise TypeError(
            f"the layer decodes with a LinearCache of its own; got {cache}. Use new_cache"
        )
    return cache.advance(x, use_rotary, present)


def _tensors(state: State) -> tuple[Tensor, ...]:
    """None, one or both."""
    if state is None:
        return ()
    return state if isinstance(state, tuple) else (state,)


def _each(state: State, *at: Tensor | slice) -> State:
    """These rows of whatever is there."""
    if isinstance(state, tuple):
        return tuple(x[at] for x in state)
    return None if state is None else state[at]
