"""The composition root of the HTTP face: from a configuration to an ASGI app.

`uvicorn hudhud.asgi:create_app --factory` serves the app that the configuration describes.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import FastAPI

from hudhud import config as configs
from hudhud.api import events, health, jobs
from hudhud.errors import ConfigError
from hudhud.web import faults, problems
from hudhud.web.face import make_face

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from hudhud.config import Config

PROBLEM: dict[str, object] = {
    problems.MEDIA_TYPE: {
        "schema": {
            "type": "object",
            "required": ["type", "title", "status", "detail"],
            "properties": {
                "type": {"type": "string", "examples": [f"{problems.TYPE_PREFIX}not_found"]},
                "title": {"type": "string"},
                "status": {"type": "integer"},
                "detail": {"type": "string"},
                "errors": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["path", "detail"],
                        "properties": {"path": {"type": "string"}, "detail": {"type": "string"}},
                    },
                },
            },
        }
    }
}
"""Every error of every route (RFC 9457), as OpenAPI describes it."""


def create_app(config: Config | None = None) -> FastAPI:
    """Return the app; its connections open with its lifespan.

    Args:
        config: None: what file and environment say.

    Raises:
        ConfigError: When no database is named. `hudhud up` and `hudhud serve` start the embedded
            one themselves; an app made by hand must say which it means.
    """
    config = config or configs.load()
    if config.database_url is None:
        message = "The HTTP face needs a database. Set HUDHUD_DATABASE_URL, or run `hudhud up`."
        raise ConfigError(message)
    face = make_face(config, config.database_url)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        await face.open()
        try:
            yield
        finally:
            await face.close()

    app = FastAPI(
        title="hudhud",
        version=version("hudhud"),
        summary="Jobs on one PostgreSQL.",
        lifespan=lifespan,
        responses={"default": {"description": "What went wrong.", "content": PROBLEM}},
        redirect_slashes=False,
        # The framework's pages for people run a third party's scripts, fetched from its network.
        docs_url=None,
        redoc_url=None,
    )
    app.state.face = face
    faults.install(app)
    for router in (jobs.router, events.router, health.router):
        app.include_router(router)
    return app
