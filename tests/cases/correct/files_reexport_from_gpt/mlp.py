"""The MLP lives in gpt.py."""
from gpt import MLP

__all__ = ["MLP"]
