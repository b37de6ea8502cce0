"""Wrong versions of the Triton kernels: what stands in them once, and what a slip makes of it."""

HIDE = "scores = hide(scores, rows, columns, m, offset, CAUSAL)"
MUTANTS = [
    ("columns[None, :] < bound[:, None]", "columns[None, :] <= bound[:, None]"),
    ("tl.minimum(bound, rows + offset + 1)", "tl.minimum(bound, rows - offset + 1)"),
    ("bound = tl.minimum(bound, rows + offset + 1)", "bound = rows + offset + 1"),
    ("first + offset + 1), 0)", "last + offset + 1), 0)"),
    ("last + offset + 1), 0)", "last + offset), 0)"),
    ("(before + number % heads)", "(number % heads)"),
    (
        f"+ BLOCK_N > plain):\n            {HIDE}\n        # The",
        f"> plain):\n            {HIDE}\n        #",
    ),
    (
        f"+ BLOCK_N > plain):\n            {HIDE}\n        p =",
        f"> plain):\n            {HIDE}\n        p =",
    ),
    ("not BRANCH or start < plain", "not BRANCH or start + BLOCK_M < plain"),
    ("rescale[:, None] * mixed", "mixed"),
    ("total = rescale * total", "total = total"),
    ("shift = tl.where(new_maximum == MINUS_INFINITY, 0.0, new_maximum)", "shift = new_maximum"),
    ("total = tl.where(total == 0.0, 1.0, total)", "total = total * 1.0"),
    ("tl.max(scores, 1) * scale", "tl.max(scores, 1)"),
    ("(maximum + tl.log2(total)) / LOG2E", "maximum + tl.log2(total)"),
    ("delta -= load_numbers(DLse", "delta += load_numbers(DLse"),
    ("ds = p * (dp - delta[:, None])", "ds = p * dp"),
    ("ds = p * (dp - delta[None, :])", "ds = p * dp"),
    ("dq * (scale / LOG2E)", "dq * scale"),
    ("dk * (scale / LOG2E)", "dk * scale"),
    (
        "first - offset, 0) // BLOCK_M * BLOCK_M",
        "first + BLOCK_N - offset, 0) // BLOCK_M * BLOCK_M",
    ),
    ("tl.maximum(first + BLOCK_N - 1 - offset, 0)", "tl.maximum(first - offset, 0)"),
    ("columns[:, None] <= rows[None, :] + offset", "columns[:, None] <= rows[None, :]"),
    ("for member in tl.range(0, group):", "for member in tl.range(0, 1):"),
    ("head = key_head * group + member", "head = key_head * group"),
    ("rows, n, True) * LOG2E", "rows, n, True)"),
    ("tl.where(shift == MINUS_INFINITY, -MINUS_INFINITY, shift)", "shift"),
    ("+ tl.sum(p, 1)", "+ tl.max(p, 1)"),
]
