"""Give the segments of a store their source vectors, which need the model's tokenizer."""

from collections.abc import Sequence
from pathlib import Path

from knnmt.datastore import Segment, SourceVectors, Store, StoreWriter, storage_errors
from knnmt.errors import StoreError
from knnmt.model import TranslationModel
from knnmt.progress import progress

_GULP = 4096  # sentences tokenised at once


def new_source_vectors(writer: StoreWriter, model: TranslationModel, segments: Sequence[Segment]) -> dict[str, Path]:
    """Source vectors of those segments that have none, by segment name, in directories to be committed."""
    made = {}
    for segment in segments:
        if writer.store is None or not _has_vectors(writer.store, segment):
            directory = writer.new_directory("sources", segment.name)
            with storage_errors(directory):
                _vectors(model, segment).write(directory)
            made[segment.name] = directory
    return made


def lacks_source_vectors(store: Store) -> bool:
    """Whether source vectors of a segment are missing or damaged."""
    return not all(_has_vectors(store, segment) for segment in store.segments)


def with_source_vectors(store: Store, model: TranslationModel) -> Store:
    """The store with source vectors of every segment; writes those that are missing or damaged."""
    if not lacks_source_vectors(store):
        return store
    with StoreWriter(store.path, store.model, wait=True) as writer:
        writer.commit(sources=new_source_vectors(writer, model, writer.opened.segments))
    return store.latest()


def _has_vectors(store: Store, segment: Segment) -> bool:
    record = store.manifest.sources.get(segment.name)
    if record is None:
        return False
    try:
        SourceVectors.read(store.path, record, segment, store.model.vocab_size)
    except StoreError:
        return False
    return True


def _vectors(model: TranslationModel, segment: Segment) -> SourceVectors:
    sources = segment.sentence_table["source"]
    parts = []
    with progress("Reading sources", total=len(sources), unit="sentences") as meter:
        for start in range(0, len(sources), _GULP):
            texts = sources.slice(start, _GULP).to_pylist()
            parts.append(SourceVectors.of(model.codec.encode_sources(texts)))
            meter.advance(len(texts), units=len(texts))
    return SourceVectors.concatenate(parts)
