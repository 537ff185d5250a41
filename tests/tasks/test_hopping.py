"""Programs that run away: a task is there as long as its supervisor waits for somebody."""

import time

import pytest
from workers import stays

HOP = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
{main}
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
    with open("w", "a") as file:
        file.write("x")
    time.sleep({pause})
"""


@pytest.mark.parametrize("main", ["", "if os.fork(): time.sleep(1000)"], ids=["alone", "with a program that stays"])
@pytest.mark.parametrize("pause", [0.02, 0])
def test_one_that_forks_and_ends_all_the_time_is_caught_and_writes_no_more(agent, main, pause):
    agent.turn("first", {"w": "old"})
    task = agent.spawn("second", HOP.format(main=main, pause=pause), edits=["w"])
    written = agent.project / "w"
    while written.read_text() == "old":
        time.sleep(0.01)
    assert [each.id for each in agent.session.plan_rewind(2).tasks] == [task.id]
    report = agent.session.rewind(2)
    assert [each.id for each in report.cancelled] == [task.id]
    assert stays(written.read_text, 0.3)
    assert written.read_text() == "old"
