"""Errors that a user can fix: each message is one sentence that says what to do. The command exits with 2."""


class KnnmtError(Exception):
    """Base of all errors that come from the input, not from a bug."""


class CorpusError(KnnmtError):
    """A corpus that cannot be read as pairs of sentences."""


class ModelError(KnnmtError):
    """A model that cannot be loaded, or cannot be used for nearest-neighbour translation."""


class StoreError(KnnmtError):
    """A datastore that is missing, damaged, of another model, or cannot be written."""


class StoreBusyError(StoreError):
    """A datastore that another process is writing to at this moment."""


class MethodError(KnnmtError):
    """A combiner or an option that does not exist or does not fit the store."""


class NotEnoughMemory(KnnmtError):
    """Work that needs more memory than there is."""


class FinetuneError(KnnmtError):
    """A fine-tuning that cannot be carried out."""


class EvaluationError(KnnmtError):
    """An evaluation that cannot be carried out."""


class DemoError(KnnmtError):
    """A demo that cannot run here."""


class StudyError(KnnmtError):
    """A benchmark that cannot be used, or a report that belongs to another one."""
