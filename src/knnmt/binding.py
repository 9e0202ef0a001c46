"""Bind a store to the model it was built with."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from knnmt.datastore import ModelRecord, Store, StoreWriter, check_same_model, relocated
from knnmt.errors import ModelError, StoreError
from knnmt.model import Engine, TorchEngine, TranslationModel


def record_of(engine: Engine) -> ModelRecord:
    """What the manifest of a store records about a model and its engine."""
    model, codec = engine.model, engine.model.codec
    return ModelRecord(
        id=model.name,
        fingerprint=model.fingerprint,
        tokenizer=model.tokenizer_fingerprint,
        key_layer=model.key_layer,
        dim=model.dim,
        vocab_size=model.vocab_size,
        engine=engine.name,
        precision=engine.precision,
        source_prefix=codec.source_prefix,
        source_lang=codec.source_lang,
        target_lang=codec.target_lang,
        max_length=codec.max_length,
    )


def check_binding(model: TranslationModel, store: Store) -> None:
    """Refuse a store built with another model, tokenizer or setting; an fp16 copy of the model is accepted."""
    check_same_model(store.path, store.model, replace(record_of(TorchEngine(model)), precision=store.model.precision))


def load_recorded(record: ModelRecord, device: str = "auto", name: str | None = None, **asked: str) -> TranslationModel:
    """Load the model of a record, under its recorded name unless `name` is given; `asked` overrides the record."""
    if name is None and Path(record.id).is_absolute() and not Path(record.id).is_dir():
        raise ModelError(f"The store's model is no longer in {record.id}; say where it is now with --model.")
    known = {
        "key_layer": record.key_layer,
        "source_lang": record.source_lang,
        "target_lang": record.target_lang,
        "source_prefix": record.source_prefix,
    }
    return TranslationModel.load(name or record.id, device=device, **(known | asked))


def load_model(store: Store, device: str = "auto", name: str | None = None) -> TranslationModel:
    """Load the model that a store was built with, from `name` if it has moved; the store records the new path."""
    model = load_recorded(store.model, device, name)
    check_binding(model, store)
    moved = relocated(store.model, replace(store.model, id=model.name))
    if moved != store.model:
        # a user without write access gives the new path each time
        with suppress(StoreError), StoreWriter(store.path, moved) as writer:
            writer.commit()
    return model
