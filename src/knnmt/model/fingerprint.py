"""Fingerprints of a model and a tokenizer, 32 hexadecimal digits each: they bind a store to its model."""

import hashlib
import json
from typing import Any

import torch

_SAMPLES = 4096  # values per parameter that are hashed; enough to distinguish any two models

_PROBES = (
    "Hello world!",
    "Der Dienst wurde am 3. März 2021 um 14:05 Uhr neu gestartet.",
    "«L'été», où l'on naïvement goûtait 1 234,56 €…",
    "¿Qué pasa? ¡Nada!",
    "Ё-моё, 東京 北京 서울 القاهرة",
    "  two  spaces\tand a tab; user@example.org/path?q=1&r=%20",
)


def model_fingerprint(model: torch.nn.Module) -> str:
    """BLAKE2b over the parameters in name order: name, shape, at most 4,096 evenly spaced values as fp16.

    It is the same for a directory, a hub id, `.bin`, safetensors and an fp16 copy of one model.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name, parameter in sorted(model.named_parameters()):
        flat = parameter.detach().reshape(-1)
        picked = torch.linspace(0, max(len(flat) - 1, 0), min(len(flat), _SAMPLES), dtype=torch.float64)
        values = flat[picked.round().long().to(flat.device)].to(torch.float16).cpu().contiguous()
        digest.update(json.dumps([name, list(parameter.shape)]).encode())
        digest.update(values.numpy().tobytes())
    return digest.hexdigest()


def tokenizer_fingerprint(tokenizer: Any) -> str:
    """BLAKE2b over the sorted vocabulary and the ids of a few probe sentences, as source and as target."""
    vocabulary = sorted((str(token), int(index)) for token, index in tokenizer.get_vocab().items())
    sources = tokenizer(list(_PROBES), add_special_tokens=False)["input_ids"]
    targets = tokenizer(text_target=list(_PROBES), add_special_tokens=False)["input_ids"]
    content = json.dumps([vocabulary, sources, targets], ensure_ascii=False)
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
