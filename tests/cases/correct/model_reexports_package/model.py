from layers import MLP, Block, CausalSelfAttention
from layers.config import GPTConfig
from layers.top import GPT

__all__ = ["GPTConfig", "CausalSelfAttention", "MLP", "Block", "GPT"]
