import json
from dataclasses import replace
from pathlib import Path

import pytest
from memory_store import MemoryStore, read_config

from knnmt.errors import StoreError
from knnmt.search.config import IndexConfig, flat_config

CONFIG = IndexConfig(
    kind="ivf",
    requested="auto",
    engine="faiss",
    index="IVF64,RaBitQ",
    segments={"000001": "5c", "000004": "e1"},
    entries=60_000,
    dim=8,
    rescore=4,
    recall={"8": 0.97, "16": 0.96, "32": 0.95},
    parameters={"probes": 12, "seed": 1},
    files={"index.faiss": 123},
)


def test_json_and_back(tmp_path: Path) -> None:
    value = CONFIG.to_json()
    assert value["probes"] == 12
    assert "parameters" not in value
    (tmp_path / "config.json").write_text(json.dumps(value))
    assert read_config(tmp_path) == CONFIG


def test_one_of_an_earlier_format_is_read(tmp_path: Path) -> None:
    """Which had names of segments only, and called entries pairs."""
    value = CONFIG.to_json() | {"segments": ["000001", "000004"]}
    value["pairs"] = value.pop("entries")
    (tmp_path / "config.json").write_text(json.dumps(value))
    assert read_config(tmp_path) == replace(CONFIG, segments={"000001": None, "000004": None})


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"engine": "faiss"}'])
def test_damaged_config_is_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(StoreError, match="damaged"):
        read_config(tmp_path)


def test_missing_index_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="knnmt build"):
        read_config(tmp_path / "nowhere")


def test_a_store_without_index_is_searched_exactly(small_store: MemoryStore) -> None:
    config = flat_config(small_store.entries)
    assert (config.index, config.entries, config.probes) == ("Flat", 300, None)
    assert set(config.recall.values()) == {1.0}
