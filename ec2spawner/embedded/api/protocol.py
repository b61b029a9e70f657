"""EC2's Query protocol: a form in, XML out, both driven by botocore's own model of EC2.

The gateway reads and writes plain dictionaries in the form that boto3 gives to its callers; what
a member is called on the wire is botocore's knowledge, not ours.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from operator import itemgetter
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

import botocore.session
from botocore.model import ListShape, OperationModel, ServiceModel, Shape, StructureShape

NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15"
CONTENT_TYPE = "text/xml;charset=UTF-8"

HTTP_STATUS = {
    "AuthFailure": 401,
    "UnauthorizedOperation": 403,
    **dict.fromkeys(
        (
            "InsufficientCapacity InsufficientCapacityOnHost InsufficientHostCapacity "
            "InsufficientInstanceCapacity InsufficientReservedInstanceCapacity "
            "InsufficientVolumeCapacity InternalError InternalErrorException InternalFailure "
            "InternalServerError ServiceException UnfulfillableCapacity"
        ).split(),
        500,
    ),
    **dict.fromkeys("RequestLimitExceeded ServiceUnavailable Unavailable".split(), 503),
}
"""Every other code is a client error, 400. From "Error codes for the Amazon EC2 API", and for the
JSON services from the errors that their API references list."""


class EC2Error(Exception):
    """An error as EC2 words it. `status` is the HTTP status that AWS sends with the code."""

    def __init__(self, code: str, message: str, status: int | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status or HTTP_STATUS.get(code, 400)


@cache
def service(name: str = "ec2") -> ServiceModel:
    """botocore's model of a service."""
    return ServiceModel(
        botocore.session.get_session()
        .get_component("data_loader")
        .load_service_model(name, "service-2"),
        name,
    )


def operation(action: str) -> OperationModel:
    """The model of one EC2 action; `InvalidAction` when EC2 has none of that name."""
    if action not in service().operation_names:
        raise EC2Error("InvalidAction", f"The action {action} is not valid for this web service.")
    return service().operation_model(action)


def parse_form(body: bytes) -> dict[str, str]:
    """The fields of a request's body. Raises `MalformedQueryString` for what is no form."""
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=20_000))
    except ValueError as error:
        raise EC2Error("MalformedQueryString", f"The body is not a form: {error}.") from error


COMMON_PARAMETERS = frozenset({"Action", "Version"})
"""Fields of every request that are no member of the action's input."""


def parse_request(action: str, form: Mapping[str, str]) -> dict[str, Any]:
    """A form's fields as the dictionary that a boto3 caller passed.

    Raises EC2's errors for a field that the action does not have, for a required one that is
    missing, and for a value of another type.
    """
    tree: dict[str, Any] = {}
    for name, value in form.items():
        if name in COMMON_PARAMETERS:
            continue
        node = tree
        *path, last = name.split(".")
        for part in path:
            child = node.setdefault(part, {})
            if not isinstance(child, dict):
                raise EC2Error("MalformedQueryString", f"{name} names a value twice.")
            node = child
        if last in node:
            raise EC2Error("MalformedQueryString", f"{name} names a value twice.")
        node[last] = value
    shape = operation(action).input_shape
    if shape is None:
        _refuse_unknown(tree.keys())
        return {}
    return _parse_structure(shape, tree)


def _query_name(member_name: str, shape: Shape) -> str:
    serialization = shape.serialization
    if "queryName" in serialization:
        return str(serialization["queryName"])
    name = str(serialization.get("name", member_name))
    return name[0].upper() + name[1:]


def _parse_structure(shape: StructureShape, tree: Mapping[str, Any]) -> dict[str, Any]:
    parsed: dict[str, Any] = {}
    names = {_query_name(name, member): name for name, member in shape.members.items()}
    _refuse_unknown(tree.keys() - names.keys())
    for query_name, name in names.items():
        if query_name in tree:
            parsed[name] = _parse(shape.members[name], tree[query_name], name)
        elif name in shape.required_members:
            raise EC2Error(
                "MissingParameter", f"The request must contain the parameter {query_name}"
            )
    return parsed


def _refuse_unknown(names: Iterable[str]) -> None:
    for name in sorted(names):
        raise EC2Error("UnknownParameter", f"The parameter {name} is not recognized")


def _parse(shape: Shape, found: Any, name: str) -> Any:
    nested = isinstance(shape, StructureShape | ListShape)
    if nested != isinstance(found, dict):
        raise EC2Error("InvalidParameterValue", f"Value for parameter {name} is invalid.")
    if isinstance(shape, StructureShape):
        return _parse_structure(shape, found)
    if isinstance(shape, ListShape):
        _refuse_unknown(f"{name}.{n}" for n in found if not n.isdigit())
        numbered = sorted(((int(n), value) for n, value in found.items()), key=itemgetter(0))
        return [_parse(shape.member, value, name) for _, value in numbered]
    return _parse_scalar(shape, found, name)


def _parse_scalar(shape: Shape, text: str, name: str) -> Any:
    try:
        match shape.type_name:
            case "integer" | "long":
                return int(text)
            case "float" | "double":
                return float(text)
            case "boolean":
                return {"true": True, "false": False}[text.lower()]
            case "timestamp":
                instant = datetime.fromisoformat(text)
                return instant if instant.tzinfo else instant.replace(tzinfo=UTC)
            case _:
                return text
    except (KeyError, ValueError) as error:
        raise EC2Error(
            "InvalidParameterValue", f"Value ({text}) for parameter {name} is invalid."
        ) from error


def render(action: str, answer: Mapping[str, Any]) -> bytes:
    """An answer in boto3's form as the XML that boto3 parses it from."""
    shape = operation(action).output_shape
    inner = _render_structure(shape, answer) if shape is not None else "<return>true</return>"
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<{action}Response xmlns="{NAMESPACE}">'
        f"<requestId>{uuid.uuid4()}</requestId>{inner}</{action}Response>"
    ).encode()


def _render_structure(shape: StructureShape, value: Mapping[str, Any]) -> str:
    return "".join(
        _render(member, value[name], str(member.serialization.get("name", name)))
        for name, member in shape.members.items()
        if value.get(name) is not None
    )


def _render(shape: Shape, value: Any, tag: str) -> str:
    if isinstance(shape, StructureShape):
        inner = _render_structure(shape, value)
    elif isinstance(shape, ListShape):
        items: Sequence[Any] = value
        item_tag = str(shape.member.serialization.get("name", "item"))
        inner = "".join(_render(shape.member, item, item_tag) for item in items)
    elif isinstance(value, bool):
        inner = str(value).lower()
    elif isinstance(value, datetime):
        inner = value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    else:
        inner = escape(str(value))
    return f"<{tag}>{inner}</{tag}>"


def render_error(error: EC2Error) -> bytes:
    """EC2's own form of an error."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<Response><Errors><Error>'
        f"<Code>{escape(error.code)}</Code><Message>{escape(error.message)}</Message>"
        f"</Error></Errors><RequestID>{uuid.uuid4()}</RequestID></Response>"
    ).encode()
