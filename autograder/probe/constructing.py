"""Building a student's class: a config that it can read, and, where it asks for plain numbers instead, those."""

from __future__ import annotations

import contextlib
import inspect
import types
from collections.abc import Iterator
from typing import Any

import numpy
from torch import Tensor, nn

#: What constructors with plain arguments call the fields of the configuration.
SYNONYMS = {
    "n_embd": (
        "n_embed",
        "embed_dim",
        "emb_dim",
        "d_model",
        "dim",
        "hidden_size",
        "d_in",
        "d_out",
        "width",
        "channels",
        "C",
    ),
    "n_head": ("num_heads", "n_heads", "heads", "H"),
    "block_size": ("context_length", "max_len", "seq_len", "ctx_len"),
    "n_layer": ("num_layers", "n_layers", "depth", "n_blocks", "N_BLOCKS"),
    "vocab_size": ("vocab", "V"),
}
#: Values for fields that a student's config declares without a default, by their annotation.
GUESSES: dict[Any, Any] = {"float": 0.0, "int": 0, "bool": True, float: 0.0, int: 0, bool: True}

#: What training scripts call on every model.
METHODS = (
    *("train", "eval", "to", "float", "cuda", "parameters", "named_parameters", "modules", "named_modules", "children"),
    *("state_dict", "load_state_dict", "zero_grad", "requires_grad_", "apply", "_apply", "__deepcopy__"),
)


def replaced_methods(model: nn.Module) -> tuple[list[str], list[str]]:
    """Return which of nn.Module's METHODS the model replaces, and which of them by what cannot be called."""
    found: dict[str, object] = {}
    for cls in reversed(type.__getattribute__(type(model), "__mro__")):
        found |= type.__getattribute__(cls, "__dict__") if not issubclass(nn.Module, cls) else {}
    found |= vars(model)
    replaced = [name for name in METHODS if name in found]
    return replaced, [
        name for name in replaced if not callable(found[name]) and not hasattr(type(found[name]), "__get__")
    ]


#: How layers, and models that initialise them, draw their weights: in ten million numbers, a tenth of a second.
_DRAWS = ("normal_", "uniform_")


@contextlib.contextmanager
def uninitialised() -> Iterator[None]:
    """Leave the weights that are drawn in here as they come: for a model of which only the tensors are counted."""
    originals = {name: vars(Tensor).get(name) for name in _DRAWS}  # None: inherited from torch's C++ base
    for name in _DRAWS:
        setattr(Tensor, name, _leave)
    try:
        yield
    finally:
        for name, original in originals.items():
            if original is None:
                delattr(Tensor, name)
            else:
                setattr(Tensor, name, original)


def _leave(tensor: Tensor, *_: Any, **__: Any) -> Tensor:
    return tensor


def plain_value(value: Any) -> dict[str, Any]:
    """Return a field's type by name, and its value where that is a number, a text or none; NumPy's numbers too."""
    kind = str(type.__getattribute__(type(value), "__name__"))
    if isinstance(value, numpy.integer | numpy.floating):
        return {"type": f"numpy.{kind}", "value": value.item()}
    if type(value) in (int, float, bool, type(None)):
        return {"type": kind, "value": value}
    return {"type": kind[:60], "value": str(value)[:50] if type(value) is str else None}


def make_config(cls: Any, values: dict[str, Any]) -> tuple[Any, str]:
    """Return the student's config when it can hold these values, else one of ours that answers for it.

    The second value says which: "student", "refused" (it raised ValueError or AssertionError), or "substitute".
    """
    try:
        config = cls(**values)
        held = {name: getattr(config, name, None) for name in values}
        if held == values and not any(type(value) is float for value in held.values()):
            return config, "student"
    except (ValueError, AssertionError):
        return _substitute(cls, values), "refused"
    except BaseException:  # a config that cannot be built loses its own points, not those of the other classes
        return _substitute(cls, values), "substitute"
    return _substitute(cls, values), "substitute"


def _substitute(cls: Any, values: dict[str, Any]) -> Any:
    """Return a plain object with `values` and whatever else the student's own class declares."""
    extra: dict[str, Any] = {}
    for base in reversed(type.__getattribute__(cls, "__mro__") if isinstance(cls, type) else ()):
        for name, kind in dict(vars(base).get("__annotations__", {})).items():
            extra[name] = GUESSES.get(kind)
        plain = (int, float, str, bool)
        extra |= {
            name: value for name, value in vars(base).items() if not name.startswith("_") and type(value) in plain
        }
    held = {**extra, **values}
    try:  # an instance of the student's own class, for code that asks isinstance(config, GPTConfig)
        config = object.__new__(cls)
        for name, value in held.items():
            object.__setattr__(config, name, value)
    except (TypeError, AttributeError):
        return types.SimpleNamespace(**held)
    return config


def read_field(config: Any, name: str) -> Any:
    """Return a field of a configuration, be it an object or a dict; None when it cannot be read."""
    try:
        return config[name] if isinstance(config, dict) else getattr(config, name)
    except BaseException:
        return None


def argument_names(cls: Any) -> list[str]:
    """Return the names of a constructor's arguments, to tell another interface from a mistake."""
    try:
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


def required_names(cls: Any) -> list[str]:
    """Return the names of the arguments that a constructor cannot do without."""
    try:
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty]


def plain_arguments(cls: Any, values: dict[str, int]) -> dict[str, int]:
    """Return the configuration fields that a constructor with plain arguments asks for, by its own names."""
    head_dim = values["n_embd"] // values["n_head"]
    known = {**values, "head_size": head_dim, "head_dim": head_dim}
    for field, others in SYNONYMS.items():
        known |= dict.fromkeys(others, values[field])
    return {name: known[name] for name in argument_names(cls) if name in known}


def constructed(cls: Any, config: Any, args: dict[str, Any]) -> Any:
    """Call a constructor as `args["interface"]` says: with the config, or with plain numbers out of its fields."""
    how = args.get("interface")
    if how == "arguments":
        return cls(**args["arguments"])
    if how == "ordered":
        return cls(*args["arguments"].values())
    if how == "keywords":
        return cls(**plain_arguments(cls, args["config"]))
    if how == "indexed":
        return cls(config, *[0] * (len(required_names(cls)) - 1))
    if how == "positional":
        return cls(*plain_arguments(cls, args["config"]).values())
    return cls(config)
