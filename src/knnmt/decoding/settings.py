"""The settings of the search; the signature contains all of them."""

from dataclasses import dataclass, replace

from knnmt.combiner import Combiner
from knnmt.errors import MethodError
from knnmt.model import check_names
from knnmt.search import machine_memory

GENERATE = "generate"
LARGEST = {"beam": 1024, "batch_size": 1024, "n_best": 1024, "max_length": 65_536}  # memory grows with each
PAPER_PENALTY = 0.6
_LARGEST_PENALTY = 10  # with more, length ** penalty leaves the range of floats


@dataclass(frozen=True)
class Settings:
    """Beam search as in the paper.

    Attributes:
        beam: hypotheses kept per sentence
        length_penalty: scores are divided by length ** length_penalty; None: the one that was tuned for the combiner,
            or the paper's 0.6
        max_length: maximum number of tokens of a translation; None: int(1.2 × source tokens) + 10
        n_best: translations returned per sentence
        batch_size: sentences decoded together; it does not change the translations
        engine: what runs the model: `onnx`, `torch`, or `generate` (transformers' own search); `auto` is the
            fastest available
        precision: `float32` or `int8`, which only onnx supports
        skip_above: no search where the model's highest probability is above this; 1: always search
        in_memory: load the store's index into memory, which is faster, or map it; None: load it if it fits
        split: whether a line is split into sentences that are translated separately; only where n_best is 1
    """

    beam: int = 4
    length_penalty: float | None = None
    max_length: int | None = None
    n_best: int = 1
    batch_size: int = 32
    engine: str = "auto"
    precision: str = "auto"
    skip_above: float = 1.0
    in_memory: bool | None = None
    split: bool = True

    def __post_init__(self) -> None:
        if self.beam < 1 or self.batch_size < 1 or self.n_best < 1 or (self.max_length or 1) < 1:
            raise MethodError("The beam, the batch size, n-best and the maximum length are at least 1.")
        for name, largest in LARGEST.items():
            if (getattr(self, name) or 1) > largest:
                option = name.replace("_", "-")
                raise MethodError(
                    f"--{option} is {getattr(self, name)}, but at most {largest:,} is possible; lower it."
                )
        if not abs(self.penalty) <= _LARGEST_PENALTY:
            raise MethodError(f"A length penalty of {self.penalty:g} makes no sense; give one around 1.")
        check_names(self.engine, self.precision, GENERATE)
        if not 0 < self.skip_above <= 1:
            raise MethodError(f"skip-above is a probability, not {self.skip_above:g}; give one above 0, such as 0.99.")
        if self.n_best > self.beam:
            raise MethodError(f"A beam of {self.beam} has no {self.n_best} best translations; raise --beam.")

    def check_vocabulary(self, size: int) -> None:
        """Refuse a beam that is too large for this vocabulary, or for the memory of this machine."""
        if self.beam >= size:
            raise MethodError(f"The model knows {size:,} tokens, so --beam must be less; lower it.")
        needed, there_is = 2 * 4 * self.beam * self.batch_size * size, machine_memory()  # logits and their softmax
        if needed > there_is:
            raise MethodError(
                f"A beam of {self.beam} for {self.batch_size} sentences at a time takes {needed / 1e9:,.1f} GB, and "
                f"this machine has {there_is / 1e9:,.1f} GB; lower --beam or --batch-size."
            )

    @property
    def penalty(self) -> float:
        """The length penalty as a number."""
        return PAPER_PENALTY if self.length_penalty is None else self.length_penalty

    def tuned_for(self, combiner: Combiner | None) -> "Settings":
        """With the length penalty that was tuned for a combiner, unless another one is asked for."""
        tuned = combiner.record.get("length_penalty") if combiner else None
        return self if tuned is None or self.length_penalty is not None else replace(self, length_penalty=float(tuned))

    @property
    def splits(self) -> bool:
        """Whether lines are split. They are not for n-best lists, which are made of whole lines."""
        return self.split and self.n_best == 1

    def cap(self, source_tokens: int) -> int:
        """The maximum number of tokens of a translation; it does not depend on the batch."""
        return self.max_length or int(1.2 * source_tokens) + 10

    @property
    def signature(self) -> str:
        longest = self.max_length or "1.2x+10"
        split = "yes" if self.splits else "no"
        skip = f"|skip:{self.skip_above:g}" if self.skip_above < 1 else ""
        return f"beam:{self.beam}|lp:{self.penalty:g}|maxlen:{longest}|nbest:{self.n_best}|split:{split}{skip}"
