"""Private copies of the package, as it is or with one line of it replaced."""

import sys
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest import mock

SOURCE = Path(__file__).parents[3] / "attncourse"
MODULES = {  # in the order of their imports
    "interface": "interface",
    "steps": "steps",
    "masks": "masks",
    "scores": "scores",
    "cost": "cost",
    "positions": "positions",
    "rope_scaling": "rope_scaling",
    "layers": "layers",
    "shared_heads": "shared_heads",
    "cache": "cache",
    "decoding": "decoding",
    "latent": "variants.latent",
    "sinks": "variants.sinks",
    "streaming": "variants.streaming",
    "online": "variants.flash.online",
    "tiled": "variants.flash.tiled",
    "flash": "variants.flash",
    "window": "variants.window",
    "dilated": "variants.dilated",
    "longformer": "variants.longformer",
    "bigbird": "variants.bigbird",
    "reach": "lab.reach",
    "rolling": "variants.rolling",
    "differential": "variants.differential",
    "disentangled": "variants.disentangled",
    "document_bias": "variants.document_bias",
    "precision": "precision",
    "chunks": "variants.chunks",
    "features": "variants.features",
    "decays": "variants.decays",
    "state_cache": "variants.state_cache",
    "short_convolution": "variants.short_convolution",
    "gated": "variants.gated",
    "linear": "variants.linear",
    "delta": "variants.delta",
    "talking_heads": "variants.talking_heads",
    "multi_token_cache": "variants.multi_token_cache",
    "multi_token": "variants.multi_token",
}


@cache
def code(source: str, path: Path):
    """What a file says, compiled once."""
    return compile(source, path, "exec")


def build(module: str = "", old: str = "", new: str = "") -> SimpleNamespace:
    """The modules run afresh from their source, ``old`` replaced by ``new`` in one of them.

    No run-time check of shapes is attached to this copy, so it shows the errors that users see.
    """
    built = {}
    for short, name in MODULES.items():
        path = SOURCE.joinpath(*name.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        source = path.read_text(encoding="utf-8")
        if short == module:
            assert source.count(old) == 1, f"{path.name} holds {source.count(old)} times: {old}"
            source = source.replace(old, new)
        copy = ModuleType(f"attncourse.{name}")
        copies = {f"attncourse.{MODULES[k]}": v for k, v in built.items()}
        with mock.patch.dict(sys.modules, copies):
            exec(code(source, path), copy.__dict__)
        built[short] = copy
    return SimpleNamespace(**built)
