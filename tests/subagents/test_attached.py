"""Work inside this process: asyncio tasks, and pairs of cancel and wait."""

import asyncio
import subprocess
import sys
import threading

import pytest
from programs import GIVE_UP_S, until

from sessions import RequestError
from sessions.subagents.attached import attached_to


@pytest.fixture
def loop():
    """A loop that runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def spawn(loop, coroutine):
    async def begin():
        return asyncio.ensure_future(coroutine)

    return asyncio.run_coroutine_threadsafe(begin(), loop).result()


async def fail():
    raise ValueError


def test_an_asyncio_task_is_cancelled_from_another_thread(loop):
    attached = attached_to(spawn(loop, asyncio.sleep(1000)), None, None)
    assert not attached.wait(0.01)
    assert attached.outcome() is None
    attached.cancel()
    assert attached.wait(GIVE_UP_S)
    assert attached.outcome() == "cancelled"


@pytest.mark.parametrize(("work", "outcome"), [(lambda: asyncio.sleep(0), "completed"), (fail, "failed")])
def test_how_an_asyncio_task_ended_is_known(loop, work, outcome):
    attached = attached_to(spawn(loop, work()), None, None)
    assert attached.wait(GIVE_UP_S)
    assert attached.outcome() == outcome
    attached.cancel()
    assert attached.outcome() == outcome


def test_an_asyncio_task_that_does_not_let_itself_be_cancelled_has_not_ended(loop):
    async def stubborn():
        while True:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                if release.is_set():
                    raise

    release = asyncio.Event()
    attached = attached_to(spawn(loop, stubborn()), None, None)
    attached.cancel()
    assert not attached.wait(0.1)
    assert attached.outcome() is None
    release.set()
    attached.cancel()
    assert attached.wait(GIVE_UP_S)


def test_the_thread_of_the_loop_is_recognised(loop):
    attached = attached_to(spawn(loop, asyncio.sleep(1000)), None, None)

    async def ask():
        return attached.on_own_thread()

    assert asyncio.run_coroutine_threadsafe(ask(), loop).result()
    assert not attached.on_own_thread()
    assert not asyncio.run(ask())
    attached.cancel()
    attached.wait(GIVE_UP_S)


def test_a_closed_loop_counts_as_ended():
    loop = asyncio.new_event_loop()
    future = loop.create_future()
    attached = attached_to(future, None, None)
    waited = []
    waiting = threading.Thread(target=lambda: waited.append(attached.wait(GIVE_UP_S)))
    waiting.start()
    assert not attached.wait(0)
    loop.close()
    waiting.join()
    assert waited == [True]
    assert attached.outcome() == "cancelled"
    attached.cancel()
    called = []
    attached.when_done(lambda: called.append(1))
    attached_to(future, None, None)
    assert called == [1]


def test_the_end_of_an_asyncio_task_is_told_once(loop):
    attached = attached_to(spawn(loop, asyncio.sleep(1000)), None, None)
    called = []
    attached.when_done(lambda: called.append("before"))
    assert called == []
    attached.cancel()
    until(lambda: called, "the call")
    attached.when_done(lambda: called.append("after"))
    until(lambda: len(called) == 2, "the second call")
    assert called == ["before", "after"]


def test_a_pair_is_cancelled_and_waited_for():
    ended = threading.Event()
    attached = attached_to(None, ended.set, ended.wait)
    assert not attached.wait(0.01)
    assert attached.outcome() is None
    assert not attached.on_own_thread()
    attached.cancel()
    assert attached.wait(0)
    assert attached.outcome() == "cancelled"


def test_a_pair_that_ended_by_itself_was_not_cancelled():
    ended, cancelled = threading.Event(), []
    attached = attached_to(None, lambda: cancelled.append(1), ended.wait)
    ended.set()
    attached.cancel()
    assert (attached.outcome(), cancelled) == ("completed", [])


def test_a_wait_that_raises_says_that_the_work_failed():
    def wait(timeout_s):
        raise ValueError

    attached = attached_to(None, lambda: None, wait)
    assert attached.wait(0)
    assert attached.outcome() == "failed"


def test_what_the_cancel_of_a_host_raises_passes_through():
    def cancel():
        raise ValueError

    with pytest.raises(ValueError):
        attached_to(None, cancel, threading.Event().wait).cancel()


@pytest.mark.parametrize("waits", [True, False], ids=["a wait that waits", "a wait that does not"])
def test_the_end_of_a_pair_is_told_once(waits):
    ended, called = threading.Event(), []
    asked = []

    def wait(timeout_s):
        asked.append(timeout_s)
        return ended.wait(timeout_s) if waits else ended.is_set()

    def callback():
        called.append(1)
        raise ValueError

    threads = threading.active_count()
    attached_to(None, ended.set, wait).when_done(callback)
    threading.Event().wait(0.2)
    assert called == []
    assert len(asked) < 50
    ended.set()
    until(lambda: called and threading.active_count() == threads, "the call")
    assert called == [1]


@pytest.mark.parametrize(
    "given", [(None, None, None), (None, None, bool), (None, bool, None), ("task", bool, None), ("task", bool, bool)]
)
def test_neither_both_nor_half_can_be_attached(given):
    with pytest.raises(RequestError):
        attached_to(*given)


def test_asyncio_is_not_loaded_for_a_pair():
    code = (
        "import sys, threading; from sessions.subagents.attached import attached_to; e = threading.Event()\n"
        "a = attached_to(None, e.set, e.wait); a.when_done(print); a.cancel(); a.outcome(); a.on_own_thread()\n"
        "assert 'asyncio' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
