"""The engine for CPUs: encoder and decoder step as ONNX graphs, run by ONNX Runtime."""
