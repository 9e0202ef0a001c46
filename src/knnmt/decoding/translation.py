"""The result of a translator for one line."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sentence:
    """The token ids of a source sentence and of its translation, as the model read and wrote them."""

    source: list[int]
    target: list[int]


@dataclass(frozen=True)
class Translation:
    """A line's translation.

    Attributes:
        text: the best translation
        n_best: the n best texts with their scores, if several were asked for and the line is one sentence
        sentences: the sentences of the line; none if it is empty
    """

    source: str
    text: str
    n_best: list[tuple[str, float]]
    sentences: list[Sentence]

    @property
    def tokens(self) -> int:
        """How many tokens were generated."""
        return sum(len(sentence.target) for sentence in self.sentences)
