"""The paper's tables and figures, ours beside theirs, and the benchmark of speed and memory."""
