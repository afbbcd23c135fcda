"""The GPT workshop kit: grades `GPTConfig, CausalSelfAttention, MLP, Block, GPT` and says what the mistake is."""

__version__ = "0.1.0"
