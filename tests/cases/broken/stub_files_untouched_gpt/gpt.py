import torch.nn as nn


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        # TODO
        raise NotImplementedError

    def forward(self, idx, targets=None):
        # TODO
        raise NotImplementedError
