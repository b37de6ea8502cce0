"""What must hold beyond the contracts: rules, heads, costs, messages.

Like contracts, claims are functions of the package under test, which may be a mutant.
"""

CLAIMS = []


def claim(check):
    CLAIMS.append(check)
    return check
