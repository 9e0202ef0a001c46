"""The figures that the paper reports, for the German benchmark and the WMT19 model."""

from statistics import fmean

DOMAINS = ("it", "medical", "koran", "law")

# BLEU, Table 2
MAIN = {
    "base": dict(zip(DOMAINS, (38.35, 40.06, 16.26, 45.48), strict=True)),
    "vanilla": dict(zip(DOMAINS, (45.92, 54.46, 20.29, 61.27), strict=True)),
    "adaptive": dict(zip(DOMAINS, (47.88, 56.10, 20.43, 63.20), strict=True)),
    "robust": dict(zip(DOMAINS, (48.90, 57.28, 20.71, 64.07), strict=True)),
}

# BLEU on IT without some pairs, Table 1, by the name of the row
CONFIDENCE = {
    "all": {"vanilla": 45.92, "adaptive": 47.88},
    "random": {"vanilla": 44.75, "adaptive": 46.56},
    "[0%, 20%)": {"vanilla": 44.18, "adaptive": 45.76},
    "[20%, 40%)": {"vanilla": 44.21, "adaptive": 46.96},
    "[40%, 60%)": {"vanilla": 44.10, "adaptive": 46.18},
    "[60%, 80%)": {"vanilla": 41.78, "adaptive": 43.49},
    "[80%, 100%]": {"vanilla": 42.22, "adaptive": 42.54},
}

# BLEU on IT by the share of pairs that is removed, Tables 4 and 5
SHARES = (0.0, 0.2, 0.4, 0.6, 0.8)
PRUNING = {
    "random": {
        "adaptive": dict(zip(SHARES, (47.88, 46.56, 44.44, 42.24, 39.87), strict=True)),
        "robust": dict(zip(SHARES, (48.90, 47.30, 44.95, 42.69, 40.22), strict=True)),
    },
    "confidence": {
        "adaptive": dict(zip(SHARES, (47.88, 45.76, 42.43, 41.05, 38.79), strict=True)),
        "robust": dict(zip(SHARES, (48.90, 47.68, 46.89, 45.52, 41.02), strict=True)),
    },
}

# BLEU on IT, Table 6, by what is left out of robust
ABLATION = {
    "": 48.90,
    "wp": 48.36,
    "dc": 48.45,
    "vector-perturbation": 48.77,
    "pseudo-pairs": 48.75,
    "robust-training": 48.68,
    "decline": 48.38,
}


def gain(better: str, worse: str) -> float:
    """The average difference in BLEU of two systems over the paper's domains."""
    return fmean(MAIN[better][domain] - MAIN[worse][domain] for domain in DOMAINS)
