"""What a handler's payload must hold, read off the handler's own signature.

The same schema is announced to the database, which checks every enqueue from any language by it,
and is checked again by the worker before the handler is called.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections import abc
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict, cast

from hudhud.domain.event import PERSONAL
from hudhud.domain.payload import step
from hudhud.errors import ConfigError, InvalidJobError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

ANY = "any"
# More specific first: a bool is an int in Python, never in JSON.
_BY_CLASS: tuple[tuple[type, str], ...] = (
    (str, "string"),
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (types.NoneType, "null"),
    (abc.Mapping, "object"),
    (abc.Sequence, "array"),
)
_BY_ANNOTATION: dict[object, str] = {
    **dict(_BY_CLASS),
    dict: "object",
    abc.MutableMapping: "object",
    list: "array",
    tuple: "array",
    abc.Iterable: "array",
    abc.Collection: "array",
    None: "null",
    Any: ANY,
    object: ANY,
    inspect.Parameter.empty: ANY,
}


_PYTHON_TYPES: Mapping[str, type] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": float,
    "null": types.NoneType,
    "object": dict,
    "array": list,
}


class Announced(TypedDict):
    """The schema in the form the database takes: field to JSON type or types."""

    required: dict[str, list[str]]
    optional: dict[str, list[str]]
    open: bool


@dataclass(frozen=True, slots=True)
class PayloadSchema:
    """Which fields a payload has and which JSON types each may have.

    Attributes:
        required: Field name to the names of its JSON types.
        optional: The same for fields that may be left out.
        is_open: Whether further fields are allowed.
    """

    required: Mapping[str, tuple[str, ...]]
    optional: Mapping[str, tuple[str, ...]]
    is_open: bool
    # Per field the Python types that json.loads makes of its JSON types: one look per value.
    _exact: Mapping[str, frozenset[type]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        fields = (*self.required.items(), *self.optional.items())
        exact = {
            name: frozenset(_PYTHON_TYPES[kind] for kind in kinds if kind != ANY)
            for name, kinds in fields
        }
        object.__setattr__(self, "_exact", exact)

    def announced(self) -> Announced:
        """Return the schema as `announce` takes it."""
        return {
            "required": {name: list(kinds) for name, kinds in self.required.items()},
            "optional": {name: list(kinds) for name, kinds in self.optional.items()},
            "open": self.is_open,
        }

    def check(self, payload: Mapping[str, object]) -> None:
        """Refuse a payload that the handler cannot be called with.

        Raises:
            InvalidJobError: Names the JSON path of the first fault and what is wanted there.
        """
        for name, value in payload.items():
            exact = self._exact.get(name)
            if exact is None:
                if not self.is_open:
                    message = f"$.{step(name)} is not a field of this type."
                    raise InvalidJobError(message)
            elif type(value) not in exact:
                kinds = self.required.get(name) or self.optional[name]
                if not _fits(value, kinds):
                    message = (
                        f"$.{step(name)} must be {' or '.join(kinds)}, not {json_type(value)}."
                    )
                    raise InvalidJobError(message)
        for name in self.required:
            if name not in payload:
                message = f"$.{step(name)} is missing."
                raise InvalidJobError(message)


def schema_of(function: Callable[..., object], owner: str) -> PayloadSchema:
    """Read the payload's schema off a handler's signature: all parameters after the first.

    A parameter with a default is optional, `**others` opens the payload for further fields, and a
    parameter whose annotation names something known to the type checker only takes any value.

    Args:
        function: The handler; its first parameter is the context.
        owner: What to call the handler in an error, `type:version`.

    Raises:
        ConfigError: The signature cannot be called with a JSON object's fields.
    """
    parameters = list(_signature(function).parameters.values())
    if not parameters or parameters[0].kind not in _POSITIONAL:
        message = f"{owner}: a handler's first parameter is its context; {_name(function)} has none"
        raise ConfigError(message)
    required: dict[str, tuple[str, ...]] = {}
    optional: dict[str, tuple[str, ...]] = {}
    is_open = False
    for parameter in parameters[1:]:
        if parameter.kind is parameter.VAR_KEYWORD:
            is_open = True
            continue
        if parameter.kind not in _NAMED:
            message = f"{owner}: payload fields are passed by name, which {parameter} cannot take"
            raise ConfigError(message)
        fields = required if parameter.default is parameter.empty else optional
        fields[parameter.name] = _kinds_of(parameter, function, owner)
    return PayloadSchema(
        types.MappingProxyType(required), types.MappingProxyType(optional), is_open
    )


def schema_of_class(contract: type, owner: str) -> tuple[PayloadSchema, list[str]]:
    """Read an event's contract off a class: its annotations, and those of its bases.

    A field with a default is optional.

    Args:
        contract: Any class with annotations.
        owner: What to call it in an error, `type:version`.

    Returns:
        The schema, and the names of the fields that are marked as personal.

    Raises:
        ConfigError: A field is annotated with what JSON cannot carry.
    """
    required: dict[str, tuple[str, ...]] = {}
    optional: dict[str, tuple[str, ...]] = {}
    personal: list[str] = []
    for base in reversed(contract.__mro__):
        for name, annotation in _annotations(base).items():
            names = vars(sys.modules[base.__module__])
            found = _evaluated(annotation, names) if isinstance(annotation, str) else annotation
            if typing.get_origin(found) is typing.ClassVar:
                continue
            fields = optional if hasattr(contract, name) else required
            fields[name] = _kinds_in(found, f"{owner}: field {name}", annotation)
            if _is_personal(found):
                personal.append(name)
    schema = PayloadSchema(
        types.MappingProxyType(required), types.MappingProxyType(optional), is_open=False
    )
    return schema, personal


def json_type(value: object) -> str:
    """Return the JSON type of a value, or its Python type's name when JSON has no word for it."""
    return next((name for cls, name in _BY_CLASS if isinstance(value, cls)), type(value).__name__)


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _name(function: object) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)


def _signature(function: Callable[..., object]) -> inspect.Signature:
    if sys.version_info >= (3, 14):
        import annotationlib  # noqa: PLC0415 - exists there only

        return inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF)
    return inspect.signature(function)


def _kinds_of(
    parameter: inspect.Parameter, function: Callable[..., object], owner: str
) -> tuple[str, ...]:
    written = parameter.annotation
    return _kinds_in(
        _resolved(written, function), f"{owner}: payload field {parameter.name}", written
    )


def _kinds_in(annotation: object, field_name: str, written: object) -> tuple[str, ...]:
    kinds = tuple(dict.fromkeys(_kinds(annotation)))
    if "" in kinds:
        message = (
            f"{field_name} is annotated {written}, which JSON cannot carry;"
            " take str, int, float, bool, list or dict and convert inside"
        )
        raise ConfigError(message)
    return (ANY,) if ANY in kinds else kinds


def _annotations(contract: type) -> Mapping[str, object]:
    if sys.version_info >= (3, 14):
        import annotationlib  # noqa: PLC0415 - exists there only

        return annotationlib.get_annotations(contract, format=annotationlib.Format.FORWARDREF)
    return inspect.get_annotations(contract)


def _is_personal(annotation: object) -> bool:
    """Whether an annotation, or a part of it, is marked with `Personal`."""
    if PERSONAL in getattr(annotation, "__metadata__", ()):
        return True
    return any(_is_personal(part) for part in typing.get_args(annotation))


def _resolved(annotation: object, function: Callable[..., object]) -> object:
    """Evaluate an annotation that is text; what only the type checker knows is `Any`."""
    if not isinstance(annotation, str):
        return annotation
    return _evaluated(annotation, getattr(inspect.unwrap(function), "__globals__", {}))


def _evaluated(annotation: str, names: dict[str, Any]) -> object:
    # A class, as only there every form of an annotation may stand.
    probe = type("probe", (), {"__annotations__": {"field": annotation}})
    try:
        return typing.get_type_hints(probe, globalns=names, include_extras=True)["field"]
    except NameError:
        return Any


def _kinds(annotation: object) -> Iterator[str]:
    """Yield the JSON types of an annotation; "" for what JSON cannot carry."""
    origin = typing.get_origin(annotation)
    inner = typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        for one in inner:
            yield from _kinds(one)
    elif origin is typing.Literal:
        for value in inner:
            yield from _kinds(cast("object", type(value)))
    elif (plain := _unwrapped(annotation, origin, inner)) is not annotation:
        yield from _kinds(plain)
    elif typing.is_typeddict(cast("type", annotation)):
        yield "object"
    elif isinstance(annotation, (typing.TypeVar, typing.ForwardRef)):
        yield ANY
    else:
        yield _BY_ANNOTATION.get(annotation, "")


def _unwrapped(annotation: object, origin: object, inner: tuple[Any, ...]) -> object:
    """Take one layer off: Annotated, list[…], NewType, `type X = …`."""
    if origin is typing.Annotated:
        return inner[0]
    if origin is not None:
        return origin
    for attribute in ("__supertype__", "__value__"):
        if hasattr(annotation, attribute):
            return getattr(annotation, attribute)
    return annotation


def _fits(value: object, kinds: tuple[str, ...]) -> bool:
    """Answer as the database does: an integer is a number, 5.0 is an integer."""
    kind = json_type(value)
    if ANY in kinds or kind in kinds or (kind == "integer" and "number" in kinds):
        return True
    return "integer" in kinds and isinstance(value, float) and value.is_integer()
