"""Messages: what goes in comes out byte for byte, and whatever `encode` would not have written is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.probe.frames import MAGIC, MAX_HEADER, PREFIX_SIZE, Assembler, frame_start
from autograder.probe.protocol import DTYPES, MAX_NAME, ProtocolError, decode, encode


def carry(header: dict[str, Any], tensors: dict[str, torch.Tensor]) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    frame = assemble(b"".join(encode(header, tensors)))
    return decode(frame.header, frame.body)


def assemble(stream: bytes, body_limit: int = 1 << 30, step: int = 1 << 30) -> Assembler:
    frame = Assembler(body_limit)
    while True:
        space = frame.space()
        piece = stream[: min(len(space), step)]
        assert piece, "the frame wants more than there is"
        space[: len(piece)] = piece
        stream = stream[len(piece) :]
        if frame.advance(len(piece)):
            assert not stream, "the frame stopped early"
            return frame


def raw(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()) if tensor.numel() else b""


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(DTYPES)),
    st.lists(st.integers(0, 4), max_size=8).filter(lambda shape: math.prod(shape) < 4000),  # hypothesis draws no more
    st.randoms(use_true_random=False),
)
def test_every_dtype_and_shape_arrives_byte_for_byte(dtype: str, shape: list[int], random: Any) -> None:
    kind = DTYPES[dtype]
    size = math.prod(shape) * kind.itemsize
    content = bytearray(random.randbytes(size)) if dtype != "bool" else bytearray(random.choices([0, 1], k=size))
    sent = torch.frombuffer(content, dtype=kind).reshape(shape) if size else torch.empty(shape, dtype=kind)
    _, got = carry({}, {"x": sent})
    assert got["x"].dtype == kind
    assert list(got["x"].shape) == shape
    assert raw(got["x"]) == bytes(content)  # also the payload of a NaN


def test_awkward_tensors_arrive_as_their_values() -> None:
    base = torch.arange(24.0).reshape(4, 6)
    sent = {
        "transposed": base.T,
        "strided": base[::2, ::3],
        "expanded": base[:1, :1].expand(3, 5),
        "overlapping": base.as_strided((3, 3), (1, 1)),
        "shared": base,
        "shared again": base,
        "leaf": torch.ones(2, requires_grad=True),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "computed": torch.ones(2, requires_grad=True) * 3,
        "negative view": torch.tensor([1 + 2j]).conj().imag,
        "scalar": torch.tensor(3.5),
        "empty": torch.empty(0, 3),
    }
    _, got = carry({}, sent)
    assert list(got) == list(sent)
    for name, tensor in sent.items():
        assert type(got[name]) is torch.Tensor
        assert not got[name].requires_grad
        assert torch.equal(got[name], tensor.detach()), name


def test_what_arrives_lies_on_memory_of_its_own() -> None:
    shared = torch.zeros(4)
    _, got = carry({}, {"a": shared, "b": shared})
    got["a"].add_(1)
    assert got["b"].sum() == 0
    assert shared.sum() == 0


def test_a_body_that_cannot_be_written_to_decodes_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    frame = assemble(b"".join(encode({}, {"x": torch.ones(3)})))
    assert torch.equal(decode(frame.header, bytes(frame.body))[1]["x"], torch.ones(3))
    assert not list(recwarn)


def test_headers_keep_surrogates_nan_and_nesting() -> None:
    header = {"text": "a\ud800\x00\x1bü", "nan": math.nan, "inf": -math.inf, "deep": [[[{"x": [None, True]}]]]}
    got, _ = carry(header, {})
    assert math.isnan(got.pop("nan"))
    assert got == {key: value for key, value in header.items() if key != "nan"}


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(2, dtype=torch.complex64),
        torch.zeros(2, device="meta"),
        torch.eye(2).to_sparse(),
        torch.zeros([1] * 9),
    ],
    ids=["complex", "meta", "sparse", "nine dimensions"],
)
def test_tensors_without_plain_bytes_are_not_sent(tensor: torch.Tensor) -> None:
    with pytest.raises(ProtocolError):
        encode({}, {"x": tensor})


def circular() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "header",
    [{"x": {1, 2}}, {"x": circular()}, {"x": nested(40)}, {"x": "a" * MAX_HEADER}, {"tensors": []}],
    ids=["a set", "a circle", "deep", "long", "the reserved key"],
)
def test_headers_that_are_no_small_plain_data_are_not_sent(header: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        encode(header, {})


def test_overlong_names_are_not_sent() -> None:
    with pytest.raises(ProtocolError):
        encode({}, {"x" * (MAX_NAME + 1): torch.ones(1)})


def record(**changes: Any) -> dict[str, Any]:
    return {**{"name": "x", "dtype": "float32", "shape": [2]}, **changes}


@pytest.mark.parametrize(
    ("records", "body"),
    [
        (None, 0),
        ({"x": 1}, 0),
        ([[]], 0),
        ([record(extra=1)], 8),
        ([{"name": "x", "dtype": "float32"}], 8),
        ([record(name=7)], 8),
        ([record(name="x" * (MAX_NAME + 1))], 8),
        ([record(dtype="complex64")], 16),
        ([record(dtype=["float32"])], 8),
        ([record(shape=2)], 8),
        ([record(shape=[-2])], 8),
        ([record(shape=[True, 2])], 8),
        ([record(shape=[2.0])], 8),
        ([record(shape=["2"])], 8),
        ([record(shape=[1] * 9)], 4),
        ([record(shape=[2**40])], 8),
        ([record(shape=[0, 2**30, 2**30, 2**30])], 0),
        ([record(shape=[2**30, 2**30])], 8),
        ([record(), record()], 16),
        ([record()], 7),
        ([record()], 9),
        ([], 1),
    ],
)
def test_ill_formed_lists_of_tensors_are_refused(records: Any, body: int) -> None:
    header = {} if records is None else {"tensors": records}
    with pytest.raises(ProtocolError):
        decode(json.dumps(header).encode(), bytearray(body))


def test_a_bool_that_is_neither_true_nor_false_is_refused() -> None:
    header = json.dumps({"tensors": [record(dtype="bool")]}).encode()
    with pytest.raises(ProtocolError, match="bool"):
        decode(header, bytearray([1, 2]))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'"tensors"',
        b"[" * 500_000,
        b'{"a":' * 100_000,
        b'{"tensors":[],"a":' + b"[" * 60 + b"]" * 60 + b"}",
        b'{"tensors":[],"a":' + b"9" * 4000 + b"}",
        b" " * (MAX_HEADER + 1),
    ],
    ids=["nothing", "cut", "list", "bytes", "text", "depth", "depth of objects", "too deep", "digits", "long"],
)
def test_headers_that_are_no_plain_object_are_refused(text: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(text, b"")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_damaged_message_is_refused_or_still_well_formed(data: st.DataObject) -> None:
    good = b"".join(encode({"a": [1, "x"]}, {"w": torch.arange(4), "flag": torch.tensor([True, False])}))
    damaged = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    header_size = int.from_bytes(good[4:8], "big")
    text = bytes(damaged[PREFIX_SIZE : PREFIX_SIZE + header_size])
    try:
        _, tensors = decode(text, damaged[PREFIX_SIZE + header_size :])
    except ProtocolError:
        return
    assert all(type(tensor) is torch.Tensor for tensor in tensors.values())


@pytest.mark.parametrize("step", [1, 3, 1 << 20])
def test_a_frame_is_put_together_from_pieces_of_any_size(step: int) -> None:
    stream = b"".join(encode({"a": 1}, {"x": torch.ones(3)}))
    frame = assemble(stream, step=step)
    header, tensors = decode(frame.header, frame.body)
    assert header == {"a": 1}
    assert torch.equal(tensors["x"], torch.ones(3))


def test_a_frame_without_a_body_is_complete_with_its_header() -> None:
    assert assemble(frame_start({}, 0)).header == b"{}"


@pytest.mark.parametrize(
    "prefix",
    [
        b"HTTP" + b"\0" * 12,
        MAGIC + (10_000_000).to_bytes(4, "big") + b"\0" * 8,
        MAGIC + b"\0\0\0\2" + (10 * 2**30).to_bytes(8, "big"),
    ],
    ids=["wrong magic", "huge header", "10 GB body"],
)
def test_a_bad_prefix_is_refused_before_anything_is_allocated(prefix: bytes) -> None:
    frame = Assembler(1000)
    assert not frame.started
    frame.space()[:] = prefix
    with pytest.raises(ProtocolError):
        frame.advance(len(prefix))
    assert frame.started
