"""What the datastore knows about an index of any kind: the segments that it covers."""

from dataclasses import dataclass
from typing import Any

from knnmt.datastore.config_file import ConfigFile
from knnmt.datastore.entries import Entries

FIX = "rebuild the index with `knnmt build` on the store, without a corpus"


@dataclass(frozen=True, kw_only=True)
class IndexRecord:
    """The part of an index's config that every index has.

    Args:
        segments: checksums of the covered segments by name, as in `Entries.checksums`; None where a config has
            only names.
    """

    segments: dict[str, str | None]

    def is_of(self, entries: Entries) -> bool:
        """Whether the entries contain every covered segment, with the same content and the same mask."""
        return all(
            name in entries.checksums
            and (checksum == entries.checksums[name] or (checksum is None and name not in entries.mask))
            for name, checksum in self.segments.items()
        )


def covered_segments(value: Any) -> dict[str, str | None]:
    """The field `segments` of a config: checksums by name, or a list of names. Raises TypeError for anything else."""
    named = dict(value) if isinstance(value, dict) else dict.fromkeys(value)
    if not all(isinstance(name, str) and isinstance(checksum, str | None) for name, checksum in named.items()):
        raise TypeError("segments are named by strings")
    return named


def read_index_record(config: ConfigFile) -> IndexRecord | None:
    """The record in a config; None if the config is missing or damaged."""
    try:
        return IndexRecord(segments=covered_segments(config.fields["segments"]))
    except (KeyError, TypeError):
        return None
