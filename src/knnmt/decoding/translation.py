"""What a translator gives for a line."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sentence:
    """A sentence as the model saw it and as it translated it, in token ids."""

    source: list[int]
    target: list[int]


@dataclass(frozen=True)
class Translation:
    """A line's translation.

    Attributes:
        text: the best translation
        n_best: the n best texts with their scores, where several were asked for and the line is one sentence
        sentences: of the line; none where it is empty
    """

    source: str
    text: str
    n_best: list[tuple[str, float]]
    sentences: list[Sentence]

    @property
    def tokens(self) -> int:
        """How many tokens were generated."""
        return sum(len(sentence.target) for sentence in self.sentences)
