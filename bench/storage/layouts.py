"""The three layouts as SQL: a file each, with the fragments that a measurement varies filled in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "layouts"

LEASE_STORAGE = {
    "default": {},
    "external": dict.fromkeys(("job_ids", "runs", "attempts", "crashes"), "external"),
    "external_ids": {"job_ids": "external"},
    "external_ids_main_rest": {
        "job_ids": "external",
        "runs": "main",
        "attempts": "main",
        "crashes": "main",
    },
}
GENERIC = "set plan_cache_mode = force_generic_plan set enable_seqscan = off"
DEFINER = "security definer set search_path = pg_catalog, pg_temp"
HEADS = {
    "bare": "",
    "generic": GENERIC,
    "definer": DEFINER,
    "definer generic": f"{DEFINER} {GENERIC}",
}
LAZY_COMMIT = "perform set_config('synchronous_commit', 'off', true);"


@dataclass(frozen=True, slots=True)
class Layout:
    """One layout with its variable parts chosen.

    Attributes:
        name: ledger, in_place or running_rows.
        finish: rows, array, none (no history), or a form on trial.
        read_jobs: How the claim reads the payloads.
        partitions: Days, or 1 for a single partition.
        head: What stands between a function's name and its body.
    """

    name: str
    finish: str = "rows"
    read_jobs: str = "any"
    partitions: int = 60
    job_key: str = "id"
    outcome_key: str = "job_id, run"
    outcome_type: str = "smallint"
    lease_storage: str = "external"
    head: str = "generic"
    lazy_commit: bool = False

    def sql(self) -> str:
        """Statements that make the schema, without partitions."""
        finishes = FOLDER / "finish" / self.name
        fragments = {
            "job_key": self.job_key,
            "outcome_key": self.outcome_key,
            "outcome_type": self.outcome_type,
            "kind": "1" if self.outcome_type == "smallint" else "'succeed'",
            "lease_storage": "".join(
                f"alter table probe.lease alter {column} set storage {storage};"
                for column, storage in LEASE_STORAGE[self.lease_storage].items()
            ),
            "head": HEADS[self.head],
            "lazy_commit": LAZY_COMMIT if self.lazy_commit else "",
            "read_jobs": (FOLDER / "read" / f"{self.read_jobs}.sql").read_text(),
            "finish": (finishes / f"{self.finish}.sql").read_text(),
            **{path.stem: path.read_text() for path in finishes.glob("rows_*.sql")},
        }
        text = "".join((FOLDER / f"{name}.sql").read_text() for name in ("common", self.name))
        while "{{" in text:
            text = re.sub(r"{{(\w+)}}", lambda found: fragments[found[1]], text)
        return text

    def partitioned(self) -> tuple[str, ...]:
        """Names of the tables that are cut by day."""
        return ("job",) if self.name == "in_place" else ("job", "outcome")

    def job_options(self) -> str:
        """Storage options of the job table's partitions."""
        return "with (fillfactor = 50)" if self.name == "in_place" else ""
