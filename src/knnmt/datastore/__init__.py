"""What is on disk: immutable segments of pairs and one manifest. Knows no model and no index."""

from knnmt.datastore.entries import Entries
from knnmt.datastore.files import storage_errors
from knnmt.datastore.ids import Ids
from knnmt.datastore.model_record import ModelRecord, at_its_place, check_same_model
from knnmt.datastore.segment import Segment
from knnmt.datastore.staging import StagedSegment
from knnmt.datastore.store import Provenance, Store
from knnmt.datastore.stored_sentences import StoredSentences
from knnmt.datastore.verify import verify_files
from knnmt.datastore.writer import Plan, StoreWriter

__all__ = [
    "Entries",
    "Ids",
    "ModelRecord",
    "Plan",
    "Provenance",
    "Segment",
    "StagedSegment",
    "Store",
    "StoreWriter",
    "StoredSentences",
    "at_its_place",
    "check_same_model",
    "storage_errors",
    "verify_files",
]
