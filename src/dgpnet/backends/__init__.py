"""Where annotators already work: Label Studio and CVAT with a model behind them that learns from what they paint."""
