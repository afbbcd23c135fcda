"""A zip or tar archive as a listing: checked name by name and read in memory, never unpacked to a disk."""

from __future__ import annotations

import bz2
import contextlib
import io
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from autograder.submission import limits
from autograder.submission.limits import MB, Refused, too_large
from autograder.submission.names import (
    FOREIGN_ARCHIVE_SUFFIXES,
    Entry,
    Kind,
    archive_parts,
    is_pruned,
    is_system,
    leads_out,
    shown,
    suffix_of,
)
from autograder.verdict import Verdict

_CHUNK = 64 * 1024
#: Streams packed one after the other (pbzip2 writes one for each 100 to 900 kB).
_MAX_STREAMS = 2_000
#: xz -9 needs 65 MB to unpack; the format allows 4 GB.
_XZ_MEMORY = 128 * MB
#: Names and attributes that a tar keeps ahead of a member. The longest path there is takes 4 kB.
_MAX_TAR_HEADER = 1 * MB
_MAX_LINK_TARGET = 4096
#: The same entry of a central directory over and over makes millions of objects: look before zipfile does.
_ZIP_ENTRY = b"PK\x01\x02"
_UNIX_SYSTEMS = (3, 19)  # "create_system" of a zip entry whose upper attribute bits are a Unix mode: Unix, macOS


@dataclass(frozen=True)
class _Member:
    name: str
    kind: Kind
    size: int
    read: Callable[[int], bytes]  # at most so many bytes


class Archive:
    """The contents of one archive. Raises Refused for one that is unsafe, damaged, encrypted or of an unknown kind."""

    def __init__(self, data: bytes, name: str) -> None:
        self.entries: list[Entry] = []
        self.pruned: list[str] = []
        self.warnings: list[str] = []
        self._name = shown(name)
        found: dict[tuple[str, ...], Entry] = {}
        try:
            for count, member in enumerate(_members(data, name), 1):
                if count > limits.MAX_FILES:
                    raise _too_many()
                parts = archive_parts(member.name)
                if parts in found and "file" in (member.kind, found[parts].kind):
                    self.warnings.append(f"{shown('/'.join(parts))} is in the archive twice: the last one counts.")
                found[parts] = Entry(parts, member.kind, member.size, member.read)
        except Refused:
            raise
        except Exception as error:  # both modules raise nearly anything (struct.error, KeyError...) on damaged bytes
            raise self._damaged() from error
        found.pop((), None)  # "./"
        self._keep(_unwrapped(list(found.values())))

    def read(self, entry: Entry, limit: int) -> bytes:
        """Return the bytes of a member. Raises Refused when it is larger than `limit` bytes, or damaged."""
        assert callable(entry.key)
        if entry.size > limit:
            raise too_large(shown(entry.name), limit)
        try:
            data = entry.key(limit + 1)  # a size can be declared wrongly
        except Refused:
            raise
        except Exception as error:
            raise self._damaged() from error
        assert isinstance(data, bytes)
        if len(data) > limit:
            raise too_large(shown(entry.name), limit)
        return data

    def _keep(self, entries: list[Entry]) -> None:
        pruned: dict[str, None] = {}
        for entry in entries:
            if len(entry.parts) > limits.MAX_DEPTH + 1:
                raise Refused(f"The archive holds folders more than {limits.MAX_DEPTH} levels deep.")
            cut = next((index for index, part in enumerate(entry.parts, 1) if is_pruned(part)), 0)
            if not cut:
                self.entries.append(entry)
            elif not is_system(entry.parts[cut - 1]):
                pruned["/".join(entry.parts[:cut])] = None
        self.pruned = list(pruned)

    def _damaged(self) -> Refused:
        return Refused(f"{self._name} is damaged and cannot be opened: pack it again.", Verdict.FAILED)


def _unwrapped(entries: list[Entry]) -> list[Entry]:
    """Take off the one folder that everything is in, if there is one; what systems and tools leave does not count."""
    while True:
        own = [entry for entry in entries if not is_pruned(entry.parts[0])]
        tops = {entry.parts[0] for entry in own}
        if len(tops) != 1 or any(len(entry.parts) == 1 and entry.kind != "folder" for entry in own):
            return entries
        inner = [entry for entry in own if len(entry.parts) > 1]
        if not inner:
            return entries
        entries = [Entry(entry.parts[1:], entry.kind, entry.size, entry.key) for entry in inner]


def _members(data: bytes, name: str) -> Iterator[_Member]:
    if data.startswith(b"PK"):
        return _zip_members(data)
    if data.startswith(b"\x1f\x8b"):
        return _tar_members(_inflated(data, lambda: zlib.decompressobj(wbits=31)))
    if data.startswith(b"BZh"):
        return _tar_members(_inflated(data, bz2.BZ2Decompressor))
    if data.startswith(b"\xfd7zXZ\0"):
        return _tar_members(_inflated(data, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, _XZ_MEMORY)))
    if suffix_of(name) in FOREIGN_ARCHIVE_SUFFIXES:
        raise Refused(f"{shown(name)} is of a kind that cannot be opened: submit a .zip or a .tar.gz.", Verdict.FAILED)
    return _tar_members(data)


# --- zip


def _zip_members(data: bytes) -> Iterator[_Member]:
    if data.count(_ZIP_ENTRY) > 10 * limits.MAX_FILES:
        raise _too_many()
    book = zipfile.ZipFile(io.BytesIO(data))
    infos = book.infolist()
    if len(infos) > limits.MAX_FILES:
        raise _too_many()
    if any(info.flag_bits & 0x41 for info in infos):  # bits 0 and 6: encrypted, strongly encrypted
        raise Refused("The archive is encrypted: pack it without a password.", Verdict.FAILED)
    _check_sizes(sum(info.file_size for info in infos), len(data))
    for info in infos:
        yield _zip_member(book, info)


def _zip_member(book: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Member:
    def read(limit: int) -> bytes:
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # zipfile does not bound the others
            raise Refused(
                f"{shown(name)} is packed in an unusual way (method {info.compress_type}): use plain zip.",
                Verdict.FAILED,
            )
        with book.open(info) as stream:
            return stream.read(limit)

    name = info.orig_filename if "\0" in info.orig_filename else info.filename
    if not info.flag_bits & 0x800:  # not marked as UTF-8: zipfile took it for cp437, but macOS does not set the mark
        with contextlib.suppress(UnicodeError):
            name = name.encode("cp437").decode("utf-8")
    mode = info.external_attr >> 16 if info.create_system in _UNIX_SYSTEMS else 0
    kind: Kind = "folder" if info.is_dir() else "file"
    if stat.S_ISLNK(mode):
        target = read(_MAX_LINK_TARGET).decode("utf-8", "replace")
        kind = _link_kind(name, target)
    elif stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise _not_regular(name)
    return _Member(name, kind, info.file_size, read)


# --- tar


class _Machine(Protocol):
    """What zlib's, bz2's and lzma's decompressors have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def _inflated(data: bytes, make: Callable[[], _Machine]) -> bytes:
    """Return what `data` unpacks to. Raises Refused as soon as that is more than a submission may hold."""
    out = bytearray()
    machine, streams = make(), 1
    for start in range(0, len(data), _CHUNK):
        chunk = data[start : start + _CHUNK]
        while chunk:
            if machine.eof:
                if not chunk.strip(b"\0"):  # padding to a whole block
                    break
                machine, streams = make(), streams + 1
                if streams > _MAX_STREAMS:
                    raise _bomb()
            out += machine.decompress(chunk, limits.MAX_UNPACKED + 1 - len(out))
            _check_sizes(len(out), len(data))
            chunk = machine.unused_data
    if not machine.eof:
        raise EOFError
    return bytes(out)


class _Headers(io.BytesIO):
    """A tar in memory that refuses to hand out a header of absurd length; members are cut out of it by offset."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size > _MAX_TAR_HEADER:
            raise Refused("The archive is not built as an honest tar is (an endless header).")
        return super().read(size)


def _tar_members(data: bytes) -> Iterator[_Member]:
    with tarfile.open(fileobj=_Headers(data), mode="r:", encoding="utf-8", errors="surrogateescape") as book:
        while (info := book.next()) is not None:
            yield _tar_member(data, info)


def _tar_member(data: bytes, info: tarfile.TarInfo) -> _Member:
    def read(limit: int) -> bytes:
        return data[info.offset_data : info.offset_data + min(info.size, limit)]

    if info.issym() or info.islnk():
        above = info.name if info.issym() else "top"  # a hard link's target counts from the top of the archive
        return _Member(info.name, _link_kind(above, info.linkname), 0, read)
    if info.isdir():
        return _Member(info.name, "folder", 0, read)
    if not info.isreg() or info.issparse():
        raise _not_regular(info.name)
    if info.size < 0 or info.offset_data + info.size > len(data):
        raise EOFError
    return _Member(info.name, "file", info.size, read)


# --- both


def _link_kind(name: str, target: str) -> Kind:
    return "link out" if leads_out(archive_parts(name)[:-1], target) else "link"


def _check_sizes(unpacked: int, packed: int) -> None:
    if unpacked > limits.MAX_UNPACKED:
        raise Refused(f"The archive unpacks to more than {limits.MAX_UNPACKED // MB} MB: hand in your own files only.")
    if unpacked > limits.RATIO_FLOOR and unpacked > limits.MAX_RATIO * packed:
        raise _bomb()


def _bomb() -> Refused:
    return Refused(f"The archive unpacks to more than {limits.MAX_RATIO} times its size: it is not read.")


def _too_many() -> Refused:
    return Refused(f"The archive holds more than {limits.MAX_FILES:,} files: hand in your own files only.")


def _not_regular(name: str) -> Refused:
    return Refused(f"The archive holds something that is not a regular file ({shown(name)}).")
