"""Orders as people write them: every format means the same, and what is wrong is named with file and line."""

import json
from pathlib import Path

import pytest

from truesort.data import DataError
from truesort.data.orders import Orders, given_orders, read_orders

LISTS = [["a", "b"], ["c", "a", "b"], [str(number) for number in range(3000)]]


def written(folder: Path, text: str | bytes, name: str = "orders.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def same(orders: Orders, names: list[list[str]], grades: list[list[float]]) -> bool:
    return orders.names == names and orders.grades == grades


def test_lists_are_the_same_in_every_format(tmp_path: Path) -> None:
    rising = [[float(place) for place in range(len(names))] for names in LISTS]
    lines = written(tmp_path, "".join(",".join(names) + "\n" for names in LISTS))
    values = written(tmp_path, "\n".join(map(json.dumps, LISTS)), "orders.jsonl")
    graded = "group,item,grade\n" + "".join(
        f"g{group},{name},{place}\n" for group, names in enumerate(LISTS) for place, name in enumerate(names)
    )
    for orders in (read_orders(lines), read_orders(values), given_orders(LISTS)):
        assert same(orders, LISTS, rising)
        assert not orders.graded
    orders = read_orders(written(tmp_path, graded, "graded.csv"))
    assert same(orders, LISTS, rising)
    assert orders.graded


def test_pairs_are_lists_of_two(tmp_path: Path) -> None:
    lines = read_orders(written(tmp_path, "lower,higher\na,b\nc,d\n"))
    values = read_orders(
        written(tmp_path, '{"lower": "a", "higher": "b"}\n\n{"higher": "d", "lower": "c"}\n', "o.jsonl")
    )
    assert lines.names == values.names == [["a", "b"], ["c", "d"]]
    assert lines.lines == [[2, 2], [3, 3]]


def test_equals_share_a_grade() -> None:
    assert same(given_orders([["a", ["b", "c"], "d"]]), [["a", "b", "c", "d"]], [[0, 1, 1, 2]])


def test_groups_may_be_interleaved_in_any_columns(tmp_path: Path) -> None:
    text = "note,Grade,item,group\n,2,a,x\n,0.5,c,y\n,1,b,x\n,1.5,d,y\n"
    assert same(read_orders(written(tmp_path, text)), [["a", "b"], ["c", "d"]], [[2, 1], [0.5, 1.5]])


def test_letor_names_items_by_line(tmp_path: Path) -> None:
    text = "# made\n2 qid:7 1:0.5 # doc\n0 qid:7 1:0.1\n1 qid:8 2:1\n0 qid:8 1:1\n"
    assert same(read_orders(written(tmp_path, text, "train.txt")), [["2", "3"], ["4", "5"]], [[2, 0], [1, 0]])


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    assert read_orders(written(tmp_path, b"\xef\xbb\xbfa,b\n")).names == [["a", "b"]]


def test_lists_without_a_comparison_are_noted_with_their_lines(tmp_path: Path) -> None:
    orders = read_orders(written(tmp_path, 'a,b\na\n\n"b","c"\n'))
    assert orders.names == [["a", "b"], ["b", "c"]]
    assert "orders.csv:2" in orders.notes[0]
    tied = read_orders(written(tmp_path, "group,item,grade\nx,a,1\nx,b,1\ny,a,1\ny,b,2\n", "tied.csv"))
    assert len(tied) == 1
    assert "tied.csv:2" in tied.notes[0]
    assert "orders.jsonl:1" in read_orders(written(tmp_path, '[]\n["a", "b"]', "orders.jsonl")).notes[0]


@pytest.mark.parametrize(
    ("text", "name", "says"),
    [
        ("a,b\na,c,a\n", "o.csv", "o.csv:2: a stands twice"),
        ("a,b\na,,c\n", "o.csv", "o.csv:2: an empty name"),
        ("group,item,grade\nx,a,1\nx,b,good\n", "o.csv", "o.csv:3: the grade 'good' is not a number"),
        ("group,item,grade\nx,a,1\nx,b,nan\n", "o.csv", "o.csv:3: the grade 'nan' is not a number"),
        ("group,item,grade\nx,a,1\nx,b\n", "o.csv", "o.csv:3: 2 cells under 3 columns"),
        ("group,item,grade\nx,a,1\nx,a,2\n", "o.csv", "o.csv:3: a is graded twice in group x"),
        ('["a", "b"]\n["a", \n', "o.jsonl", "o.jsonl:2: not JSON"),
        ('["a", "b"]\n3\n', "o.jsonl", "o.jsonl:2: neither a list"),
        ("[" * 100_000, "o.jsonl", "o.jsonl:1: not JSON"),
        ("2 qid:1 1:1\nx qid:1 1:1\n", "o.txt", "o.txt:2: the grade 'x' is not a number"),
        ("2 qid:1 1:1\n1 1:1\n", "o.txt", "o.txt:2: not of the form"),
        (b"a,b\nc,\xff\n", "o.csv", "o.csv:2: not UTF-8 text"),
        (b"\x89PNG\r\n\x1a\n\0\0", "o.csv", "o.csv:1: not UTF-8"),
        (b"a,b\nc\0,d\n", "o.csv", "o.csv:2: not text"),
        ('a,b\n"c' + "x" * 200_000 + "\n", "o.csv", "not valid CSV"),
        ("", "o.csv", "holds no order"),
        ("a\nb\n", "o.csv", "holds no order"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_file_and_line(tmp_path: Path, text: str | bytes, name: str, says: str) -> None:
    with pytest.raises(DataError) as error:
        read_orders(written(tmp_path, text, name))
    assert says in str(error.value)


def test_many_problems_are_told_at_once_but_not_all(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        read_orders(written(tmp_path, "a,a\n" * 50))
    assert str(error.value).count("o.csv") == 0
    assert str(error.value).count("orders.csv:") == 5
    assert "45 more" in str(error.value)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no\.csv cannot be read"):
        read_orders(tmp_path / "no.csv")
