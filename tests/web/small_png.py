"""A screenshot as a small file: 256 colours of it, one byte a point.

Owns reading and writing the one kind of PNG that a browser makes. Must not know: what is shown. Invariant: a picture keeps
its size, and each point the colour nearest to its own among those that are kept.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterator

MAGIC = b"\x89PNG\r\n\x1a\n"
COLOURS, FREQUENT = 256, 96
"""Colours that are kept, and those among them that are kept because they are frequent."""


def smaller(png: bytes) -> bytes:
    """The picture with at most 256 colours; the picture itself where that is not smaller."""
    wide, high, points = _points(png)
    kept, place = _chosen(Counter(points))
    data = bytes(place[point] for point in points)
    rows = b"".join(b"\0" + data[at * wide : (at + 1) * wide] for at in range(high))
    made = MAGIC + b"".join(
        _chunk(kind, body)
        for kind, body in (
            (b"IHDR", struct.pack(">IIBBBBB", wide, high, 8, 3, 0, 0, 0)),
            (b"PLTE", b"".join(kept)),
            (b"IDAT", zlib.compress(rows, 9)),
            (b"IEND", b""),
        )
    )
    return min(made, png, key=len)


def _chosen(counted: Counter[bytes]) -> tuple[list[bytes], dict[bytes, int]]:
    """The colours that are kept, and the place among them of the one nearest to each colour.

    After the frequent ones those whose points would change most: the small mark of a rare colour stays as it is.
    """
    kept = [colour for colour, _ in counted.most_common(FREQUENT)]
    nearest = {each: min((_distance(each, one), place) for place, one in enumerate(kept)) for each in counted}
    while len(kept) < COLOURS:
        worst = max(nearest, key=lambda each: nearest[each][0] * counted[each])
        if nearest[worst][0] == 0:
            break
        place = len(kept)
        kept.append(worst)
        nearest = {each: min(known, (_distance(each, worst), place)) for each, known in nearest.items()}
    return kept, {each: place for each, (_, place) in nearest.items()}


def _points(png: bytes) -> tuple[int, int, list[bytes]]:
    """The size of a picture, and its points in red, green and blue."""
    body, head = b"", (0, 0, 0, 0)
    for kind, data in _chunks(png):
        if kind == b"IHDR":
            head = struct.unpack(">IIBB", data[:10])
        elif kind == b"IDAT":
            body += data
    wide, high, depth, form = head
    assert depth == 8, "a browser writes eight bits a colour"
    step = {2: 3, 6: 4}[form]
    raw, above, points = zlib.decompress(body), bytes(wide * step), list[bytes]()
    for row in range(high):
        start = row * (wide * step + 1)
        above = _unfiltered(raw[start], raw[start + 1 : start + 1 + wide * step], above, step)
        points += (above[at : at + 3] for at in range(0, wide * step, step))
    return wide, high, points


def _unfiltered(how: int, row: bytes, above: bytes, step: int) -> bytes:
    """A row of bytes as it was before it was filtered."""
    made = bytearray(row)
    for at in range(len(row)):
        left = made[at - step] if at >= step else 0
        corner = above[at - step] if at >= step else 0
        made[at] = (row[at] + _guess(how, left, above[at], corner)) & 255
    return bytes(made)


def _guess(how: int, left: int, up: int, corner: int) -> int:
    """What a filter takes for a byte, from those beside and above it."""
    if how == 4:
        straight = left + up - corner
        return min((left, up, corner), key=lambda each: abs(straight - each))
    return (0, left, up, (left + up) // 2)[how]


def _distance(one: bytes, other: bytes) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(MAGIC)
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        at += size + 12


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
