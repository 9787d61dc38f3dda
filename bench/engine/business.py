"""A table of the business, and a row of it: what a transaction is about beside jobs and events."""

from __future__ import annotations

from typing import Final

INSERT: Final = b"insert into public.business (note) values (%s)"
MAKE: Final = b"""
create table public.business (
    id bigint generated always as identity primary key,
    at timestamptz not null default now(),
    note text not null)"""
NOTE: Final = "a note of the business"
