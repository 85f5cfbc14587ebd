"""The numbers of pushes: each push is taken once, whatever is lost on the way and whoever else pushes."""

from __future__ import annotations

import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.engine.ingest.journal import is_repeated
from panewise.errors import DataError, ServerError
from panewise.serve.client.numbering import Numbering


class Stream:
    """A stream as the server has it: what was taken, by the server's own rule of numbers."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.producers: dict[str, int] = {}

    def last(self) -> int:
        return self.producers.get("p", 0)

    def push(self, number: int, row: str) -> None:
        if not is_repeated("s", self.producers, "p", number):
            if row == "bad":
                raise DataError("a bad row")
            self.taken.append(row)
            self.producers["p"] = number

    def drop(self) -> None:
        self.taken.clear()
        self.producers.clear()


@given(st.lists(st.sampled_from(["taken", "bad", "lost before", "lost after", "dropped"]), max_size=20), st.booleans())
def test_what_was_acknowledged_is_there_once(events: list[str], starts_anew: bool) -> None:
    stream = Stream()
    numbering = Numbering(stream.last, last=None if starts_anew else 0)
    expected: list[str] = []
    for count, event in enumerate(events):
        row = "bad" if event == "bad" else f"row {count}"

        def send(number: int, row: str = row, event: str = event) -> None:
            if event != "lost before":
                stream.push(number, row)
            if event.startswith("lost"):
                raise ServerError("not answered")

        if event == "dropped":
            stream.drop()
            expected.clear()
        elif event == "bad":
            with pytest.raises(DataError, match="a bad row"):
                numbering.push(send)
        elif event == "taken":
            numbering.push(send)
            expected.append(row)
        else:
            with pytest.raises(ServerError):
                numbering.push(send)
            expected.extend([row] if event == "lost after" else [])
    assert stream.taken == expected


def test_threads_push_one_after_the_other() -> None:
    stream = Stream()
    numbering = Numbering(stream.last, last=0)
    chance = random.Random(0)

    def push(name: int) -> None:
        for count in range(50):

            def send(number: int, row: str = f"{name} {count}") -> None:
                for _ in range(chance.randint(1, 3)):
                    stream.push(number, row)

            numbering.push(send)

    threads = [threading.Thread(target=push, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(stream.taken) == sorted(f"{name} {count}" for name in range(4) for count in range(50))
    assert stream.last() == 200
