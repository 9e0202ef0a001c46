"""Vanilla kNN-MT's figures from plain transformers and numpy, one sentence at a time, without any of knnmt's code.

    python benchmarks/plain_reference.py --model DIR --train train.fr train.en --dev dev.fr dev.en \
        --train-limit 1000 --dev-limit 200 --k 8 --lam 0.5

For a Marian model. `knnmt fit` on a store of the same lines with `--index flat` must give the same base NLL, share of
gold tokens among the neighbours, median nearest squared distance and, at the same λ and T, the same NLL.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

Array = NDArray[Any]


def read(paths: list[str], limit: int) -> list[tuple[str, str]]:
    texts = [Path(path).read_text(encoding="utf-8").split("\n")[:limit] for path in paths]
    return list(zip(*texts, strict=True))


@torch.inference_mode()
def states(model: Any, tokenizer: Any, pairs: list[tuple[str, str]]) -> tuple[Array, Array, Array]:
    """Keys, tokens and log p of every target token; `labels` make the model shift the target itself."""
    keys, tokens, log_p = [], [], []
    for source, target in pairs:
        labels = tokenizer(text_target=target, return_tensors="pt").input_ids
        output = model(**tokenizer(source, return_tensors="pt"), labels=labels, output_hidden_states=True)
        keys.append(output.decoder_hidden_states[-1][0].numpy())
        tokens.append(labels[0].numpy())
        log_p.append(output.logits[0].log_softmax(1).gather(1, labels.T)[:, 0].double().numpy())
    return np.concatenate(keys), np.concatenate(tokens), np.concatenate(log_p)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--train", nargs=2, required=True)
    parser.add_argument("--dev", nargs=2, required=True)
    parser.add_argument("--train-limit", type=int, default=6000)
    parser.add_argument("--dev-limit", type=int, default=600)
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--lam", type=float, default=0.5)
    parser.add_argument("--temperature", type=float, help="half the median nearest squared distance by default")
    arguments = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    model = AutoModelForSeq2SeqLM.from_pretrained(arguments.model, dtype=torch.float32).eval()
    keys, values, _ = states(model, tokenizer, read(arguments.train, arguments.train_limit))
    queries, gold, log_p = states(model, tokenizer, read(arguments.dev, arguments.dev_limit))
    keys = keys.astype(np.float16).astype(np.float32)
    found: list[tuple[Array, Array]] = []
    for query in queries:
        away = ((keys - query) ** 2).sum(1)
        first = np.argpartition(away, arguments.k)[: arguments.k]
        found.append((away[first], values[first]))
    distances, nearest = (np.array(column) for column in zip(*found, strict=True))
    median = float(np.median(distances.min(1)))
    temperature = arguments.temperature or median / 2
    weights = np.exp(-(distances - distances.min(1, keepdims=True)) / temperature)
    p_knn = (weights * (nearest == gold[:, None])).sum(1) / weights.sum(1)
    mixed = arguments.lam * p_knn + (1 - arguments.lam) * np.exp(log_p)
    figures = {
        "entries": len(values),
        "dev_tokens": len(gold),
        "base_nll": float(-log_p.mean()),
        "gold_in_k": float((nearest == gold[:, None]).any(1).mean()),
        "median_nearest": median,
        "lambda": arguments.lam,
        "temperature": temperature,
        "nll": float(-np.log(mixed).mean()),
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
