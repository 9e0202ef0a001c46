"""How far two results may be apart that ought to be the same, and why.

Another processor, BLAS, number of threads or batch adds the same numbers in another order, and each order rounds in its
own way. A tolerance here is at least ten times what that was measured to do, and far below what a mistake does. Results
are compared to the bit only where the same code has the same shapes and as many threads, or where numbers are moved and
not computed.
"""

from typing import TypedDict


class Tolerance(TypedDict):
    """Relative and absolute, as numpy and torch call them."""

    rtol: float
    atol: float


# One formula (softmax, log-sum-exp, a small network), in double precision both times. Relative.
DOUBLE = 1e-9

# The same in single precision against double precision: a few roundings of 6e-8, of numbers up to 100 before an exp.
# Relative.
SINGLE = 1e-4

# A probability, weight, λ or other share of 1 from such a formula. Absolute.
SHARE = 1e-5

# Squared distances of the very same vectors in single precision: a sum of a few dozen squares. Relative.
SUM_OF_SQUARES = 1e-5

# States of a model in single precision: in other batches, one token at a time, by another engine.
STATES: Tolerance = {"rtol": 1e-3, "atol": 2e-4}

# Their squared distances to stored keys: of a difference of near vectors, so the relative error is larger than theirs.
DISTANCE: Tolerance = {"rtol": 1e-4, "atol": 1e-3}

# log p of a token given such a state, or the score of a hypothesis, which is a sum of them. Absolute.
LOG_P = 1e-3

# The mean of log p over dozens of tokens. Absolute.
NLL = 1e-4

# λ, weights, c and probabilities that networks give for such states and distances. Absolute.
TRUST = 1e-3

# Keys as they are stored, in half precision (a rounding of 5e-4), against states in single precision.
STORED: Tolerance = {"rtol": 2e-3, "atol": 2e-3}

# log p of a token given a stored key against log p given the state before it was rounded to half precision. Absolute.
STORED_LOG_P = 0.02

# States and log p of eight-bit products against single precision: each product has an error of a hundredth. Rounding to
# eight bits can go either way in another batch, so that an NLL moves by 1e-3 and text may change: what is compared more
# closely than this must come from batches of the same shapes.
INT8_STATES: Tolerance = {"rtol": 0.2, "atol": 0.2}
INT8_LOG_P = 1.0
