"""`aicf plan`: files of buffers packed and checked, and what is wrong in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from aicf.cli import main
from aicf.compiler.runtime.plan import csv
from aicf.compiler.runtime.plan.problem import PlanError

DATA = Path(__file__).resolve().parents[1] / "data" / "planner"
pytestmark = pytest.mark.promise("COMPILER-plan-command")
THREE = "id,lower,upper,size\na,0,4,10\nb,3,6,10\nc,4,5,10\n"


def plan(*words: str) -> Result:
    return CliRunner().invoke(main, ["plan", *words])


@pytest.fixture
def three(tmp_path: Path) -> str:
    path = tmp_path / "three.csv"
    path.write_text(THREE)
    return str(path)


def test_a_problem_is_packed(three: str) -> None:
    said = plan(three)
    assert said.exit_code == 0, said.output
    for line in ("buffers: 3, 30 bytes", "peak: 20", "lower bound: 20, at 3", "optimal: yes"):
        assert line in said.output
    found = json.loads(plan(three, "--json", "--align", "16").output)
    assert (found["peak"], found["bound"], found["optimal"], found["align"]) == (32, 32, True, 16)
    assert {b["id"]: b["offset"] % 16 for b in found["buffers"]} == {"a": 0, "b": 0, "c": 0}


def test_the_capacity(three: str) -> None:
    assert "capacity: 20, 0 to spare" in plan(three, "--capacity", "20").output
    said = plan(three, "--capacity", "19")
    assert said.exit_code == 1
    assert "capacity: 19, which is 1 too few, as does every plan" in said.output
    assert "most is live at 3:\n  a: 10 bytes\n  b: 10 bytes" in said.output
    assert json.loads(plan(three, "--capacity", "19", "--json").output)["fits"] is False


def test_a_plan_is_checked(three: str, tmp_path: Path) -> None:
    out = tmp_path / "plan.csv"
    assert plan(three, "-o", str(out)).exit_code == 0
    assert "by: given" in plan(str(out)).output
    _, offsets = csv.read(out)
    assert offsets is not None
    out.write_text(out.read_text().replace(f"b,3,6,10,{offsets['b']}", f"b,3,6,10,{offsets['a']}"))
    said = plan(str(out))
    assert said.exit_code == 1
    assert "a and b both live from 3 until 4 and share the bytes from" in said.output
    again, offsets = csv.parse(plan(three, "-o", "-").output)
    assert [b.id for b in again] == ["a", "b", "c"]
    assert offsets is not None


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "x:1: the first line must name the columns id, lower, upper, size"),
        ("id,lower,upper\n", "x:1: column size is missing"),
        ("id,lower,upper,size,colour\n", "x:1: 'colour' is no column"),
        ("id,lower,upper,size,size\n", "x:1: column size stands there twice"),
        ("a,0,4,10\n", "x:1: 'a' is no column"),
        (THREE + "d,0,1\n", "x:5: size: 3 fields, of 4 columns"),
        (THREE + "d,0,1,2,3\n", "x:5: more: 5 fields, of 4 columns"),
        (THREE + "d,0,x,2\n", "x:5: upper: 'x' is no whole number"),
        (THREE + "d,0,1_0,2\n", "x:5: upper: '1_0' is no whole number"),
        (THREE + "d,0,1,1e3\n", "x:5: size: '1e3' is no whole number"),
        (THREE + "d,0,1," + "9" * 5000 + "\n", r"x:5: size: '9+\.\.\.' is no whole number"),
        (THREE + "d,0,1,-1\n", "x:5: size: -1 is below 0"),
        (THREE + "d,1,1,1\n", "x:5: upper: 1 is not behind lower, 1"),
        (THREE + "\n\na,0,1,1\n", "x:7: id: a stands at line 2 before"),
        (THREE + ",0,1,1\n", "x:5: id: it is empty"),
        ('id,lower,upper,size\n"a,0,1,1\n', "x:2: unexpected end of data"),
        ("id,lower,upper,size,offset\na,0,1,1,\n", "x:2: offset: '' is no whole number"),
        ("id,lower,upper,size,offset\na,0,1,1,-4\n", "x:2: offset: -4 is below 0"),
    ],
)
def test_what_is_wrong_in_a_file(text: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        csv.parse(text, "x")


def test_what_is_taken() -> None:
    text = "\ufeffsize , id,upper,lower\r\n 10,a,4,-2\r\n\r\n0,b,3,1\r\n"
    buffers, offsets = csv.parse(text.removeprefix("\ufeff"))
    assert offsets is None
    assert [(b.id, b.lower, b.upper, b.size) for b in buffers] == [("a", -2, 4, 10), ("b", 1, 3, 0)]
    assert csv.parse("id,lower,upper,size\n") == ([], None)


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    assert plan(str(path)).exit_code == 2
    path.write_bytes(b"id,lower,upper,size\n\xff,0,1,1\n")
    said = plan(str(path))
    assert said.exit_code == 1
    assert "byte 20 is not UTF-8" in said.output
    path.write_bytes(b"\xef\xbb\xbf" + THREE.encode())
    assert "optimal: yes" in plan(str(path)).output
    path.write_text("id,lower,upper,size\n")
    assert "peak: 0" in plan(str(path), "--capacity", "0").output
    assert plan(str(path), "--align", "0").exit_code == 2
    assert plan(str(DATA), "--seed", "x").exit_code == 2
