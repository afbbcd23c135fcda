"""The bank of known mistakes: which one gives exactly the student's numbers, in words and with what to reread.

The text never holds the solution's code.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autograder.oracle.cases import Config
from autograder.oracle.variants import run


@dataclass(frozen=True)
class Misconception:
    """A mistake: the switches of variants.py that make it, what to say, and where to look."""

    part: str
    switches: tuple[tuple[str, Any], ...]
    sentence: str
    look_at: str

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(key for key, _ in self.switches)


SCALE = "Reread scaled dot-product attention: scores are divided by sqrt(head_dim), once, before the softmax."
MASK = "Reread masking: later positions get -inf before the softmax, the diagonal stays."
SHAPES = (
    "Reread how heads are made: (B, T, C) to (B, T, n_head, head_dim), then n_head before T, and back the same way."
)
QKV = "Reread the projection: c_attn's output is q, k, v, in this order, n_embd channels each."
GELU = "Reread the MLP: up, GELU in its tanh form, down."
WIRING = "Reread the block: x plus attention of its norm, then x plus MLP of its norm."
NORM = "Reread layer normalisation: over the channels of one token, with mean and biased variance."
POSITIONS = "Reread embeddings: row t of wpe is added to the token at position t, counted from 0."
ASSEMBLY = "Reread the model: embeddings, every block in turn, ln_f once, lm_head."
LOGITS = "Reread the output: logits are what lm_head gives; softmax is for the caller."

_BANK: dict[str, list[tuple[dict[str, Any], str, str]]] = {
    "attention": [
        ({"scale": "none"}, "Your output equals attention whose scores are not divided by sqrt(head_dim).", SCALE),
        ({"scale": "n_embd"}, "The scores are divided by sqrt(n_embd), not by the square root of the size of one head.", SCALE),
        ({"scale": "n_head"}, "The scores are divided by the square root of the number of heads, not of their size.", SCALE),
        ({"scale": "length"}, "The scores are divided by the square root of the sequence length: the wrong axis of k.", SCALE),
        ({"scale": "twice"}, "The scores are divided by head_dim: by its square root twice.", SCALE),
        ({"scale": "multiplied"}, "The scores are multiplied by sqrt(head_dim) instead of divided.", SCALE),
        ({"scale": "after softmax"}, "The scale is applied after the softmax, to the weights, instead of to the scores.", SCALE),
        ({"scale": "n_layer"}, "The scores are divided by the square root of n_layer.", SCALE),
        ({"scale": "block_size"}, "The scores are divided by the square root of block_size.", SCALE),
        ({"scale": "64"}, "The scores are divided by 8, which is right only for a head_dim of 64.", SCALE),
        ({"mask": "none"}, "Your output equals attention without a mask: every position reads the future.", MASK),
        ({"mask": "sees the next"}, "The mask is off by one: every position also sees the next one, which is the answer.", MASK),
        ({"mask": "not itself"}, "The mask hides the diagonal: a position must see itself, and the first sees nothing.", MASK),
        ({"mask": "upside down"}, "The mask is upside down: positions see the future and not the past.", MASK),
        ({"mask": "only the future"}, "The mask is inverted: what may be seen is hidden. Check whether True means keep or hide.", MASK),
        ({"mask": "zeros"}, "Masked scores are set to 0, which still gets weight (exp(0) = 1).", MASK),
        ({"mask": "multiplied"}, "The mask is multiplied into the scores: that makes them 0, not -inf.", MASK),
        ({"mask": "minus one"}, "Masked scores are set to -1, which still gets weight.", MASK),
        ({"mask": "after softmax"}, "The mask comes after the softmax: rows no longer add up to 1.", MASK),
        ({"softmax": "queries"}, "The softmax runs over the queries: columns add up to 1, not rows.", MASK),
        ({"softmax": "heads"}, "The softmax runs over the heads, not over the keys.", SHAPES),
        ({"heads": "one"}, "n_head is ignored: your output equals attention with one head of size n_embd.", SHAPES),
        ({"heads": "swapped"}, "n_head and head_dim are swapped: you have head_dim heads of size n_head.", SHAPES),
        ({"spread": "view"}, "The heads are cut by a reshape to (B, n_head, T, head_dim): that mixes positions and channels.", SHAPES),
        ({"spread": "over heads"}, "Attention runs between the heads of one token: T and n_head are not exchanged.", SHAPES),
        ({"spread": "over heads", "mask": "none"}, "Attention runs between the heads of one token, without a mask.", SHAPES),
        ({"transpose": "view"}, "k is reshaped where it should be transposed: its numbers are scrambled.", SHAPES),
        ({"merge": "interleaved"}, "The heads are joined channel by channel instead of one after the other.", SHAPES),
        ({"merge": "no transpose"}, "The heads are joined without moving T back in front of n_head.", SHAPES),
        ({"order": "kqv"}, "c_attn's output is read as k, q, v.", QKV),
        ({"order": "vkq"}, "c_attn's output is read as v, k, q.", QKV),
        ({"order": "qvk"}, "c_attn's output is read as q, v, k.", QKV),
        ({"order": "kvq"}, "c_attn's output is read as k, v, q.", QKV),
        ({"order": "vqk"}, "c_attn's output is read as v, q, k.", QKV),
        ({"order": "interleaved by head"}, "c_attn's output is read head by head (q, k, v of each head in turn).", QKV),
        ({"order": "interleaved by channel"}, "c_attn's output is read with q, k and v in turn in every channel.", QKV),
        ({"scores": "k from q"}, "The scores are q times q: k is made from q by mistake.", QKV),
        ({"values": "inputs"}, "The weights average the inputs x instead of the values v.", QKV),
        ({"values": "keys"}, "The weights average the keys instead of the values.", QKV),
        ({"norm": "unit q and k"}, "q and k are normalised to length 1, which the contract does not ask for.", SCALE),
        ({"project": "left out"}, "c_proj is not applied: the joined heads are returned as they are.", "Reread the end of attention: the output projection mixes the heads."),
        ({"residual": "inside"}, "The input is added inside attention; the residual belongs to the Block.", WIRING),
    ],
    "mlp": [
        ({"act": "exact"}, "The GELU is the exact one (erf); the contract asks for the tanh approximation.", GELU),
        ({"act": "relu"}, "The activation is ReLU, not GELU.", GELU),
        ({"act": "relu squared"}, "The activation is squared ReLU, not GELU.", GELU),
        ({"act": "silu"}, "The activation is SiLU (swish), not GELU.", GELU),
        ({"act": "sigmoid gelu"}, "The GELU is the sigmoid approximation; the contract asks for the tanh one.", GELU),
        ({"act": "tanh"}, "The activation is tanh, not GELU.", GELU),
        ({"act": "sigmoid"}, "The activation is a sigmoid, not GELU.", GELU),
        ({"act": "leaky"}, "The activation is LeakyReLU, not GELU.", GELU),
        ({"act": "elu"}, "The activation is ELU, not GELU.", GELU),
        ({"act": "softplus"}, "The activation is softplus, not GELU.", GELU),
        ({"act": "none"}, "There is no activation between the two layers: together they are one linear map.", GELU),
        ({"act": "power"}, "The hand-written GELU has x^2 where x^3 belongs.", GELU),
        ({"act": "root"}, "The hand-written GELU has sqrt(2*pi) where sqrt(2/pi) belongs.", GELU),
        ({"act": "no cube"}, "The hand-written GELU lacks its cubic term.", GELU),
        ({"act": "no half"}, "The hand-written GELU lacks the factor 0.5.", GELU),
        ({"act": "cube 0.44715"}, "The hand-written GELU has 0.44715 where 0.044715 belongs.", GELU),
        ({"act": "cube 0.0044715"}, "The hand-written GELU has 0.0044715 where 0.044715 belongs.", GELU),
        ({"place": "after"}, "The activation comes after c_proj instead of between the layers.", GELU),
        ({"place": "before"}, "The activation comes before c_fc instead of between the layers.", GELU),
        ({"place": "both"}, "There is a second activation after c_proj: nothing follows it.", GELU),
        ({"input": "centred"}, "The input is centred first; that is LayerNorm's work, in the Block.", WIRING),
        ({"input": "normalised"}, "The input is normalised inside the MLP; that is the Block's work.", WIRING),
        ({"residual": "inside"}, "The input is added inside the MLP; the residual belongs to the Block.", WIRING),
    ],
    "block": [
        ({"order": "post-norm"}, "The norms come after the additions (post-norm); the contract norms before each sub-layer.", WIRING),
        ({"order": "norm after branch"}, "Each sub-layer's output is normalised instead of its input.", WIRING),
        ({"order": "norm of stream"}, "The stream itself is normalised: the additions must start from the raw x.", WIRING),
        ({"order": "residual of first norm"}, "The first addition starts from the normalised x; it must start from the raw x.", WIRING),
        ({"order": "parallel"}, "Attention and MLP run side by side; the MLP must see what attention added.", WIRING),
        ({"order": "parallel, one norm"}, "Attention and MLP run side by side on one norm; the MLP must see what attention added.", WIRING),
        ({"order": "mlp first"}, "The MLP comes before attention.", WIRING),
        ({"order": "mlp first, norms in turn"}, "The MLP comes before attention.", WIRING),
        ({"order": "no residuals"}, "Both residual connections are missing.", WIRING),
        ({"order": "no attention residual"}, "The residual connection around attention is missing.", WIRING),
        ({"order": "no mlp residual"}, "The residual connection around the MLP is missing.", WIRING),
        ({"order": "attention lost"}, "Attention's result is lost: it is computed, but not in the stream.", WIRING),
        ({"order": "mlp lost"}, "The MLP's result is lost: it is not in the stream.", WIRING),
        ({"order": "second residual from input"}, "The second addition starts from the block's input: attention's result is lost.", WIRING),
        ({"order": "input added twice"}, "The block's input is added twice.", WIRING),
        ({"order": "attention twice"}, "Attention is used in place of the MLP.", WIRING),
        ({"order": "norm twice"}, "ln_1 is applied twice in a row.", WIRING),
        ({"order": "second norm twice"}, "ln_2 is applied twice in a row.", WIRING),
        ({"norms": "swapped"}, "ln_1 and ln_2 are swapped.", WIRING),
        ({"norms": "first twice"}, "ln_1 is used for both sub-layers; ln_2 is never used.", WIRING),
        ({"norms": "second twice"}, "ln_2 is used for both sub-layers; ln_1 is never used.", WIRING),
        ({"unnormed": "attention"}, "Attention gets x as it is: ln_1 is not applied.", WIRING),
        ({"unnormed": "mlp"}, "The MLP gets x as it is: ln_2 is not applied.", WIRING),
        ({"unnormed": "both"}, "Neither norm is applied.", WIRING),
        ({"factor": 0.5}, "The sub-layers' results are halved before they are added.", WIRING),
        ({"factor": 2**-0.5}, "The sub-layers' results are divided by sqrt(2) before they are added.", WIRING),
        ({"factor": 2.0}, "The sub-layers' results are added twice.", WIRING),
        ({"factor": -1.0}, "The sub-layers' results are subtracted.", WIRING),
        ({"norm": "rms"}, "The norm is RMSNorm: it does not subtract the mean.", NORM),
        ({"norm": "rms 1e-6"}, "The norm is RMSNorm: it does not subtract the mean.", NORM),
        ({"norm": "over time"}, "The norm runs over time (dim 1) instead of the channels.", NORM),
        ({"norm": "batch"}, "The norm is BatchNorm: it mixes tokens and batch rows.", NORM),
        ({"norm": "unbiased"}, "The norm divides by the unbiased deviation (N - 1 instead of N).", NORM),
        ({"norm": "not centred"}, "The norm does not subtract the mean.", NORM),
        ({"norm": "only centred"}, "The norm subtracts the mean but does not divide by the deviation.", NORM),
        ({"norm": "no root"}, "The norm divides by the variance instead of its square root.", NORM),
    ],
    "gpt": [
        ({"positions": "left out"}, "The positions are not added: without them order cannot be told.", POSITIONS),
        ({"positions": "of tokens"}, "wpe is indexed with token ids; it takes positions.", POSITIONS),
        ({"positions": "swapped"}, "wte and wpe are swapped.", POSITIONS),
        ({"positions": "from one"}, "Positions start at 1; they start at 0 (and overflow at T = block_size).", POSITIONS),
        ({"positions": "reversed"}, "Positions count down, so that they change with T.", POSITIONS),
        ({"positions": "the last"}, "The last rows of wpe are used instead of the first T.", POSITIONS),
        ({"positions": "all the first"}, "Every token gets position 0.", POSITIONS),
        ({"positions": "all the last"}, "Every token gets the same, last position.", POSITIONS),
        ({"positions": "multiplied"}, "Token and position vectors are multiplied instead of added.", POSITIONS),
        ({"positions": "twice"}, "The positions are added twice.", POSITIONS),
        ({"positions": "subtracted"}, "The positions are subtracted.", POSITIONS),
        ({"positions": "alone"}, "The token vectors are lost: only positions go on.", POSITIONS),
        ({"tokens": "scaled"}, "The token vectors are multiplied by sqrt(n_embd), as the first transformer did; GPT-2 does not.", POSITIONS),
        ({"final": "left out"}, "ln_f is not applied (or its result is dropped).", ASSEMBLY),
        ({"final": "before blocks"}, "ln_f is applied before the blocks instead of after them.", ASSEMBLY),
        ({"final": "in the loop"}, "ln_f is applied after every block: it is inside the loop.", ASSEMBLY),
        ({"final": "twice"}, "ln_f is applied twice.", ASSEMBLY),
        ({"blocks": "no last"}, "The last block is not run.", ASSEMBLY),
        ({"blocks": "no first"}, "The first block is not run.", ASSEMBLY),
        ({"blocks": "none"}, "The blocks are not run.", ASSEMBLY),
        ({"blocks": "reversed"}, "The blocks run in reverse order.", ASSEMBLY),
        ({"blocks": "not chained"}, "Every block gets the embeddings: each must get the result of the one before.", ASSEMBLY),
        ({"blocks": "first only"}, "The first block is run n_layer times.", ASSEMBLY),
        ({"blocks": "residual around"}, "x is added once more around each block; the block has its own residuals.", ASSEMBLY),
        ({"logits": "softmax"}, "Probabilities are returned instead of logits.", LOGITS),
        ({"logits": "log softmax"}, "Log-probabilities are returned instead of logits.", LOGITS),
        ({"logits": "sigmoid"}, "A sigmoid is applied to the logits.", LOGITS),
        ({"logits": "softmax over time"}, "A softmax over time is applied to the logits.", LOGITS),
        ({"logits": "scaled"}, "The logits are divided by sqrt(n_embd).", LOGITS),
        ({"logits": "capped at 30"}, "The logits are capped by a tanh.", LOGITS),
        ({"logits": "capped at 15"}, "The logits are capped by a tanh.", LOGITS),
    ],
}  # fmt: skip

BANK: tuple[Misconception, ...] = tuple(
    Misconception(part, tuple(switches.items()), sentence, look_at)
    for part, entries in _BANK.items()
    for switches, sentence, look_at in entries
)

#: Loosest agreement that counts as a match, relative to the largest value: float32 noise is far below it, and any other
#: mistake far above.
MATCH = 1e-4


def recognise(
    part: str, inputs: Mapping[str, Tensor], weights: Mapping[str, Tensor], config: Config, output: Tensor
) -> tuple[Misconception, ...]:
    """Return the one mistake, or the two, under which the formulas give exactly `output`; empty when none do."""
    if torch.isnan(output).double().mean() > 0.5:
        return ()  # too little is left to tell mistakes apart
    for candidate in itertools.chain(((m,) for m in of_part(part)), pairs(part)):
        if matches(part, candidate, inputs, weights, config, output):
            return candidate
    return ()


def of_part(part: str) -> list[Misconception]:
    return [entry for entry in BANK if entry.part == part]


def pairs(part: str) -> Iterator[tuple[Misconception, ...]]:
    """Yield two mistakes at once, of those that do not touch the same thing."""
    for first, second in itertools.combinations(of_part(part), 2):
        if not first.keys & second.keys:
            yield first, second


def matches(
    part: str,
    candidate: tuple[Misconception, ...],
    inputs: Mapping[str, Tensor],
    weights: Mapping[str, Tensor],
    config: Config,
    output: Tensor,
) -> bool:
    """Whether the formulas with these mistakes give `output`; NaN matches NaN."""
    switches = {key: value for entry in candidate for key, value in entry.switches}
    try:
        predicted = run(part, inputs, weights, config, switches)
    except (RuntimeError, KeyError, IndexError):
        return False
    if predicted.shape != output.shape:
        return False
    mine = output.double()
    if not torch.equal(torch.isnan(predicted), torch.isnan(mine)):
        return False
    predicted, mine = torch.nan_to_num(predicted), torch.nan_to_num(mine)
    scale = float(predicted.abs().max()) or 1.0
    return float((predicted - mine).abs().max()) <= MATCH * scale
