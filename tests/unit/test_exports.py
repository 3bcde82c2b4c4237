"""Reading exports as providers write them, and refusing those that can't be read, by their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from signoff.domain.errors import ExportUnreadable
from signoff.domain.reconciling import Record
from signoff.infra.reconcile.exports import MOST_BAD_LINES, Columns, Format, format_of, read_export
from signoff.infra.reconcile.kept import kept

COLUMNS = Columns(reference="id", status="status", applied=frozenset({"succeeded"}))
OPERATION = "op_" + "a" * 40
CSV = f'idempotency_key,id,status\n{OPERATION}.0,p-1,succeeded\n"k\n2",p-2,declined\n,p-3,succeeded\n'
READ = [Record(2, f"{OPERATION}.0", "p-1", True), Record(4, "k\n2", "p-2", False), None]


def read(tmp_path: Path, raw: bytes, format_: Format = Format.csv, columns: Columns = COLUMNS) -> list[Record | None]:
    file = tmp_path / "export"
    file.write_bytes(raw)
    return list(read_export(file, format_, columns))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_csv_in_the_encodings_that_spreadsheets_write(tmp_path: Path, encoding: str) -> None:
    assert read(tmp_path, CSV.encode(encoding)) == READ
    assert read(tmp_path, CSV.replace("\n", "\r\n").encode(encoding))[0] == READ[0]


def test_json_and_json_lines(tmp_path: Path) -> None:
    rows = [f'{{"idempotency_key": "{OPERATION}", "id": 7, "status": "succeeded"}}', '{"id": "p-2"}']
    wanted = [Record(1, OPERATION, "7", True), None]
    assert read(tmp_path, f"[{','.join(rows)}]".encode(), Format.json) == wanted
    assert read(tmp_path, "\n".join(rows).encode() + b"\n\n", Format.jsonl) == wanted


def test_without_a_status_every_row_counts(tmp_path: Path) -> None:
    (first, *_) = read(tmp_path, CSV.encode(), columns=Columns())
    assert first == Record(2, f"{OPERATION}.0", None, True)


@pytest.mark.parametrize(
    ("raw", "format_", "said"),
    [
        (b"key,id,status\n", Format.csv, "no column 'idempotency_key'; its columns are key, id, status"),
        (b"", Format.csv, "its columns are none"),
        (
            b"idempotency_key,id,status\na,b,c\na,b\na,b,c,d\n",
            Format.csv,
            "line 3: it is 2 columns; line 4: it is 4 columns",
        ),
        (b'idempotency_key,id,status\na,b,c\n"a,b,c\n', Format.csv, "after line 2"),
        (b"idempotency_key,id,status\na,b,c\n\xff\xfe,b,c\n", Format.csv, "no utf-8 text"),
        (b'{"idempotency_key": "a"}\n{\n7\n', Format.jsonl, "line 2: it is no JSON; line 3: it is no object"),
        (b'{"idempotency_key": {"a": 1}}\n', Format.jsonl, "line 1: 'idempotency_key' is no text"),
        (b'{"rows": []}', Format.json, "no JSON array"),
        (b"[" * 100_000, Format.json, "no JSON array"),
    ],
)
def test_what_can_not_be_read_is_refused_as_a_whole(tmp_path: Path, raw: bytes, format_: Format, said: str) -> None:
    file = tmp_path / "export"
    file.write_bytes(raw)
    with pytest.raises(ExportUnreadable, match=said), kept(read_export(file, format_, COLUMNS)):
        raise AssertionError("nothing of it may be used")


def test_many_bad_lines_are_not_all_named(tmp_path: Path) -> None:
    with pytest.raises(ExportUnreadable, match=f"line {MOST_BAD_LINES}: .*and perhaps more"):
        read(tmp_path, b"7\n" * 1000, Format.jsonl)


def test_the_name_says_what_it_is_or_the_caller_must() -> None:
    assert [format_of(Path(name)) for name in ("a.CSV", "a.ndjson", "a.json")] == ["csv", "jsonl", "json"]
    with pytest.raises(ExportUnreadable, match="--format"):
        format_of(Path("export.xlsx"))


def test_rows_are_found_by_operation_and_the_others_remain() -> None:
    records = [Record(2, f"{OPERATION}.1", "p-2"), Record(1, f"{OPERATION}.0", "p-1"), Record(3, "k", None), None]
    with kept(records) as held:
        assert [record.line for record in held.of(OPERATION)] == [1, 2]
        assert held.of("op_" + "b" * 40) == []
        assert list(held.unseen()) == [("k", [Record(3, "k", None)])]
        assert (held.count, held.without_key) == (3, 1)
