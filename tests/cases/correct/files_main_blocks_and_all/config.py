from dataclasses import dataclass

__all__ = ['GPTConfig']


@dataclass
class GPTConfig:
    vocab_size: int = 65
    block_size: int = 256
    n_layer: int = 6
    n_head: int = 6
    n_embd: int = 384


assert GPTConfig().n_embd % GPTConfig().n_head == 0
