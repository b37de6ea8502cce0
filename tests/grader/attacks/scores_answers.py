"""Right and wrong answers to the exercises on scores that ask their neighbours, and on those that ask a table of distances."""

RIGHT = {
    "convolve_scores": """
def convolved_weights(scores, kernel):
    heads, c_q, c_k = kernel.shape
    later = torch.ones(scores.shape[2:]).triu(scores.size(3) - scores.size(2) + 1) > 0
    table = scores.masked_fill(later, 0.0)
    table = torch.nn.functional.pad(table, (c_k // 2, c_k // 2, c_q - 1, 0))
    table = torch.nn.functional.conv2d(table, kernel[:, None], groups=heads)
    return table.masked_fill(later, -math.inf).softmax(dim=-1)
""",
    "repair_leak": """
def slide(table, kernel):
    heads, c_q, c_k = kernel.shape
    padding = (c_q - 1, c_k // 2)
    slid = torch.nn.functional.conv2d(table.tril(), kernel[:, None], padding=padding, groups=heads)
    return slid[:, :, : table.size(2)].tril()

def without_leaks(query, key, value, kernel, kernel_after):
    later = torch.ones(query.size(2), key.size(2)).triu(1) > 0
    scores = slide(query @ key.mT / query.size(-1) ** 0.5, kernel)
    weights = slide(scores.masked_fill(later, -math.inf).softmax(dim=-1), kernel_after)
    return weights @ value, weights
""",
    "gather_c2p": """
def content_to_position(query, pos_key, num_keys):
    span = pos_key.size(1) // 2
    index = (torch.arange(query.size(2))[:, None] - torch.arange(num_keys) + span).clamp(0, 2 * span - 1)
    return (query @ pos_key.mT).gather(-1, index.expand(*query.shape[:2], -1, -1))
""",
    "kernel_by_hand": """
def four_kernels(c_q, c_k):
    kernels, c = torch.zeros(4, c_q, c_k), c_k // 2
    kernels[[0, 1, 2, 3], -2, [c - 1, c, c - 1, c - 1]] = torch.tensor([1.0, 1.0, 1.0, -1.0])
    kernels[[0, 1, 2, 3], -1, [c, c + 1, c + 1, c]] = 1.0
    return kernels
""",
}
WRONG = {
    # the future gets in
    "convolve_scores": RIGHT["convolve_scores"].replace("scores.masked_fill(later, 0.0)", "scores"),
    # as found
    "repair_leak": RIGHT["repair_leak"]
    .replace("(c_q - 1,", "(c_q // 2,")
    .replace("table.tril()", "table")
    .replace("table.size(2)].tril()", "table.size(2)]"),
    # a vector for every pair; without a limit on memory it is right
    "gather_c2p": """
def content_to_position(query, pos_key, num_keys):
    span = pos_key.size(1) // 2
    index = (torch.arange(query.size(2))[:, None] - torch.arange(num_keys) + span).clamp(0, 2 * span - 1)
    return (query[:, :, :, None] * pos_key[:, index]).sum(-1)
""",
    # nothing is forbidden
    "kernel_by_hand": RIGHT["kernel_by_hand"].replace("-1.0]", "1.0]"),
}
