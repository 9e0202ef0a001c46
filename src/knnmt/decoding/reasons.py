"""Why a neighbour counts, in words: what it has in common with the place that is translated."""

from torch import Tensor

from knnmt.combiner import Observation
from knnmt.memory import LONGEST_PAST
from knnmt.model import Codec

_SAME, _SIMILAR = 0.999, 0.3  # cosines of sources


def reasons(codec: Codec, seen: Observation, row: int, k: int, so_far: Tensor) -> list[str]:
    """Sentences about one neighbour, from the context that was observed.

    Args:
        so_far: the tokens before each row, as in `Place`  # [rows, any]
    """
    found = []
    if seen.matching_past is not None and seen.same_beginning is not None:
        past = int(seen.matching_past[row, k])
        if past:
            words = codec.decode([so_far[row, -past:].tolist()])[0].strip()
            more = "… " if past == LONGEST_PAST else ""
            whole = ", and so is everything up to here" if seen.same_beginning[row, k] else ""
            quoted = f": “{more}{words}”" if words else ""  # special tokens are no words
            found.append(f"the words before it are the same{quoted}{whole}")
        elif seen.same_beginning[row, k]:
            found.append("both begin a sentence")
    if seen.source_similarity is not None:
        cosine = float(seen.source_similarity[row, k])
        if cosine > _SAME:
            found.append("its source has the same words")
        elif cosine > _SIMILAR:
            found.append(f"its source is similar ({cosine:.0%})")
    if seen.continued is not None and seen.continued[row, k]:
        found.append("it continues a neighbour of the token before")
    return found
