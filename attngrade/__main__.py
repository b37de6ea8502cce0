"""``python -m attngrade submissions/ --out results/``: grade a class that need not be trusted."""

from attngrade.batch import command

if __name__ == "__main__":
    command()
