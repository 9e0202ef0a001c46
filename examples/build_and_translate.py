"""Build a store from a translation memory, fit the paper's method to it, and translate.

python examples/build_and_translate.py [STORE]
"""

import sys
from pathlib import Path

import knnmt

TEXT = Path(__file__).parent / "espresso"


def main(store: str = "espresso-store") -> None:
    knnmt.build(store, [TEXT / "memory.de", TEXT / "memory.en"], model="de-en-small")
    report = knnmt.fit(store, [TEXT / "dev.de", TEXT / "dev.en"], updates=1000)
    print(f"NLL of the dev tokens: {report.nll:.2f}, without the memory {report.base_nll:.2f}\n")

    sources = (TEXT / "test.de").read_text(encoding="utf-8").splitlines()[:3]
    alone = knnmt.Translator.open(store, "base").translate(sources)
    helped = knnmt.Translator.open(store).translate(sources)
    for source, base, robust in zip(sources, alone, helped, strict=True):
        print(f"{source}\n  model alone:     {base}\n  with the memory: {robust}")


if __name__ == "__main__":
    main(*sys.argv[1:])
