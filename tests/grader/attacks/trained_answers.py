"""Right answers of exercises that ask for a trained model, with weights set by hand."""

TRAINED = {
    "train_reversal": """
class Reader(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.ask = torch.nn.Parameter(50 * torch.eye(12).flip(0))
        self.answer = torch.nn.Parameter(torch.eye(12))
        self.say = torch.nn.Parameter(torch.eye(20))

    def forward(self, tokens):
        weights = torch.softmax(self.ask @ self.answer.T, dim=-1)
        return torch.log(torch.einsum("nm,bmv->bnv", weights, self.say[tokens]) + 1e-9)


model = Reader()
""",
    "train_forecaster": """
class Bank(torch.nn.Module):
    def __init__(self):
        super().__init__()
        angles = 2 * math.pi * torch.arange(32.0) / torch.linspace(4, 16, 48)[:, None]
        waves = torch.stack([angles.sin(), angles.cos()], -1)
        self.fit = torch.nn.Parameter(torch.linalg.pinv(waves[:, :24]))
        self.past = torch.nn.Parameter(waves[:, :24].clone())
        self.future = torch.nn.Parameter(waves[:, 24:].clone())

    def forward(self, x):
        found = torch.einsum("kct,bt->bkc", self.fit, x)
        left = x[:, None] - torch.einsum("ktc,bkc->bkt", self.past, found)
        weights = torch.softmax(-12 * left.square().sum(-1), dim=-1)
        return torch.einsum("bk,ktc,bkc->bt", weights, self.future, found)


forecaster = Bank()
""",
    "longer": """
class Copier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = torch.nn.Parameter(20.0 * (torch.arange(17) == 11))
        self.say = torch.nn.Parameter(9 * torch.eye(16))

    def forward(self, tokens):
        i = torch.arange(tokens.size(1))
        row = (i[:, None] - i).clamp(-8, 8) + 8
        return self.bias[row].softmax(-1) @ self.say[tokens]


model = Copier()
""",
}
