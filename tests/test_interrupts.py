"""Ctrl-C held back, and let through where it may come."""

import asyncio
import os
import signal
import subprocess
import sys
import threading

import pytest

from sessions.interrupts import deferred


def press():
    os.kill(os.getpid(), signal.SIGINT)


def test_it_waits_until_the_block_is_left_and_comes_once():
    done = []

    def work():
        with deferred():
            press()
            press()
            done.append(1)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_it_comes_where_it_is_allowed_and_a_second_one_not_even_there():
    steps = []

    def work():
        with deferred() as interrupts:
            try:
                with interrupts.allowed():
                    try:
                        press()
                        steps.append("never")
                    finally:
                        press()
                        steps.append("tidied up inside")
            except KeyboardInterrupt:
                press()
                steps.append("tidied up")
                raise

    with pytest.raises(KeyboardInterrupt):
        work()
    assert steps == ["tidied up inside", "tidied up"]


def test_one_that_waited_comes_when_it_is_allowed():
    steps = []

    def work():
        with deferred() as interrupts:
            press()
            steps.append("held back")
            with interrupts.allowed():
                steps.append("never")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert steps == ["held back"]


def test_one_inside_another_holds_it_back_for_both():
    steps = []

    def work():
        with deferred():
            with deferred() as inner, inner.allowed():
                press()
                steps.append("inner")
            steps.append("outer")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert steps == ["inner", "outer"]


def test_another_error_comes_through_with_it_as_its_context():
    def work():
        with deferred():
            press()
            raise ValueError

    with pytest.raises(KeyboardInterrupt) as came:
        work()
    assert isinstance(came.value.__context__, ValueError)


@pytest.fixture
def hears():
    """A handler that goes on, at first."""
    heard = []

    def hear(*_):
        heard.append(len(heard))
        if len(heard) == 1:
            press()
        elif len(heard) == 3:
            raise InterruptedError

    before = signal.signal(signal.SIGINT, hear)
    yield heard
    assert signal.getsignal(signal.SIGINT) is hear
    signal.signal(signal.SIGINT, before)


def test_a_handler_that_goes_on_hears_each_where_it_is_allowed_also_one_that_comes_while_it_runs(hears):
    def work():
        with deferred() as interrupts, interrupts.allowed():
            press()
            assert len(hears) == 2
            press()

    with pytest.raises(InterruptedError):
        work()
    assert hears == [0, 1, 2]


def test_a_handler_that_raises_something_else_is_not_called_for_what_came_since(hears):
    def work():
        with deferred() as interrupts:
            try:
                with interrupts.allowed():
                    press()
                    press()
            finally:
                press()

    with pytest.raises(InterruptedError):
        work()
    assert hears == [0, 1, 2]


def test_a_handler_installed_inside_stays():
    mine = []
    before = signal.getsignal(signal.SIGINT)
    try:
        with deferred():
            signal.signal(signal.SIGINT, lambda *_: mine.append(1))
        press()
    finally:
        signal.signal(signal.SIGINT, before)
    assert mine == [1]


def test_an_event_loop_hears_of_it_once():
    heard = []

    async def work():
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, heard.append, 1)
        with deferred():
            press()
        await asyncio.sleep(0.05)

    asyncio.run(work())
    assert heard == [1]


def test_a_program_that_it_ends_is_ended_by_it_when_the_block_is_left_or_lets_it():
    for lets in ("pass", "inner.__enter__()"):
        code = (
            "import os, signal; from sessions.interrupts import deferred; signal.signal(2, signal.SIG_DFL)\n"
            "with deferred() as held:\n"
            f"    inner = held.allowed(); os.kill(os.getpid(), 2); print('held back', flush=True); {lets}\n"
            f"    print('left', flush=True)\n"
        )
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        said = "held back\nleft\n" if lets == "pass" else "held back\n"
        assert (ended.returncode, ended.stdout) == (-signal.SIGINT, said)


def test_other_threads_and_programs_that_ignore_it_are_let_be():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with deferred() as interrupts, interrupts.allowed():
            press()
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    handlers = []

    def look():
        with deferred() as interrupts, interrupts.allowed():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert handlers == [before]
