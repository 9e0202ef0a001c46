"""The datastore on disk: immutable segments of entries and one manifest. It uses no model and no search."""

from knnmt.datastore.config_file import ConfigFile
from knnmt.datastore.entries import Entries
from knnmt.datastore.files import storage_errors
from knnmt.datastore.ids import Ids
from knnmt.datastore.index_record import IndexRecord
from knnmt.datastore.model_record import ModelRecord, check_same_model, relocated
from knnmt.datastore.segment import Segment
from knnmt.datastore.source_vectors import SourceVectors
from knnmt.datastore.staging import StagedSegment
from knnmt.datastore.store import Provenance, Store
from knnmt.datastore.stored_sentences import StoredSentences
from knnmt.datastore.verify import verify_files
from knnmt.datastore.writer import Plan, StoreWriter

__all__ = [
    "ConfigFile",
    "Entries",
    "Ids",
    "IndexRecord",
    "ModelRecord",
    "Plan",
    "Provenance",
    "Segment",
    "SourceVectors",
    "StagedSegment",
    "Store",
    "StoreWriter",
    "StoredSentences",
    "check_same_model",
    "relocated",
    "storage_errors",
    "verify_files",
]
