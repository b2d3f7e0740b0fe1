"""What the driver of a job needs for each photograph, with made-up entries. `make scale` has the long one."""

import re

import pytest

from tools import driver


def test_it_tells_what_a_job_took(capsys):
    driver.one(30)
    told = r"30 photographs: [\d,]+ handed out and recorded a second, \d+ s in all, again \d+ s, at most \d+ MB\n"
    assert re.fullmatch(told, capsys.readouterr().out)


@pytest.mark.slow
def test_ten_times_as_many_photographs_take_no_more_memory(capsys):
    driver.main(2_000, 20_000)
    told = capsys.readouterr().out
    with capsys.disabled():
        print(f"\n{told}")
    assert int(told.splitlines()[-1].split()[0]) < 20
