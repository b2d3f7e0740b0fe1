"""The network for other runtimes: ONNX (`to_onnx`, needs the extra `[onnx]`) and programs of PyTorch (`to_torch`)."""
