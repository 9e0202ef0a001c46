"""A store is bound to its model."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from knnmt.datastore import ModelRecord, StoreWriter, check_same_model
from knnmt.errors import StoreError


def test_json_round_trip(scenario: ModuleType) -> None:
    model = replace(scenario.MODEL, source_lang=None, source_prefix="translate: ")
    assert ModelRecord.from_json(model.to_json()) == model
    assert ModelRecord.from_json(model.to_json() | {"of a later version": 1}) == model
    with pytest.raises(KeyError):
        ModelRecord.from_json({"id": "x"})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fingerprint": "e" * 32, "id": "other"}, "another model: toy .*not other"),
        ({"tokenizer": "u" * 32}, "another tokenizer"),
        ({"key_layer": "ffn_input"}, "key layer 'output', not 'ffn_input'"),
        ({"precision": "bfloat16"}, "precision 'float32', not 'bfloat16'"),
        ({"source_lang": "fr"}, "source language 'de', not 'fr'"),
        ({"target_lang": None}, "target language 'en', not None"),
        ({"source_prefix": "x: "}, "source prefix '', not 'x: '"),
    ],
)
def test_another_model_is_refused(scenario: ModuleType, tmp_path: Path, change: dict[str, str], words: str) -> None:
    store = scenario.build(tmp_path / "store", "first", scenario.FIRST)
    other = replace(scenario.MODEL, **change)
    with pytest.raises(StoreError, match=f"{words}.*use what it was made with, or build a new store"):
        check_same_model(store.path, store.model, other)
    with pytest.raises(StoreError, match=words), StoreWriter(store.path, other):
        pass


def test_the_same_model_by_another_name(scenario: ModuleType, tmp_path: Path) -> None:
    store = scenario.build(tmp_path / "store", "first", scenario.FIRST)
    with StoreWriter(store.path, replace(scenario.MODEL, id="/a/copy", max_length=64)) as writer:
        assert writer.store is not None
        assert writer.store.model == scenario.MODEL
