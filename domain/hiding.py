"""Arguments that a reviewer without the right may not see: masked for showing, put back after an edit.

A path names them from inside the arguments: `card.number`, `items.*.iban`, with `*` for any key or position. Where the
arguments have another shape than the path (text where an object should be), what is there is hidden as a whole: it may
hold what the path was to hide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from signoff.domain.canonical import MAX_DEPTH
from signoff.domain.errors import EditOutsideSchema

MASK = "[hidden]"

_Paths = list[tuple[str, ...]]
_NOTHING = object()


def path_problems(path: str) -> Iterator[str]:
    """What is wrong with a path of hidden arguments, in words that follow it."""
    keys = path.split(".")
    if not all(key.strip() for key in keys):
        yield "has a name missing between its dots"
    elif any(key != key.strip() for key in keys):
        yield "has a space beside a name"
    elif keys[0] == "args":
        yield f"begins inside the arguments: write {'.'.join(keys[1:]) or '*'!r}"
    elif any("*" in key and key != "*" for key in keys):
        yield "has a * within a name; it stands for a whole name alone"


def masked(args: Mapping[str, Any], hidden: Iterable[str]) -> dict[str, Any]:
    """A deep copy with each hidden value replaced by MASK; what is around it stays."""
    paths = _split(hidden)
    return {key: _masked(value, _below(paths, key), 1) for key, value in args.items()}


def unmasked(edited: Mapping[str, Any], original: Mapping[str, Any], hidden: Iterable[str]) -> dict[str, Any]:
    """A deep copy of the edit, with the hidden value wherever it left MASK in the place of one.

    The items of a list may be moved or taken away as long as it stays plain which is which.

    Raises:
        EditOutsideSchema: a MASK in a hidden place where nothing was hidden, or not plainly this.
    """
    return _restored_object(edited, original, _split(hidden), ())


def paths_of(args: Mapping[str, Any], hidden: Iterable[str]) -> tuple[str, ...]:
    """Where in these very arguments something is hidden, as `items.0.iban`."""
    return tuple(".".join(place) for place in _hidden_places(args, _split(hidden), ()))


def _split(hidden: Iterable[str]) -> _Paths:
    return [tuple(path.split(".")) for path in hidden]


def _below(paths: _Paths, key: object) -> _Paths:
    return [path[1:] for path in paths if path[0] in ("*", str(key))]


def _is_hidden(value: object, paths: _Paths) -> bool:
    """Whether the value is hidden as a whole; `paths` are those that lead to it or into it."""
    if not paths:
        return False
    if () in paths:
        return True
    if isinstance(value, Mapping):
        return False
    if isinstance(value, (list, tuple)):
        return not all(path[0] == "*" or path[0].isdecimal() for path in paths)
    return value is not None


def _masked(value: Any, paths: _Paths, depth: int) -> Any:
    if depth > MAX_DEPTH or _is_hidden(value, paths):
        return MASK
    if isinstance(value, Mapping):
        return {key: _masked(item, _below(paths, key), depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_masked(item, _below(paths, index), depth + 1) for index, item in enumerate(value)]
    return value


def _hidden_places(value: Any, paths: _Paths, place: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if _is_hidden(value, paths):
        yield place
        return
    for key, item in _items(value):
        if below := _below(paths, key):
            yield from _hidden_places(item, below, (*place, str(key)))


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return value.items()
    return enumerate(value) if isinstance(value, (list, tuple)) else ()


# --- putting back --------------------------------------------------------------------------------------


def _restored(edited: Any, original: Any, paths: _Paths, place: tuple[str, ...]) -> Any:
    if not paths:
        return _copied(edited)
    if isinstance(edited, str) and edited == MASK:
        if original is _NOTHING or not _is_hidden(original, paths):
            raise _misplaced(place, "nothing was hidden there")
        return _copied(original)
    if _is_hidden(edited, paths):
        for inner in _mask_places(edited, place):
            raise _misplaced(inner, "nothing was hidden there")
        return _copied(edited)
    if isinstance(edited, Mapping):
        return _restored_object(edited, original, paths, place)
    if isinstance(edited, (list, tuple)):
        return _restored_list(edited, original, paths, place)
    return edited


def _mask_places(value: Any, place: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(value, str) and value == MASK:
        yield place
    for key, item in _items(value):
        yield from _mask_places(item, (*place, str(key)))


def _restored_object(edited: Mapping[str, Any], original: Any, paths: _Paths, place: tuple[str, ...]) -> dict[str, Any]:
    before = original if isinstance(original, Mapping) else {}
    return {
        key: _restored(item, before.get(key, _NOTHING), _below(paths, key), (*place, str(key)))
        for key, item in edited.items()
    }


def _restored_list(edited: Sequence[Any], original: Any, paths: _Paths, place: tuple[str, ...]) -> list[Any]:
    before = original if isinstance(original, (list, tuple)) else ()
    shown = [_masked(item, _below(paths, index), 1) for index, item in enumerate(before)]
    same = range(len(before)) if len(edited) == len(before) else ()
    by_position = bool(same) and not any(_was_moved(index, edited, shown) for index in same)
    found = []
    for index, item in enumerate(edited):
        inside = _below(paths, index)
        came_from = index if by_position else _position(item, shown, inside, (*place, str(index)))
        was = _NOTHING if came_from is None else before[came_from]
        found.append(_restored(item, was, inside, (*place, str(index))))
    return found


def _was_moved(index: int, edited: Sequence[Any], shown: list[Any]) -> bool:
    """Whether this item looks like another one of the list, that is no longer where it was."""
    if edited[index] == shown[index]:
        return False
    return any(edited[index] == other and edited[place] != other for place, other in enumerate(shown))


def _position(item: Any, shown: list[Any], paths: _Paths, place: tuple[str, ...]) -> int | None:
    """Which item of the list this one was; None if it holds no mask, and so need not have been one."""
    if not _has_mask(item, paths):
        return None
    positions = [index for index, other in enumerate(shown) if other == item]
    if len(positions) != 1:
        raise _misplaced(place, "the list was changed, and it is not plain which hidden value belongs here")
    return positions[0]


def _has_mask(value: Any, paths: _Paths) -> bool:
    if _is_hidden(value, paths):
        return any(True for _ in _mask_places(value, ()))
    return any(_has_mask(item, below) for key, item in _items(value) if (below := _below(paths, key)))


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, (list, tuple)) else value


def _misplaced(place: tuple[str, ...], why: str) -> EditOutsideSchema:
    path = ".".join(place)
    return EditOutsideSchema(f"{path}: the edit says {MASK}, but {why}; send the value itself", path=path)
