"""Tensors in messages: encode and decode (header, tensors) as frames, byte for byte, without pickle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from autograder.probe.frames import MAX_HEADER, ProtocolError, frame_start, load_header

__all__ = ["DTYPES", "MAX_DIMS", "MAX_HEADER", "MAX_NAME", "ProtocolError", "body_size", "decode", "encode"]

DTYPES: dict[str, torch.dtype] = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint8": torch.uint8,
    "bool": torch.bool,
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}

#: A GPT needs four dimensions; eight leave room and keep hostile shapes small.
MAX_DIMS = 8
#: "transformer.h.11.attn.c_attn.weight" has 36 characters; module paths of students may be longer.
MAX_NAME = 300
#: Up to here copying bytes costs less than sending them by themselves.
SMALL = 1 << 16
#: The header's key under which the tensors are listed. Callers cannot use it for data.
_TENSORS = "tensors"


def encode(header: dict[str, Any], tensors: Mapping[str, torch.Tensor]) -> list[bytes | memoryview]:
    """Return the frame that carries `header` and `tensors`, as buffers to be sent one after the other.

    Tensors may live on any device but meta, share memory, overlap, have any strides, need a gradient, be 0-dim or
    empty; their bytes go unchanged. The buffers alias the tensors' memory where they can: send them before changing it.
    Raises ProtocolError for other dtypes, sparse or meta tensors, and for a header that is not plain data.
    """
    if _TENSORS in header:
        raise ProtocolError(f"the header may not have a key {_TENSORS!r} of its own")
    records = [_record(name, tensor) for name, tensor in tensors.items()]
    start = frame_start({**header, _TENSORS: records}, body_size(tensors))
    return _joined([start, *(_raw_bytes(tensor) for tensor in tensors.values() if tensor.numel())])


def _joined(buffers: list[bytes | memoryview]) -> list[bytes | memoryview]:
    """Put neighbours that are small into one buffer: each buffer costs a system call, and wakes the other side."""
    joined: list[bytes | memoryview] = []
    small: list[bytes | memoryview] = []
    for buffer in buffers:
        if len(buffer) <= SMALL:
            small.append(buffer)
        else:
            joined += [b"".join(small), buffer]
            small = []
    joined.append(b"".join(small))
    return [buffer for buffer in joined if len(buffer)]


def body_size(tensors: Mapping[str, torch.Tensor]) -> int:
    """Return how many bytes the body of a frame with these tensors has (an expanded tensor counts in full)."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def _record(name: str, tensor: torch.Tensor) -> dict[str, Any]:
    if not isinstance(name, str) or len(name) > MAX_NAME:
        raise ProtocolError(f"a tensor's name must be text of at most {MAX_NAME} characters")
    if tensor.layout is not torch.strided or tensor.device.type == "meta":
        raise ProtocolError(f"a {tensor.layout} tensor on {tensor.device} has no bytes to send")
    if tensor.dtype not in _NAMES:
        raise ProtocolError(f"tensors of {tensor.dtype} are not carried; known: {', '.join(DTYPES)}")
    if tensor.dim() > MAX_DIMS:
        raise ProtocolError(f"a tensor has {tensor.dim()} dimensions; at most {MAX_DIMS} are carried")
    return {"name": name, "dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape)}


def _raw_bytes(tensor: torch.Tensor) -> memoryview:
    plain = tensor.dtype is not torch.bfloat16 and tensor.device.type == "cpu" and not tensor.is_neg()
    if plain and tensor.dim() and tensor.is_contiguous():  # the short way, for nearly all
        return tensor.detach().numpy().reshape(-1).data.cast("B")
    flat = tensor.detach().cpu().resolve_neg().contiguous().reshape(-1)
    if flat.stride() != (1,):  # a single element is contiguous whatever its stride, but view() asks for stride 1
        flat = torch.empty_like(flat, memory_format=torch.contiguous_format).copy_(flat)
    return memoryview(flat.view(torch.uint8).numpy().data)


def decode(header_bytes: bytes, body: bytes | bytearray | memoryview) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Return the header (without its list of tensors) and the tensors, each plain, on the CPU, on fresh memory.

    Tensors lie in the body one after the other in the order of the list, without gaps, and fill it exactly. Raises
    ProtocolError for anything that `encode` would not have written.
    """
    header = load_header(header_bytes)
    records = header.pop(_TENSORS, None)
    if not isinstance(records, list):
        raise ProtocolError("the header has no list of tensors")
    view = memoryview(body)
    if view.readonly:  # torch warns about memory that it might write to; the copy below is made once more, and rarely
        view = memoryview(bytearray(view))
    tensors: dict[str, torch.Tensor] = {}
    offset = 0
    for record in records:
        name, dtype, shape = _check_record(record)
        if name in tensors:
            raise ProtocolError("two tensors have one name")
        size = math.prod(shape) * dtype.itemsize
        if offset + size > len(view):
            raise ProtocolError("a tensor is longer than the body")
        tensors[name] = _rebuild(view, offset, size, dtype, shape)
        offset += size
    if offset != len(view):
        raise ProtocolError(f"{len(view) - offset} bytes of the body belong to no tensor")
    return header, tensors


def _check_record(record: Any) -> tuple[str, torch.dtype, tuple[int, ...]]:
    if not isinstance(record, dict) or record.keys() != {"name", "dtype", "shape"}:
        raise ProtocolError("a tensor's record must have name, dtype and shape, and nothing else")
    name, dtype, shape = record["name"], record["dtype"], record["shape"]
    if not isinstance(name, str) or len(name) > MAX_NAME:
        raise ProtocolError(f"a tensor's name must be text of at most {MAX_NAME} characters")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ProtocolError("a tensor has an unknown dtype")
    if not isinstance(shape, list) or len(shape) > MAX_DIMS:
        raise ProtocolError(f"a shape must be a list of at most {MAX_DIMS} sides")
    # type() and not isinstance: True is an int, and no side of ours. Empty tensors may claim any other side, but no
    # honest one passes 2**31, and torch overflows in stride arithmetic beyond 2**63.
    if any(type(side) is not int or not 0 <= side < 2**31 for side in shape):
        raise ProtocolError("a side of a shape must be a whole number from 0 to 2**31 - 1")
    if math.prod(side for side in shape if side) >= 2**62:
        raise ProtocolError("a shape is too large")
    return name, DTYPES[dtype], tuple(shape)


def _rebuild(view: memoryview, offset: int, size: int, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    if not size:
        return torch.empty(shape, dtype=dtype, device="cpu")
    if dtype is torch.bool and bool((torch.frombuffer(view, dtype=torch.uint8, count=size, offset=offset) > 1).any()):
        raise ProtocolError("a bool tensor holds bytes other than 0 and 1")  # undefined behaviour in torch's kernels
    count = size // dtype.itemsize
    return torch.frombuffer(view, dtype=dtype, count=count, offset=offset).clone().reshape(shape)
