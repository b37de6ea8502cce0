"""Right answers, which are the course's own solutions, and wrong ones, which the attacks dress up."""

import json
from functools import cache
from pathlib import Path

from attncourse.grading import load
from attncourse.grading.exercises import names

SOLUTIONS = Path(__file__).parents[3] / "exercises" / "solutions"
NAMES = {name: load(name).answer for name in names()}
LINES = "### BEGIN SOLUTION", "### END SOLUTION"


@cache
def _cells() -> dict[str, tuple[tuple[str, ...], str]]:
    """For each exercise the cells that its answer builds on, the imports first, and the answer."""
    found = {}
    for path in sorted(SOLUTIONS.glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        above = imports = None
        for cell in cells:
            source = "".join(cell["source"])
            name = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
            if source.startswith("## "):
                imports = imports or above
                above = list(imports)
            elif cell["cell_type"] == "code" and not cell["metadata"].get("tags"):
                if name.endswith("_answer"):
                    kept = (line for line in source.split("\n") if line.strip() not in LINES)
                    found[name.removesuffix("_answer")] = tuple(above), "\n".join(kept) + "\n"
                elif not name:
                    above = [*(above or ()), source + "\n"]
    return found


def as_found(exercise: str) -> tuple[str, ...]:
    """The cells above the answer: imports, and what is to be repaired."""
    return _cells()[exercise][0]


def right(exercise: str, called: str = "") -> str:
    """The right answer; under another name where one is given."""
    answer = _cells()[exercise][1]
    return answer.replace(f"def {NAMES[exercise]}(", f"def {called}(") if called else answer


def changed(exercise: str, old: str, new: str) -> str:
    """The right answer with one step replaced."""
    assert old in right(exercise), (exercise, old)
    return right(exercise).replace(old, new)


WRONG = {
    # nothing is hidden
    "causal_mask": "def causal_mask(n, m):\n    return torch.ones(n, m, dtype=torch.bool)\n",
    # no scale
    "scaled_dot_product_attention": """
def scaled_dot_product_attention(query, key, value):
    weights = torch.softmax(query @ key.mT, dim=-1)
    return weights @ value, weights
""",
    "find_the_leak": "def first_leak(model, x):\n    return -1\n",
    "head_dim": "class RepairedAttention(AttentionAsFound):\n    pass\n",
    "append": "class RepairedCache(CacheAsFound):\n    pass\n",
    "rolling_cache": "class RepairedRolling(RollingAsFound):\n    pass\n",
    "crossover": "largest_n = 80\n",
    # the rule is written down; nothing is learned
    "train_reversal": """
class Reader(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, tokens):
        return torch.nn.functional.one_hot(tokens.flip(1), 20).float() + 0 * self.scale


model = Reader()
""",
    # These copy what is to be read where it lies, or make all scores; without a limit on memory they are right.
    "decode_without_copy": """
def decode_step(query, key, value):
    key, value = (x.repeat_interleave(query.size(1), dim=1) for x in (key, value))
    weights = torch.softmax(query @ key.mT / query.size(-1) ** 0.5, dim=-1)
    return weights @ value, weights
""",
    "grouped_query_attention": """
def grouped_query_attention(query, key, value):
    key, value = (x.repeat_interleave(query.size(1) // x.size(1), dim=1) for x in (key, value))
    return torch.softmax(query @ key.mT / query.size(-1) ** 0.5, dim=-1) @ value
""",
    "absorbed_attention": """
def absorbed_attention(query, q_rotary, latent, k_rotary, w_k, w_v):
    heads = query.size(1)
    key, value = ((latent @ w.T).unflatten(-1, (heads, -1)).transpose(1, 2) for w in (w_k, w_v))
    scores = (query[:, :, None] @ key.mT)[:, :, 0] + q_rotary @ k_rotary.mT
    weights = torch.softmax(scores * (query.size(-1) + q_rotary.size(-1)) ** -0.5, dim=-1)
    return (weights[:, :, None] @ value)[:, :, 0], weights
""",
    "tiled_forward": """
def tiled_attention(query, key, value, first, rows, columns):
    hidden = torch.arange(key.size(2)) < first[:, None, None, None]
    scores = (query @ key.mT / query.size(-1) ** 0.5).masked_fill(hidden, -math.inf)
    return torch.softmax(scores, dim=-1).nan_to_num(0.0) @ value, scores.logsumexp(-1)
""",
    "linear_window": """
def linear_mix(query, key, value, window_size):
    at = torch.arange(query.size(-2))
    far = (at[:, None] - at).abs() > window_size // 2
    scores = query @ key.mT / query.size(-1) ** 0.5
    return scores.masked_fill(far, -math.inf).softmax(dim=-1) @ value
""",
    "gather_c2p": """
def content_to_position(query, pos_key, num_keys):
    span = pos_key.size(1) // 2
    index = (torch.arange(query.size(2))[:, None] - torch.arange(num_keys) + span).clamp(0, 2 * span - 1)
    return (query[:, :, :, None] * pos_key[:, index]).sum(-1)
""",
}
