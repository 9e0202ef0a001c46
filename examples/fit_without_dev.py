"""Fit a method without dev pairs: the memory trains it, each sentence searched as if it were not there.

python examples/fit_without_dev.py [STORE]
"""

import sys
from pathlib import Path

import knnmt

TEXT = Path(__file__).parent / "espresso"


def main(store: str = "espresso-store") -> None:
    knnmt.build(store, [TEXT / "memory.de", TEXT / "memory.en"], model="de-en-small")
    report = knnmt.fit(store, sentences=200, updates=500, name="self-trained")
    print(f"on its own sentences: NLL {report.nll:.2f}, without the memory {report.base_nll:.2f}")

    result = knnmt.evaluate(store, [TEXT / "test.de", TEXT / "test.en"], ["base", "self-trained"], limit=20)
    for name, score in result.scores.systems.items():
        print(f"{name:15} BLEU {score.bleu:.1f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
