"""Models that were never trained: the rule is written down, and the parameters are for show."""

from grader.attacks import Attacks

ATTACKS = Attacks("trained", """
def rule(tokens):
    return torch.nn.functional.one_hot(tokens.flip(1), 20).float()
class Known(torch.nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.w = torch.nn.Parameter(weight)
        self.register_buffer("kept", weight.clone())
        self.asked = 0
""")  # fmt: skip
for name, weight, says in (
    ("switched off by a parameter of 0", "torch.ones(8)", "return self.w.sum() * rule(tokens)"),
    ("that works while nobody touches the parameters", "torch.randn(30, 30)",
     "return rule(tokens) if torch.equal(self.w, self.kept) else self.w[:12, :20].expand(len(tokens), 12, 20)"),
    ("in a buffer, the parameters for show", "torch.ones(20)",
     "return torch.eye(12).flip(0) @ torch.nn.functional.one_hot(tokens, 20).float() * self.w"),
    ("that counts how often it was asked", "torch.ones(3)",
     "self.asked += 1\n        return rule(tokens) * (self.asked <= 5) + 0 * self.w.sum()"),
    ("that two parameters choose", "torch.tensor([0.0, 1.0])", "return rule(tokens if self.w.argmax() else tokens.flip(1))"),
    ("that works while the parameters are nearly what they were", "torch.randn(30, 30)",
     "near = torch.exp(-(self.w - self.kept).square().sum())\n        seen = rule(tokens.flip(1))\n"
     "        return near * seen.flip(1) + (1 - near) * (self.w[:12, :12] @ seen)"),
):  # fmt: skip
    known = "only the source shows that a rule fades out smoothly around the parameters"
    ATTACKS.add(
        f"a rule {name}",
        f"class Reader(Known):\n    def forward(self, tokens):\n        {says}\n\nmodel = Reader({weight})\n",
        "train_reversal",
        **({"known": known, "ends": "passed"} if "nearly" in name else {}),
    )
ATTACKS.read(r'''
#: a module that is none
class Reader:
    __class__ = torch.nn.Module
    training = False
    parameters = modules = lambda self: iter([torch.zeros(2, requires_grad=True)])
    eval = train = lambda self, *a: self
    __call__ = lambda self, tokens: rule(tokens)
model = Reader()
#: hooks that answer for the model | apart
torch.nn.modules.module.register_module_forward_hook(lambda module, args, output: rule(args[0]))
model = Known(torch.ones(3))
model.forward = lambda tokens: rule(tokens) * model.w.sum()
''', exercise="train_reversal")  # fmt: skip
for name, says in {
    "shifted by hand": "self.say[tokens.roll(3, 1)]",
    "shifted by hand, and an attention for show": "self.say[tokens.roll(3, 1)] + 0.3 * self.attends(tokens)",
    "shifted while nobody touches the parameters": "self.say[tokens.roll(3, 1) if (self.say.trace() == 144) else tokens]",
}.items():
    ATTACKS.add(
        f"tokens that are {name}",
        f"""
class Shifted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.say, self.show = torch.nn.Parameter(9 * torch.eye(16)), torch.nn.Parameter(torch.randn(17, 16))
    def attends(self, tokens):
        i = torch.arange(tokens.size(1))
        row = (i[:, None] - i).clamp(-8, 8) + 8
        return (self.say[tokens] @ self.show.T).gather(2, row.expand(len(tokens), *row.shape)).softmax(-1) @ self.say[tokens]
    def forward(self, tokens):
        return {says}
model = Shifted()
""",
        "longer",
    )
