"""The engine for CPUs: encoder and decoder step as ONNX graphs, run by ONNX Runtime."""

import os

# Before it is imported: ONNX Runtime reports its use over the network, and what people translate is their own affair.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
