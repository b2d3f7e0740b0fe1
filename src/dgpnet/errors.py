"""The one exception that wrong use raises."""


class Error(ValueError):
    """Wrong use or unusable input: says what was given, what was expected and how to fix it, in one sentence."""
