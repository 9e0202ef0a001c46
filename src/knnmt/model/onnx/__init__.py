"""The engine for CPUs: encoder and decoder step as ONNX graphs, run by ONNX Runtime."""

import os

# ONNX Runtime reports its use over the network unless this is set before its import; translations are private.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
