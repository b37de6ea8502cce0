"""Models to look into: attention alone, the transformer's layers and stacks, a forecaster, a fetcher, a recaller, a language model."""

from attncourse.lab.models.attention_only import AttentionOnly, Translator
from attncourse.lab.models.fetcher import Fetcher
from attncourse.lab.models.forecast import Forecaster
from attncourse.lab.models.language import LanguageModel, manual
from attncourse.lab.models.positioned import KINDS, Positioned
from attncourse.lab.models.recaller import Recaller
from attncourse.lab.models.stacks import Decoder, Encoder, Transformer
from attncourse.lab.models.tokenizer import Tokenizer
from attncourse.lab.models.transformer import DecoderLayer, EncoderLayer, FeedForward

__all__ = [
    "KINDS",
    "AttentionOnly",
    "Decoder",
    "DecoderLayer",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "Fetcher",
    "Forecaster",
    "LanguageModel",
    "Positioned",
    "Recaller",
    "Tokenizer",
    "Transformer",
    "Translator",
    "manual",
]
