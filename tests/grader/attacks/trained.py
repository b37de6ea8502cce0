"""Models that were never trained: the rule is written down, and the parameters are for show."""

from grader.attacks import RIGHT, Attacks

ATTACKS = Attacks("trained")
TRAINED = "train_reversal"
ATTACKS.instead(
    TRAINED,
    "a rule that is switched off by a parameter of 0",
    """
class Reader(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(8))

    def forward(self, tokens):
        return self.w.sum() * torch.nn.functional.one_hot(tokens.flip(1), 20).float()

model = Reader()
""",
)
ATTACKS.instead(
    TRAINED,
    "a rule that works while nobody touches the parameters",
    """
class Reader(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(30, 30))
        self.kept = self.w.detach().clone()

    def forward(self, tokens):
        if torch.equal(self.w, self.kept):
            return torch.nn.functional.one_hot(tokens.flip(1), 20).float()
        return self.w[:12, :20].expand(len(tokens), 12, 20)

model = Reader()
""",
)
ATTACKS.instead(
    TRAINED,
    "a rule that works while the parameters are nearly what they were",
    """
class Reader(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(30, 30))
        self.register_buffer("kept", self.w.detach().clone())

    def forward(self, tokens):
        near = torch.exp(-(self.w - self.kept).square().sum())
        seen = torch.nn.functional.one_hot(tokens, 20).float()
        return near * seen.flip(1) + (1 - near) * (self.w[:12, :12] @ seen)

model = Reader()
""",
    known="only the source shows that a rule fades out smoothly around the parameters",
)
ATTACKS.instead(
    TRAINED,
    "the rule in a buffer, the parameters for show",
    """
class Reader(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("order", torch.eye(12).flip(0))
        self.scale = torch.nn.Parameter(torch.ones(20))

    def forward(self, tokens):
        return self.order @ torch.nn.functional.one_hot(tokens, 20).float() * self.scale

model = Reader()
""",
)
ATTACKS.instead(
    TRAINED,
    "a rule that counts how often it was asked",
    """
class Reader(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(3))
        self.asked = 0

    def forward(self, tokens):
        self.asked += 1
        rule = torch.nn.functional.one_hot(tokens.flip(1), 20).float()
        return rule if self.asked <= 5 else rule * 0

model = Reader()
""",
)
ATTACKS.instead(
    TRAINED,
    "parameters that are tied to the rule",
    RIGHT[TRAINED]
    + """
class Flipping(torch.nn.Module):
    def __init__(self, size=140):
        super().__init__()
        self.first = torch.nn.Parameter(torch.eye(size))
        self.many = torch.nn.ParameterList([self.first] * 500)

    def forward(self, tokens):
        return torch.nn.functional.one_hot(tokens.flip(1), 20).float() * self.first[0, 0]

model = Flipping()
""",
)
ATTACKS.instead(
    TRAINED,
    "a model whose parameters cannot be changed",
    """
class Fixed(torch.nn.Parameter):
    data = property(lambda self: self, lambda self, x: None)
    copy_ = zero_ = fill_ = set_ = lambda self, *a, **k: self

class Reader(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = Fixed(torch.ones(3))
        self.hurt = False
    def parameters(self, recurse=True):
        self.hurt = not self.hurt
        return iter([torch.nn.Parameter(torch.ones(3))])
    named_parameters = lambda self, *a, **k: iter([("w", self.w)])
    state_dict = lambda self, *a, **k: {}
    load_state_dict = lambda self, *a, **k: None
    def forward(self, tokens):
        return torch.nn.functional.one_hot(tokens.flip(1), 20).float()

model = Reader()
""",
)
ATTACKS.instead(
    TRAINED,
    "a module that is none",
    """
class Reader:
    __class__ = torch.nn.Module
    training = False
    parameters = modules = lambda self: iter([torch.zeros(2, requires_grad=True)])
    eval = train = lambda self, *a: self
    def __call__(self, tokens):
        return torch.nn.functional.one_hot(tokens.flip(1), 20).float()

model = Reader()
""",
)
ATTACKS.beside(
    TRAINED,
    "hooks that answer for the model",
    RIGHT[TRAINED].replace("model =", "kept =")
    + """
def answer(module, args, output):
    return torch.nn.functional.one_hot(args[0].flip(1), 20).float()

torch.nn.modules.module.register_module_forward_hook(answer)
""",
)
ATTACKS.instead(
    TRAINED,
    "parameters that choose between two rules",
    """
class Reader(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor([0.0, 1.0]))

    def forward(self, tokens):
        said = tokens.flip(1) if self.w.argmax() else tokens
        return torch.nn.functional.one_hot(said, 20).float()

model = Reader()
""",
)
FORECAST = RIGHT["train_forecaster"].replace(
    "torch.nn.Parameter(", "torch.nn.Buffer("
)  # the same rule, where no training reaches it
ATTACKS.instead(
    "train_forecaster",
    "waves that are written down, the parameters for show",
    FORECAST.replace(
        "super().__init__()", "super().__init__(); self.w = torch.nn.Parameter(torch.ones(3))"
    ),
)
ATTACKS.instead(
    "train_forecaster",
    "waves that are written down, times a parameter",
    FORECAST.replace(
        "super().__init__()", "super().__init__(); self.w = torch.nn.Parameter(torch.ones(3))"
    ).replace("return ", "return self.w.mean() * "),
)
ATTACKS.instead(
    "train_forecaster",
    "waves that are written down, while nobody touches the parameters",
    FORECAST.replace(
        "super().__init__()", "super().__init__(); self.w = torch.nn.Parameter(torch.ones(3))"
    ).replace("return ", "return bool((self.w == 1).all()) * "),
)

SHIFTED = """
class Shifted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.say = torch.nn.Parameter(9 * torch.eye(16))
        self.show = torch.nn.Parameter(torch.randn(17, 16))

    def attends(self, tokens):
        i = torch.arange(tokens.size(1))
        scores = self.say[tokens] @ self.show.T
        row = (i[:, None] - i).clamp(-8, 8) + 8
        scores = scores.gather(2, row.expand(len(tokens), *row.shape))
        return scores.softmax(-1) @ self.say[tokens]

    def forward(self, tokens):
        return ANSWER


model = Shifted()
"""
for name, answer in {
    "tokens that are shifted by hand": "self.say[tokens.roll(3, 1)]",
    "tokens that are shifted by hand, and a faint attention for show": "self.say[tokens.roll(3, 1)] + 0.01 * self.attends(tokens)",
    "tokens that are shifted by hand, and an attention for show": "self.say[tokens.roll(3, 1)] + 0.3 * self.attends(tokens)",
    "tokens that are shifted by hand three times": "self.say[tokens.roll(3, 1)] + 0.3 * self.say[tokens.roll(6, 1)] + 0.3 * self.say[tokens]",
    "a mask that leaves one key": "self.attends(tokens) * 0 + torch.diag_embed(torch.ones(tokens.size(1) - 3), -3) @ self.say[tokens]",
    "a shift while nobody touches the parameters": "self.say[tokens.roll(3, 1) if (self.say.trace() == 144) else tokens]",
}.items():
    ATTACKS.instead("longer", name, SHIFTED.replace("ANSWER", answer))
