"""Wrong answers that were written by no one: right ones with one step of their source changed, and what they hear.

`sources` right answers · `operators` the slips · `mutants` one slip in one right answer · `apart` a process of its own ·
`judged` verdicts on mutants · `heard` sentences that lead to the mistake · `truth` are the sentences true?

    cd tests/exercises; python -m fresh split_heads --count 40 --silent
"""
