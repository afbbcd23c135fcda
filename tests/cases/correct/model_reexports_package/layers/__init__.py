from .attention import CausalSelfAttention
from .block import Block
from .mlp import MLP
