import os
import subprocess
import sys
from pathlib import Path


def test_onnxruntime_reports_nothing(tmp_path: Path) -> None:
    """It would keep a device id and a queue of events in the user's cache, and send them."""
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environment |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    program = "import knnmt.model.onnx.sessions, sys; assert 'onnxruntime' in sys.modules"
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    assert not list(tmp_path.rglob("*onnxruntime*"))
