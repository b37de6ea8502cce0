"""The definitions as literal Python loops: slow, obvious, and sharing no code with the rest.

Every fast function of the course is held to one of these, outputs and gradients, in float64.

- `attncourse.spec.dense`: attention and its layers, the causal mask and padding, the transformer.
- `attncourse.spec.positions`: waves that are added or turn, and those for longer texts.
- `attncourse.spec.sparse`: windows, global tokens, blocks, sinks and gates: attention that reads fewer keys.
- `attncourse.spec.scores`: caps and biases, disentangled, multi-token and differential attention.
- `attncourse.spec.linear`: attention without a softmax, and the states behind it.
"""

# ruff: noqa: F403, every definition can be had from here

from attncourse.spec.dense import *
from attncourse.spec.linear import *
from attncourse.spec.positions import *
from attncourse.spec.scores import *
from attncourse.spec.sparse import *
