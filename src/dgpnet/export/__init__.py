"""The network for other runtimes: ONNX (`to_onnx`, extra `[onnx]`) and programs of PyTorch alone (`to_torch`)."""
