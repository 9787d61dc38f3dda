"""hudhud.config: one tree, later sources win, wrong keys stop the start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hudhud.config import Config, load, mask
from hudhud.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


def test_without_any_source_everything_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(env={}) == Config()


def test_later_sources_win(tmp_path: Path) -> None:
    file = write(
        tmp_path / "hudhud.toml",
        "[worker]\nlease_seconds = 10\nconcurrency = 10\nthreads = 10\n",
    )
    config = load(
        file,
        env={"HUDHUD_WORKER_CONCURRENCY": "20", "HUDHUD_WORKER_THREADS": "20"},
        arguments={"worker.threads": 30, "worker.queues": None},
    )
    worker = config.worker
    assert (worker.lease_seconds, worker.concurrency, worker.threads) == (10, 20, 30)
    origins = {setting.key: setting.origin for setting in config.explain()}
    assert origins["worker.lease_seconds"] == str(file)
    assert origins["worker.concurrency"] == "HUDHUD_WORKER_CONCURRENCY"
    assert origins["worker.threads"] == "argument"
    assert origins["worker.queues"] == "default"


def test_the_nearest_file_upwards_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        tmp_path / "pyproject.toml", '[tool.other]\nx = 1\n[tool.hudhud]\napp = "shop.jobs:app"\n'
    )
    inner = tmp_path / "src" / "shop"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert load(env={}).app == "shop.jobs:app"
    write(tmp_path / "hudhud.toml", 'app = "own:app"\n')
    assert load(env={}).app == "own:app"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[worker]\nlease_second = 1\n", "nearest is worker.lease_seconds"),
        ("[workers]\nlease_seconds = 1\n", "nearest is worker.lease_seconds"),
        ('[worker]\nlease_seconds = "1"\n', "must be a whole number, not '1'"),
        ("[worker]\nlease_seconds = true\n", "must be a whole number"),
        ("[worker]\nlease_seconds = 0\n", "must be from 1 to 3600, not 0"),
        ("[worker]\nstop_seconds = nan\n", "must be from 0 to 3600, not nan"),
        ("[worker]\nqueues = []\n", "must be a list of texts"),
        ("[worker]\nqueues = [1]\n", "must be a list of texts"),
        ("worker = 1\n", "is no setting"),
        ("[worker.more]\nx = 1\n", "is no setting"),
        ("app = 1\n", "must be text"),
        ("[worker\n", "cannot be read"),
    ],
)
def test_a_wrong_file_is_refused_with_what_is_wrong(tmp_path: Path, text: str, words: str) -> None:
    file = write(tmp_path / "hudhud.toml", text)
    with pytest.raises(ConfigError) as caught:
        load(file, env={})
    assert words in str(caught.value)
    assert str(file) in str(caught.value)


def test_a_missing_file_that_was_named_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "none.toml", env={})


@pytest.mark.parametrize(
    ("variable", "text", "words"),
    [
        ("HUDHUD_WORKER_LEASE_SECOND", "1", "nearest is HUDHUD_WORKER_LEASE_SECONDS"),
        ("HUDHUD_HTTP_PORT", "tcp://10.0.0.1:80", "HUDHUD_HTTP_PORT) must be a whole number"),
        ("HUDHUD_WORKER_QUEUES", " , ", "must be a list of texts"),
    ],
)
def test_a_wrong_variable_is_refused_by_its_name(variable: str, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(env={variable: text})
    assert words in str(caught.value)


def test_a_wrong_argument_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"worker.queue \(argument\).*nearest is worker.queues"):
        load(env={}, arguments={"worker.queue": "a"})


def test_variables_are_read_as_the_key_wants_them() -> None:
    config = load(
        env={
            "HUDHUD_DATABASE_URL": "postgresql:///shop",
            "HUDHUD_WORKER_QUEUES": "bank, mail",
            "HUDHUD_WORKER_STOP_SECONDS": "2.5",
            "HUDHUD_HTTP_PORT": "80",
        }
    )
    assert config.database_url == "postgresql:///shop"
    assert config.worker.queues == ("bank", "mail")
    assert config.worker.stop_seconds == 2.5
    assert config.http.port == 80


@pytest.mark.parametrize(
    "variable",
    [
        "HUDHUD_PORT",
        "HUDHUD_PORT_80_TCP_ADDR",
        "HUDHUD_SERVICE_HOST",
        "HUDHUD_SERVICE_PORT_HTTP",
        "HUDHUD_WORKER_SERVICE_HOST",
        "HUDHUD_TEST_SERVER",
        "PATH",
    ],
)
def test_what_an_orchestrator_injects_is_no_setting_and_no_error(variable: str) -> None:
    assert load(env={variable: "tcp://10.0.0.1:80"}).http == Config().http


def test_the_listener_goes_past_the_pooler_where_that_was_said() -> None:
    assert load(env={"HUDHUD_DATABASE_URL": "a"}).listener_url == "a"
    both = {"HUDHUD_DATABASE_URL": "a", "HUDHUD_DIRECT_URL": "b"}
    assert load(env=both).listener_url == "b"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://shop:hunter2@db/shop",
        "postgresql://shop:hun@ter2/hunter2@db/shop",
        "postgresql://db/shop?user=shop&password=hunter2&sslmode=require",
        "host=db password=hunter2 user=shop",
        "host=db password = 'hunter2 hunter2' user=shop",
    ],
)
def test_no_password_is_shown(url: str) -> None:
    assert "hunter2" not in mask(url)
    assert "db" in mask(url)
    config = load(env={"HUDHUD_DATABASE_URL": url, "HUDHUD_DIRECT_URL": url})
    assert "hunter2" not in f"{config!r} {config.explain()}"
    assert config.database_url == url
