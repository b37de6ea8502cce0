"""``python -m attngrade submissions/ --out results/``: grade a class that need not be trusted."""

from attngrade.cli import command

if __name__ == "__main__":
    command()
