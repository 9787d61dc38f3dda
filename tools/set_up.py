"""Make `.venv` from the lock, or leave it alone if it is already of this lock.

Run by every target of the Makefile, by whichever Python was found; standard library only, since
nothing else is there yet. Three steps, each with one line and the long one with a counter:

1. a fresh virtual environment (the lock has changed, or there was none);
2. the locked packages, each checked against its hash;
3. hudhud itself, editable, without looking at a registry.

A stamp beside the environment names the lock that it was made from. It is written last, so a
set-up that was interrupted is done again from its start.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "dev.txt"
PROJECT = ROOT / "pyproject.toml"
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
PIP = (PYTHON, "-m", "pip", "--disable-pip-version-check", "--no-input", "install")


def main() -> int:
    """Bring `.venv` up to date; 0 if it is, 1 with the last words of what failed."""
    try:
        with LOCK.open("rb") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)  # `make up` and `make test` may start together
            bring_up_to_date()
    except KeyboardInterrupt:
        print("\nset-up interrupted; the next make does it again")
        return 130
    except subprocess.CalledProcessError as error:
        print(f"\nset-up failed: {' '.join(map(str, error.cmd))}\n{error.output or ''}")
        return 1
    return 0


def bring_up_to_date() -> None:
    """Do the steps whose stamp is not of today's files."""
    if stamp("lock") != digest(LOCK):
        make_environment()
        install_lock()
        write_stamp("lock", digest(LOCK))
    if stamp("project") != digest(PROJECT):
        install_hudhud()
        write_stamp("project", digest(PROJECT))


def make_environment() -> None:
    """Make an empty `.venv`; whatever an older lock left there is gone."""
    version = ".".join(map(str, sys.version_info[:3]))
    print(f"[1/3] a virtual environment in .venv (Python {version})", flush=True)
    run(sys.executable, "-m", "venv", "--clear", VENV)


def install_lock() -> None:
    """Install what the lock names, nothing else, and count while it goes."""
    total = len(re.findall(r"^\S+==", LOCK.read_text("utf-8"), re.MULTILINE))
    print(f"[2/3] up to {total} locked packages; a minute or two the first time", flush=True)
    command = (*PIP, "--require-hashes", "--no-deps", "--progress-bar", "off", "-r", LOCK)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pip:
        assert pip.stdout is not None
        said: list[str] = []
        fetched = 0
        for line in pip.stdout:
            said.append(line)
            if line.startswith("Collecting"):
                fetched += 1
                count_up(fetched, total)
            elif line.startswith("Installing collected"):
                say("      unpacking")
    print(flush=True)
    if pip.returncode:
        raise subprocess.CalledProcessError(pip.returncode, command, "".join(said[-15:]))


def install_hudhud() -> None:
    """Put hudhud itself into `.venv`, editable, with the locked build backend."""
    print("[3/3] hudhud itself", flush=True)
    run(*PIP, "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--editable", ROOT)


def count_up(done: int, total: int) -> None:
    """Redraw the counter on a terminal; elsewhere say every twentieth package."""
    if sys.stdout.isatty() or done % 20 == 0:
        say(f"      {done} of {total} fetched")


def say(text: str) -> None:
    """Write over the last line on a terminal, below it elsewhere."""
    print(f"\r{text:<40}", end="" if sys.stdout.isatty() else "\n", flush=True)


def run(*command: str | Path) -> None:
    """Run a program to its end; what it says is shown only if it fails."""
    subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def digest(path: Path) -> str:
    """The contents of a file as one short word."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def stamp(name: str) -> str:
    """What the environment was last made from; empty if it was not finished."""
    path = VENV / f"made-from-{name}"
    return path.read_text("utf-8") if path.exists() and PYTHON.exists() else ""


def write_stamp(name: str, value: str) -> None:
    """Record that a step was finished."""
    (VENV / f"made-from-{name}").write_text(value, "utf-8")


if __name__ == "__main__":
    sys.exit(main())
