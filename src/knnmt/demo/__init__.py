"""The whole story on real text: what `knnmt demo` tells, and the report it writes."""

from knnmt.demo.examples import differing
from knnmt.demo.report import write_report
from knnmt.demo.story import Chapter, Demo

__all__ = ["Chapter", "Demo", "differing", "write_report"]
