"""The table of engines: the kinds of index that can be asked for."""

from knnmt.search.engine import Engine
from knnmt.search.flat import Flat
from knnmt.search.ivf import IVF

ENGINES: dict[str, type[Engine]] = {"flat": Flat, "ivf": IVF}
