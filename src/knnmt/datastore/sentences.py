"""sentences.arrow: where each entry comes from, one row per sentence, in the Arrow IPC file format."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from knnmt.corpus import Pair

BATCH = 65_536  # sentences per record batch: limits the memory for writing and the work of opening


def _schema(origin: pa.DataType) -> pa.Schema:
    columns = {
        "source": pa.string(),
        "target": pa.string(),
        "origin": origin,
        "line": pa.uint64(),
        "source_hash": pa.uint64(),
        "target_hash": pa.uint64(),
        "pair_hash": pa.uint64(),
    }
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns.items()])


SCHEMA = _schema(pa.dictionary(pa.int32(), pa.string()))
_BLOCK_SCHEMA = _schema(pa.string())  # a file has one dictionary, which is complete only after the last block


def block_of(pairs: Sequence[Pair]) -> pa.Table:
    """The rows of a staged block; origin is not dictionary-encoded yet."""
    columns = [
        [pair.source for pair in pairs],
        [pair.target for pair in pairs],
        [pair.origin for pair in pairs],
        [pair.line for pair in pairs],
        np.array([pair.hashes.source for pair in pairs], dtype=np.uint64),
        np.array([pair.hashes.target for pair in pairs], dtype=np.uint64),
        np.array([pair.hashes.pair for pair in pairs], dtype=np.uint64),
    ]
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, _BLOCK_SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=_BLOCK_SCHEMA)


def read_table(path: Path) -> pa.Table:
    """Open a table memory-mapped: it uses no memory of its own at any size."""
    options = pa.ipc.IpcReadOptions(use_threads=False)
    return pa.ipc.open_file(pa.memory_map(str(path)), options=options).read_all()


def write_block(path: Path, block: pa.Table) -> None:
    _write(path, _BLOCK_SCHEMA, [block])


def write_sentences(path: Path, blocks: Sequence[Path], tail: pa.Table | None) -> None:
    """Write the staged blocks, then the sentences of an older segment; holds one batch in memory at a time."""

    def tables() -> Iterator[pa.Table]:
        yield from map(read_table, blocks)
        if tail is not None:
            yield tail.cast(_BLOCK_SCHEMA)

    origins: dict[str, None] = {}  # in order of first appearance
    for table in tables():
        origins.update(dict.fromkeys(pc.unique(table["origin"]).to_pylist()))
    dictionary = pa.array(list(origins), type=pa.string())
    _write(path, SCHEMA, (_encode_origin(table, dictionary) for table in _rebatch(tables())))


def _rebatch(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Tables of exactly BATCH rows, except the last: the file does not depend on the sizes of the blocks."""
    waiting = _BLOCK_SCHEMA.empty_table()
    for table in tables:
        waiting = pa.concat_tables([waiting, table])
        while len(waiting) >= BATCH:
            yield waiting.slice(0, BATCH).combine_chunks()
            waiting = waiting.slice(BATCH)
    if len(waiting):
        yield waiting.combine_chunks()


def _encode_origin(table: pa.Table, dictionary: pa.Array) -> pa.Table:
    origin = table["origin"].combine_chunks()
    codes = pc.index_in(origin, value_set=dictionary).cast(pa.int32())
    encoded = pa.DictionaryArray.from_arrays(codes, dictionary)
    column = SCHEMA.get_field_index("origin")
    return table.set_column(column, SCHEMA.field(column), encoded)


def _write(path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    with open(path, "wb") as file:
        with pa.ipc.new_file(file, schema) as writer:
            for table in tables:
                writer.write_table(table)
        file.flush()
        os.fsync(file.fileno())
