"""Models to look into, small enough to train on a laptop.

- `attention_only`: attention layers with residuals and nothing else, and a translator; chapters 2 to 18.
- `positioned`: one model, six ways to tell it where a token stands; chapter 4.
- `transformer`: the layers of the transformer: attention, feed-forward network, norms; chapter 5.
- `stacks`: encoder, decoder, and the transformer that joins them; chapter 5.
- `forecast`: a transformer for numbers instead of words; chapters 5 and 18.
- `tokenizer`: text to tokens and back; chapter 5.
- `language`: the language model of the book, trained on the manual of Python; most chapters.
- `fetcher`: one head that has nothing to do most of the time; chapter 15.
- `recaller`: pairs of a key and a value go in, values of keys come out; chapters 18 and 19.
"""

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
