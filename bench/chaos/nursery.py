"""A fork server: it has imported everything, so that a process is there in milliseconds.

It speaks lines of JSON over its standard input and output:

    {"start": slot, "lease_seconds": n, "place": place}  →  {"born": slot, "pid": n}
    {"gone": pid}: it has ended; nobody else gets its pid before
    {"bury": pid}                                        →  {"buried": pid, "code": n}

When its input ends it kills what is left and ends. It has no threads, so a fork is safe.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import selectors
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.chaos.place import Place
from bench.chaos.teeth.catalogue import TEETH
from bench.chaos.worker import work

if TYPE_CHECKING:
    from collections.abc import Mapping

API = "bench.chaos.api"
PATCHES = "bench.chaos.teeth.patches"
_ORDERS = 0
_NEWS = 1
_LOG = 2
_CHUNK = 65_536


class Nursery:
    """The server's side."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._selector.register(_ORDERS, selectors.EVENT_READ)
        # Every child holds one end; it reads the end of the other when we are gone.
        self._life_line, self._our_end = os.pipe()
        self._living: dict[int, int] = {}  # pid → the pipe that ends with it
        self._unread = b""

    def serve(self) -> None:
        """Bear, tell and bury until the orders end; leave nobody behind."""
        try:
            while self._turn():
                continue
        finally:
            for pid in self._living:
                os.kill(pid, signal.SIGKILL)
            for pid in self._living:
                os.waitpid(pid, 0)

    def _turn(self) -> bool:
        for key, _ in self._selector.select():
            if key.fd == _ORDERS:
                if not self._obey():
                    return False
            else:
                self._selector.unregister(key.fd)
                _tell(gone=key.data)
        return True

    def _obey(self) -> bool:
        chunk = os.read(_ORDERS, _CHUNK)
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for line in lines:
            order: dict[str, Any] = json.loads(line)
            if "start" in order:
                self._bear(order)
            else:
                self._bury(order["bury"])
        return bool(chunk)

    def _bear(self, order: Mapping[str, Any]) -> None:
        ends, held = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(self._our_end)
            self._live(order)
        os.close(held)
        self._living[pid] = ends
        self._selector.register(ends, selectors.EVENT_READ, pid)
        _tell(born=order["start"], pid=pid)

    def _bury(self, pid: int) -> None:
        os.close(self._living.pop(pid))
        _, status = os.waitpid(pid, 0)
        _tell(buried=pid, code=os.waitstatus_to_exitcode(status))

    def _live(self, order: Mapping[str, Any]) -> None:
        """Be the child, to the end of the process."""
        code = 1
        try:
            os.dup2(_LOG, _NEWS)
            with Path(os.devnull).open("rb") as nothing:
                os.dup2(nothing.fileno(), _ORDERS)
            self._be(Place.of(order["place"]), order["start"], order["lease_seconds"])
            code = 0
        except BaseException:  # noqa: BLE001 - whatever it is, this process is over
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _be(self, place: Place, slot: int, lease_seconds: int) -> None:
        if place.tooth and (patch := TEETH[place.tooth].patch):
            getattr(importlib.import_module(PATCHES), patch)()
        if slot in dict(place.api_ports):
            importlib.import_module(API).serve(place, slot, life_line=self._life_line)
        else:
            work(place, slot, lease_seconds=lease_seconds, life_line=self._life_line)


def _tell(**news: int) -> None:
    os.write(_NEWS, json.dumps(news).encode() + b"\n")


def main() -> None:
    """Serve; the arguments are modules to have ready for children that need them."""
    for name in sys.argv[1:]:
        importlib.import_module(name)
    gc.freeze()  # what was imported stays shared with the children
    Nursery().serve()


if __name__ == "__main__":
    main()
