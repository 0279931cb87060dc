"""What may stand after ``%%vram``, and what is said of the rest."""

from __future__ import annotations

import pytest
from IPython.core.error import UsageError

from jupyter_vram.kernel.options import USAGE, Options, parse_options, split_options


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", Options()),
        ("   ", Options()),
        ("--name first", Options(name="first")),
        ("--name=first", Options(name="first")),
        ("--name 'my model'", Options(name="my model")),
        ('--save "my report.html" --no-plot', Options(save="my report.html", plot=False)),
        ("--device cpu", Options(device="cpu")),
        ("--device 1", Options(device="1")),
        ("--device cuda:1 --detail op", Options(device="cuda:1", detail="op")),
        ("--compare first --as report", Options(compare="first", variable="report")),
        ("--as größe", Options(variable="größe")),
        ("\t--name\ta\t--as  b  ", Options(name="a", variable="b")),
        ("--save a=b.json", Options(save="a=b.json")),
        ("--name it's", Options(name="it's")),
    ],
)
def test_options(text: str, options: Options) -> None:
    assert parse_options(text) == options


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("--bogus", "no option --bogus"),
        ("--bogus=3", "no option --bogus"),
        ("--no-plot=1", "no option --no-plot"),
        ("--names a", "no option --names"),
        ("--=a", "no option --"),
        ("--name", "--name needs a value"),
        ("--name=", "--name needs a value"),
        ("--name ''", "--name needs a value"),
        ("--name --no-plot", "--name needs a value"),
        ("--name a --name b", "--name stands twice"),
        ("--detail frame", "--detail is one of category, line, module, op"),
        ("--device gpu", "--device is cpu, cuda"),
        ("--device cuda:", "--device is cpu, cuda"),
        ("--as 3x", "'3x' is none"),
        ("--as a.b", "'a.b' is none"),
        ("--as class", "'class' is none"),
        ("x = 1", "options only, not 'x = 1'"),
        ("--name a x", "options only, not 'x'"),
        ("-n 3", "options only, not '-n 3'"),
    ],
)
def test_a_wrong_option_tells_the_usage(text: str, problem: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_options(text)
    message = str(raised.value)
    assert problem in message
    assert USAGE in message


@pytest.mark.parametrize(
    ("line", "options", "statement"),
    [
        ("x = f('a  b')", Options(), "x = f('a  b')"),
        ("--name a  y = {1: '--name b'}  ", Options(name="a"), "y = {1: '--name b'}"),
        ("--no-plot -x", Options(plot=False), "-x"),
        ("--name a -- --x", Options(name="a"), "--x"),
        ("-- --x", Options(), "--x"),
        ("", Options(), ""),
        ("x --name b", Options(), "x --name b"),
    ],
)
def test_options_end_where_the_statement_begins(
    line: str, options: Options, statement: str
) -> None:
    assert split_options(line) == (options, statement)
