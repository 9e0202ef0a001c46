"""Presets: what is given instead of tuned."""

from knnmt.study.setup import Preset

PAPER_MODEL = "facebook/wmt19-de-en"

# The paper trains Koran, a small domain, with another β.
_BETA = {"koran": 10.0}

# The values that Khandelwal et al. (2021) and Zheng et al. (2021) tuned for the WMT19 model.
_VANILLA = {
    "it": {"k": 8, "lambda": 0.7, "temperature": 10.0},
    "medical": {"k": 4, "lambda": 0.8, "temperature": 10.0},
    "law": {"k": 4, "lambda": 0.8, "temperature": 10.0},
    "koran": {"k": 16, "lambda": 0.8, "temperature": 100.0},
}

PRESETS = {
    "tuned": Preset("tuned", beta=_BETA),
    "paper": Preset(
        "paper",
        index="ivfpq",
        vanilla=_VANILLA,
        temperature={domain: values["temperature"] for domain, values in _VANILLA.items()},
        beta=_BETA,
    ),
}
