"""Why does the translation say this word? Which sentences of the memory voted for it?

python examples/explain_a_word.py [STORE]
"""

import sys
from pathlib import Path

import knnmt

TEXT = Path(__file__).parent / "espresso"
SENTENCE = "Der Wassertank fehlt oder ist nicht richtig eingesetzt."


def main(store: str = "espresso-store") -> None:
    knnmt.build(store, [TEXT / "memory.de", TEXT / "memory.en"], model="de-en-small")
    knnmt.fit(store, [TEXT / "dev.de", TEXT / "dev.en"], updates=500)
    explanation = knnmt.explain(knnmt.Translator.open(store), SENTENCE)
    print(f"{explanation['source']}\n{explanation['translation']}\n")
    word = max(explanation["tokens"], key=lambda token: token["lambda"])
    print(f"{word['token']}: {word['lambda']:.0%} of the vote is the memory's")
    for neighbour in word["neighbours"][:4]:
        print(f"  {neighbour['weight']:.2f}  {neighbour['token']:12} {neighbour['target']}  ({neighbour['origin']})")


if __name__ == "__main__":
    main(*sys.argv[1:])
