from gpt import CausalSelfAttention
