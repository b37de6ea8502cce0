"""What several tests share: oracles, cases, claims, wrong versions, notebooks, and an environment that bites."""
