import torch
import torch.nn as nn


class MLP(nn.Module):
    def __init__(self, config) -> None:
        super().__init__()
        # TODO: make the layers.
        raise NotImplementedError("MLP.__init__ is still to be written")

    def forward(self, x):
        # TODO
        raise NotImplementedError("MLP.forward is still to be written")
