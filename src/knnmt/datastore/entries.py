"""The entries of a store, addressed by id, in one or more segments."""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from knnmt.datastore.ids import Ids, first_id, join_ids, split_ids
from knnmt.datastore.segment import Segment


class Entries:
    """Reads the columns of entries by id, and iterates over all entries.

    Ids may have any shape. An id that no segment has raises IndexError. The columns can also be read for entries that
    the mask leaves out, because such an entry may precede a searched one in its sentence.

    Args:
        segments: segments of one store
        mask: by segment name, which rows count, bool [rows]; a segment without a mask counts in full
    """

    def __init__(self, segments: Sequence[Segment], mask: Mapping[str, npt.NDArray[np.bool_]] | None = None) -> None:
        self.segments = tuple(segments)
        lengths = {segment.name: len(segment) for segment in segments}
        masks = {name: rows for name, rows in (mask or {}).items() if name in lengths}
        if any(rows.shape != (lengths[name],) for name, rows in masks.items()):
            raise ValueError("a mask has one bool for each row of its segment")
        self.mask = {name: rows for name, rows in masks.items() if not rows.all()}
        counts = [np.count_nonzero(self.mask[each.name]) if each.name in self.mask else len(each) for each in segments]
        self._starts = np.cumsum([0, *counts])
        self._numbers = np.array([segment.number for segment in segments], dtype=np.int64)

    def __len__(self) -> int:
        return int(self._starts[-1])

    @cached_property
    def _rows(self) -> list[Ids | None]:
        """The rows that count, by segment; None for a segment without a mask."""
        return [np.flatnonzero(self.mask[each.name]) if each.name in self.mask else None for each in self.segments]

    @cached_property
    def sentence_mask(self) -> dict[str, npt.NDArray[np.bool_]]:
        """By segment name, which sentences count, bool [sentences]: those with an entry that counts.

        As in `mask`, a segment without one counts in full.
        """
        masks = {}
        for segment in self.segments:
            if segment.name in self.mask:
                masks[segment.name] = np.zeros(segment.record.sentences, np.bool_)
                masks[segment.name][segment.sentence[self.mask[segment.name]]] = True
        return {name: sentences for name, sentences in masks.items() if not sentences.all()}

    def of_segments(self, names: Collection[str]) -> "Entries":
        """The entries of the named segments only."""
        return Entries([segment for segment in self.segments if segment.name in names], self.mask)

    def without(self, ids: Ids) -> "Entries":
        """The entries that are not among `ids` [n]."""
        mask = dict(self.mask)
        for segment, _, rows in self._by_segment(ids):
            kept = mask.get(segment.name, np.ones(len(segment), np.bool_)).copy()
            kept[rows] = False
            mask[segment.name] = kept
        return Entries(self.segments, mask)

    @property
    def dim(self) -> int:
        return int(self.segments[0].keys.shape[1])

    @cached_property
    def checksums(self) -> dict[str, str]:
        """Checksums by segment name: of the content and, if the segment has a mask, of the mask."""
        return {segment.name: self._checksum(segment) for segment in self.segments}

    def _checksum(self, segment: Segment) -> str:
        if segment.name not in self.mask:
            return segment.record.checksum
        masked = segment.record.checksum.encode() + np.packbits(self.mask[segment.name]).tobytes()
        return hashlib.blake2b(masked, digest_size=16).hexdigest()

    @cached_property
    def fingerprint(self) -> str:
        """Fingerprint of the content: the checksums of all segments, and the masks."""
        digest = hashlib.blake2b(digest_size=16)
        for segment in self.segments:
            for name, file in sorted(segment.record.files.items()):
                digest.update(f"{name} {file.blake2b}\n".encode())
            if segment.name in self.mask:
                digest.update(b"mask " + np.packbits(self.mask[segment.name]).tobytes())
        return digest.hexdigest()

    def ids(self, positions: Ids) -> Ids:
        """Ids [n] of the entries at positions [n], 0 … len − 1, among the entries that count."""
        segments = np.searchsorted(self._starts, positions, side="right") - 1  # indices into self.segments
        rows = positions - self._starts[segments]
        for index, kept in enumerate(self._rows):
            if kept is not None:
                rows[segments == index] = kept[rows[segments == index]]
        return join_ids(self._numbers[segments], rows)

    def blocks(self, size: int) -> Iterator[tuple[Ids, npt.NDArray[np.float16]]]:
        """All entries that count, in order: ids [at most size] and keys fp16 [at most size, dim]."""
        for segment, kept in zip(self.segments, self._rows, strict=True):
            for start in range(0, len(segment) if kept is None else len(kept), size):
                rows = np.arange(start, min(start + size, len(segment))) if kept is None else kept[start : start + size]
                keys = segment.keys[start : start + size] if kept is None else segment.keys[rows]
                yield first_id(segment.number) + rows, keys

    def keys(self, ids: Ids) -> npt.NDArray[np.float16]:
        """fp16 [..., dim] for ids [...]; zeros where the id is −1."""
        return self._gather([segment.keys for segment in self.segments], ids, 0)

    def values(self, ids: Ids) -> npt.NDArray[np.int32]:
        """int32 [...] for ids [...]; −1 where the id is −1."""
        return self._gather([segment.values for segment in self.segments], ids, -1)

    def log_confidence(self, ids: Ids) -> npt.NDArray[np.float32]:
        """float32 [...] for ids [...]; 0 where the id is −1."""
        return self._gather([segment.confidence for segment in self.segments], ids, 0)

    def sentence(self, ids: Ids) -> Ids:
        """The sentence of each entry, as an id: the segment's number and the row in its sentence table.

        −1 where the id is −1.
        """
        ids = np.asarray(ids, dtype=np.int64)
        rows = self._gather([segment.sentence for segment in self.segments], ids, 0).astype(np.int64)
        numbers, _ = split_ids(ids)
        return np.where(ids < 0, -1, join_ids(numbers, rows))

    def position(self, ids: Ids) -> npt.NDArray[np.uint16]:
        """The position of each entry in its target sentence, from 0; 0 where the id is −1."""
        return self._gather([segment.position for segment in self.segments], ids, 0)

    def before(self, ids: Ids) -> Ids:
        """The id of the previous entry in the same sentence; −1 at the start of a sentence and where the id is −1."""
        ids = np.asarray(ids, dtype=np.int64)
        return np.where((ids < 0) | (self.position(ids) == 0), -1, ids - 1)

    def sentence_lengths(self, ids: Ids) -> Ids:
        """The number of entries in the sentence of each entry.  # [n]"""
        lengths = np.empty(len(ids), dtype=np.int64)
        for segment, here, rows in self._by_segment(ids):
            own = segment.sentence[rows]
            first = np.searchsorted(segment.sentence, own)
            lengths[here] = np.searchsorted(segment.sentence, own, side="right") - first
        return lengths

    def _by_segment(self, ids: Ids) -> Iterator[tuple[Segment, npt.NDArray[np.bool_], Ids]]:
        """Each segment, a mask of the `ids` that belong to it, and the rows of these ids."""
        numbers, all_rows = split_ids(ids)
        found = np.count_nonzero(ids < 0)
        for segment in self.segments:
            here = numbers == segment.number
            rows = all_rows[here]
            found += len(rows)
            yield segment, here, rows
        if found != ids.size:
            raise IndexError("an id names a segment that the store does not have")

    def _gather(self, columns: Sequence[npt.NDArray[Any]], ids: Ids, missing: int) -> npt.NDArray[Any]:
        ids = np.asarray(ids, dtype=np.int64)
        if len(columns) == 1:
            rows = ids - first_id(self.segments[0].number)
            absent = rows < 0  # for ids of later segments the row is too large, and np.take raises
            if not absent.any():
                return np.take(columns[0], rows, axis=0)
            if (ids[absent] >= 0).any():
                raise IndexError("an id names a segment that the store does not have")
            rows[absent] = 0
            gathered = np.take(columns[0], rows, axis=0)
            gathered[absent] = missing
            return gathered
        gathered = np.full(ids.shape + columns[0].shape[1:], missing, dtype=columns[0].dtype)
        for column, (_, here, rows) in zip(columns, self._by_segment(ids), strict=True):
            gathered[here] = np.take(column, rows, axis=0)
        return gathered
