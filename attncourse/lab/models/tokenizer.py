"""Text to tokens and back: the longest piece of the vocabulary that fits, again and again."""

import re

# A word with the space before it; a number, digit by digit; one other sign; a line break.
WORD = re.compile(r" ?[A-Za-z]+| ?[0-9]| ?[^\sA-Za-z0-9]|\n| ")
START = "<start>"


class Tokenizer:
    """Cuts text into pieces of a fixed vocabulary, and joins them again.

    A word is cut greedily: the longest piece that it begins with, then the longest of the rest.

    Args:
        pieces: the vocabulary, no piece twice; the first is ``<start>``. Characters that no piece holds
            are left out of the text.

    Source: sennrich2016 for pieces of words as vocabulary.
    Chapter: 05_transformer.
    """

    def __init__(self, pieces: list[str]):
        if pieces[:1] != [START] or len(set(pieces)) != len(pieces):
            raise ValueError(f"expected different pieces of which the first is {START}")
        self.pieces = pieces
        self.numbers = {piece: number for number, piece in enumerate(pieces)}
        self.longest = max(map(len, pieces))
        self._words: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self.pieces)

    def encode(self, text: str) -> list[int]:
        """The numbers of the pieces, without ``<start>``."""
        return [number for word in WORD.findall(text) for number in self._cut(word)]

    def decode(self, numbers: list[int]) -> str:
        """The text that the pieces make."""
        return "".join(self.pieces[number] for number in numbers if number)

    def _cut(self, word: str) -> list[int]:
        """The numbers of one word's pieces; remembered, because text repeats its words."""
        if word not in self._words:
            numbers, rest = [], word
            while rest:
                fits = (k for k in range(min(len(rest), self.longest), 0, -1))
                size = next((k for k in fits if rest[:k] in self.numbers), 0)
                if size:
                    numbers.append(self.numbers[rest[:size]])
                rest = rest[size or 1 :]
            self._words[word] = numbers
        return self._words[word]
