"""A power cut ends a process with all of its children, and nobody else."""

from __future__ import annotations

import subprocess
import sys

from bench.chaos.kin import cut_power

PARENT = """
import subprocess, sys
idle = [sys.executable, "-c", "import signal; signal.pause()"]
children = [subprocess.Popen(idle) for _ in "ab"]
print("born", flush=True)
for child in children: child.wait()
"""


def test_a_power_cut_ends_a_process_with_its_children_and_nobody_else() -> None:
    with (
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bystander,
        subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent,
    ):
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"born\n"
        cut_power(parent.pid)
        assert parent.stdout.read() == b""  # the children had it as well: they are gone
        assert parent.wait() == -9
        assert bystander.poll() is None
        bystander.communicate(b"\n")
        assert bystander.returncode == 0
