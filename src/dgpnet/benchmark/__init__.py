"""Speed and memory, beside the paper's listing done naively."""
