"""The manifest's record of the model that a store was made with."""

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

from knnmt.errors import StoreError


@dataclass(frozen=True)
class ModelRecord:
    """The model and the settings that its keys depend on; kept in the manifest.

    Args:
        id: directory or hub id, for display; the store is bound to the fingerprint.
        fingerprint: fingerprint of the weights.
        tokenizer: fingerprint of the tokenizer.
        key_layer: which hidden state is the key.
        dim: size of a key.
        engine: what ran the model ("torch", "onnx").
        precision: precision of the model's arithmetic ("float32", "int8"); the stored keys are always fp16.
        source_lang, target_lang: None where neither the model nor the user named them.
        max_length: maximum number of tokens in a sentence.
    """

    id: str
    fingerprint: str
    tokenizer: str
    key_layer: str
    dim: int
    vocab_size: int
    engine: str
    precision: str
    source_prefix: str
    source_lang: str | None
    target_lang: str | None
    max_length: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Raises KeyError if a field is missing; ignores unknown fields."""
        return cls(**{field.name: value[field.name] for field in fields(cls)})


def relocated(made_with: ModelRecord, given: ModelRecord) -> ModelRecord:
    """The record of a store; with the path of the given model, if the recorded path no longer exists."""
    lost = Path(made_with.id).is_absolute() and not Path(made_with.id).is_dir()
    return replace(made_with, id=given.id) if lost else made_with


_SETTINGS = {
    "key_layer": "key layer",
    "precision": "precision",
    "source_lang": "source language",
    "target_lang": "target language",
    "source_prefix": "source prefix",
}


def check_same_model(store: Path, made_with: ModelRecord, given: ModelRecord) -> None:
    """Raise a `StoreError` that names the first difference between `given` and the model of the store."""
    difference = _difference(made_with, given)
    if difference is not None:
        raise StoreError(
            f"the store {store} was made with {difference}; use what it was made with, "
            "or build a new store in another directory"
        )


def _difference(made_with: ModelRecord, given: ModelRecord) -> str | None:
    if made_with.fingerprint != given.fingerprint:
        return (
            f"another model: {made_with.id} (fingerprint {made_with.fingerprint[:12]}), "
            f"not {given.id} (fingerprint {given.fingerprint[:12]})"
        )
    if made_with.tokenizer != given.tokenizer:
        return f"another tokenizer than that of {given.id}"
    for name, words in _SETTINGS.items():
        old, new = getattr(made_with, name), getattr(given, name)
        if old != new:
            return f"{words} {old!r}, not {new!r}"
    return None
