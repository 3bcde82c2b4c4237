"""A database that has gone back is told from one that has only grown, from another, and from one that was told of."""

from __future__ import annotations

import pytest

from signoff.domain.going_back import Whereabouts, has_gone_back

SEEN = Whereabouts("here", 0, 5, "aa")


@pytest.mark.parametrize(
    ("now", "hash_there", "gone"),
    [
        (Whereabouts("here", 0, 5, "aa"), "aa", False),
        (Whereabouts("here", 0, 9, "ff"), "aa", False),
        (Whereabouts("here", 0, 3, "cc"), None, True),
        (Whereabouts("here", 0, 9, "ff"), "bb", True),  # it has grown anew since
        (Whereabouts("here", 1, 3, "cc"), None, False),  # it was told of
        (Whereabouts("there", 0, 0, ""), None, False),
    ],
)
def test_what_was_seen_must_still_be_there(now: Whereabouts, hash_there: str | None, gone: bool) -> None:
    assert has_gone_back(SEEN, now, hash_there) is gone


def test_nothing_is_known_before_anything_was_seen() -> None:
    assert not has_gone_back(None, SEEN, "aa")
    assert not has_gone_back(Whereabouts("here", 0, 0, ""), SEEN, None)


def test_a_backup_of_before_the_last_restore_is_one_too() -> None:
    assert has_gone_back(Whereabouts("here", 2, 5, "aa"), Whereabouts("here", 1, 5, "aa"), "aa")
