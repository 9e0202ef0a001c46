"""Features on disk, so that they are collected once for many fits."""

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from knnmt.combiner import Observation
from knnmt.datastore.files import storage_errors
from knnmt.errors import StoreError
from knnmt.training.features import Features

_SEEN = "observation."
_COUNTS = ("vocabulary", "dim", "skipped")


def save_features(features: Features, path: Path) -> None:
    """Write features, without the queries, to one safetensors file."""
    columns = {f"{_SEEN}{name}": column for name, column in features.observation.columns().items()}
    columns |= {name: getattr(features, name) for name in ("tokens", "log_p", "log_p_sum")}
    columns["lengths"] = torch.from_numpy(features.lengths)
    counts = {name: str(getattr(features, name)) for name in _COUNTS}
    with storage_errors(path):
        new = path.with_name(path.name + ".new")
        new.write_bytes(save({name: column.contiguous() for name, column in columns.items()}, counts))
        new.replace(path)


def load_features(path: Path) -> Features:
    """Read what `save_features` wrote."""
    try:
        with safe_open(path, "pt") as file:
            columns = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, not a dictionary
            counts = {name: int(file.metadata()[name]) for name in _COUNTS}
    except (OSError, SafetensorError) as error:
        raise StoreError(f"the features in {path} cannot be read; remove the file and collect them again") from error
    seen = {name.removeprefix(_SEEN): columns.pop(name) for name in list(columns) if name.startswith(_SEEN)}
    return Features(Observation(**seen), lengths=columns.pop("lengths").numpy(), **columns, **counts)  # type: ignore[arg-type]
