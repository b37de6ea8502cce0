"""The benchmarks hold the layers of others with our weights; the tests here import them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
