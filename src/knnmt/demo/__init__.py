"""The demo on real text: the chapters of `knnmt demo`, and the report it writes."""

from knnmt.demo.examples import differing
from knnmt.demo.report import write_report
from knnmt.demo.story import Chapter, Demo

__all__ = ["Chapter", "Demo", "differing", "write_report"]
