"""Is a sentence true of the answer that hears it? Each claim is derived again from what the answer does.

The claims stand in `fresh.claims`; nothing of the explainers is used.
"""

from fresh.claims import CLAIMS, attention, counts, findings, gradients, places, relations, results
from fresh.evidence import Evidence

# Importing them fills the table.
SUBJECTS = attention, counts, findings, gradients, places, relations, results


def checked(line: str, evidence: Evidence) -> bool | None:
    """Is what is claimed true? None where no claim is known, or none can be decided."""
    verdicts = [check(found, evidence) for p, check in CLAIMS if (found := p.search(line))]
    verdicts = [x for x in verdicts if x is not None] if evidence.calls else []
    return all(verdicts) if verdicts else None
