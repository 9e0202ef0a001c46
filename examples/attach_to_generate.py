"""The memory inside your own `generate`, with any of its options.

python examples/attach_to_generate.py [STORE]
"""

import sys
from pathlib import Path

import torch

import knnmt
from knnmt.model import TranslationModel

TEXT = Path(__file__).parent / "espresso"


def main(store: str = "espresso-store") -> None:
    knnmt.build(store, [TEXT / "memory.de", TEXT / "memory.en"], model="de-en-small")
    knnmt.fit(store, [TEXT / "dev.de", TEXT / "dev.en"], "vanilla", decode_best=0)

    loaded = TranslationModel.load("de-en-small")  # or AutoModelForSeq2SeqLM and AutoTokenizer
    model, tokenizer = loaded.hf, loaded.codec.tokenizer
    inputs = tokenizer("Der Wassertank fehlt.", return_tensors="pt")
    torch.manual_seed(1)
    print("model alone:    ", tokenizer.batch_decode(model.generate(**inputs, num_beams=5), skip_special_tokens=True))
    with knnmt.attach(model, tokenizer, store):
        beams = model.generate(**inputs, num_beams=5)
        drawn = model.generate(**inputs, do_sample=True, num_return_sequences=3)
    print("beam search:    ", tokenizer.batch_decode(beams, skip_special_tokens=True))
    print("three samples:  ", tokenizer.batch_decode(drawn, skip_special_tokens=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
