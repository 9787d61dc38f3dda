"""Gates at which runs of a test wait until they are let through."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict


class Gates(defaultdict[str, asyncio.Event]):
    """A gate per name, for async handlers: `await gates[name].wait()`."""

    def __init__(self) -> None:
        super().__init__(asyncio.Event)


class ThreadGates(defaultdict[str, threading.Event]):
    """A gate per name, for plain handlers: `gates[name].wait(30)`."""

    def __init__(self) -> None:
        super().__init__(threading.Event)
