"""cpudeploy: turn CPU servers into an LLM service."""

__version__ = "0.1.0"
