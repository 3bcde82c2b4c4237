"""Token buckets in memory: so many at once, and as many again in a minute. Their number is bounded."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

MOST_BUCKETS = 10_000


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class Buckets:
    """One bucket for each key. The one that was not used for longest is dropped, and would come back full.

    `per_minute` 0 is no limit. `clock` gives seconds, and never goes back.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float], most: int = MOST_BUCKETS) -> None:
        self._size = float(per_minute)
        self._clock = clock
        self._most = most
        self._buckets: OrderedDict[Hashable, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def wait_for(self, key: Hashable) -> float:
        """Seconds until there is a token; 0 if there is one. Takes none, and makes no bucket."""
        if self._size == 0 or key not in self._buckets:
            return 0.0
        missing = 1.0 - self._filled(self._buckets[key]).tokens
        return max(0.0, missing * 60.0 / self._size)

    def take(self, key: Hashable) -> None:
        """Takes a token, or what is left of one."""
        if self._size == 0:
            return
        bucket = self._filled(self._buckets.setdefault(key, _Bucket(self._size, self._clock())))
        bucket.tokens = max(0.0, bucket.tokens - 1.0)
        self._buckets.move_to_end(key)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)

    def _filled(self, bucket: _Bucket) -> _Bucket:
        now = self._clock()
        bucket.tokens = min(self._size, bucket.tokens + (now - bucket.at) * self._size / 60.0)
        bucket.at = now
        return bucket
