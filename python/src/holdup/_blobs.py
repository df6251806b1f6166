"""What is compressed or encoded in a bundle: JSON in zlib form, and histograms."""

from __future__ import annotations

import json
import math
import struct
import zlib
from dataclasses import dataclass
from typing import Any, Iterator, List, Optional

#: The most bytes of JSON that the schema allows.
MOST_JSON_BYTES = 64 << 20
_COOKIE = 0x1C849303


def inflate(blob: bytes, size: int) -> bytes:
    """Decompresses no more than ``size`` bytes."""
    machine = zlib.decompressobj()
    data = machine.decompress(blob, size + 1)
    if len(data) != size or machine.unconsumed_tail:
        raise ValueError(f"it has not the {size} bytes that are noted")
    return data


def document(blob: bytes, size: int) -> Any:
    """JSON in zlib form."""
    if not 0 <= size <= MOST_JSON_BYTES:
        raise ValueError(f"{size} bytes of JSON are more than a bundle has")
    return json.loads(inflate(blob, size))


@dataclass(frozen=True)
class Bucket:
    """Durations that a histogram does not distinguish."""

    lowest_ns: int
    highest_ns: int
    count: int


class Histogram:
    """A distribution of durations in ns, with at most 0.1 % relative error for each.

    It is the HdrHistogram of the bundle (V2 encoding; github.com/HdrHistogram/HdrHistogram, AbstractHistogram.java).
    """

    def __init__(self, blob: bytes) -> None:
        if len(blob) < 40:
            raise ValueError("a histogram is too short")
        cookie, length, _, digits, self.lowest_ns, self.highest_ns, _ = struct.unpack_from(">IiiiQQd", blob)
        if cookie & ~0xF0 != _COOKIE & ~0xF0 or not 0 <= digits <= 5 or len(blob) - 40 < length or self.lowest_ns < 1:
            raise ValueError("a histogram has no valid head")
        # As HdrHistogram has it: neighbours in a bucket differ by one part in 10^digits at most.
        self._unit = self.lowest_ns.bit_length() - 1
        self._half_bits = max(math.ceil(math.log2(2 * 10**digits)), 1) - 1
        self._counts: List[int] = []
        places = list(_zigzags(blob[40 : 40 + length]))
        most = (66 - self._half_bits) << self._half_bits
        for number in places:
            if number < 0:
                if len(self._counts) - number > most:
                    raise ValueError("a histogram is too long")
                self._counts.extend([0] * -number)
            else:
                self._counts.append(number)
        self.count = sum(self._counts)

    def _bucket(self, place: int) -> Bucket:
        half = 1 << self._half_bits
        shift = (place >> self._half_bits) - 1
        sub = (place & (half - 1)) + half
        if shift < 0:
            shift, sub = 0, sub - half
        lowest = sub << (shift + self._unit)
        return Bucket(lowest, lowest + (1 << (shift + self._unit)) - 1, self._counts[place])

    def __iter__(self) -> Iterator[Bucket]:
        """The buckets that are not empty, the shortest durations first."""
        return (self._bucket(place) for place, count in enumerate(self._counts) if count)

    def quantile(self, q: float) -> Optional[int]:
        """The duration in ns at or below which the share ``q`` of all is: the upper end of its bucket, as holdup has it.

        ``None`` where nothing was counted.
        """
        if not 0 <= q <= 1:
            raise ValueError(f"q = {q}: must be between 0 and 1")
        wanted = min(max(math.ceil(q * self.count), 1), self.count)
        seen = 0
        for bucket in self:
            seen += bucket.count
            if seen >= wanted:
                return bucket.lowest_ns if q == 0 else bucket.highest_ns
        return None


def _zigzags(data: bytes) -> Iterator[int]:
    """Numbers of up to 64 bits, seven bits a byte, the sign in the lowest; the ninth byte has eight bits."""
    value = shift = 0
    for byte in data:
        if shift == 56:
            value |= byte << shift
            is_last = True
        else:
            value |= (byte & 0x7F) << shift
            is_last = byte < 0x80
        if is_last:
            yield (value >> 1) ^ -(value & 1)
            value = shift = 0
        else:
            shift += 7
    if shift:
        raise ValueError("a histogram ends within a number")
