"""The models of generated modules: the stand-in for pydantic 2, and pydantic itself where there is one, by the same rows."""
import json
import shutil
import subprocess

import pytest
import runtimes

PACKAGES = str(runtimes.RUNTIME / "packages")

MODULE = '''from __future__ import annotations
from datetime import date, datetime, time, timedelta
from enum import Enum
from ipaddress import IPv4Address
from typing import Any, Dict, List, Literal, Optional, Union
from uuid import UUID
from cove.tools.models import AnyUrl, BaseModel, ConfigDict, EmailStr, Field, ValidationError, confloat, conint, constr
from cove.tools import Client

class Order(Enum):
    asc = "asc"
    desc_x = "desc-x"

class Nested(BaseModel):
    a: int

class Node(BaseModel):
    next: Optional[Node] = None

Node.model_rebuild()

class Params(BaseModel):
    model_config = ConfigDict(populate_by_name=True, use_enum_values=True)
    s: str = "x"
    n: Optional[float] = None
    order: Optional[Order] = None
    nested: Optional[Nested] = None
    many: Optional[List[Nested]] = None
    named: Optional[Dict[str, int]] = None
    either: Optional[Union[str, int]] = None
    kind: Literal["x"] = "x"
    count: Optional[conint(ge=1, le=10)] = None
    share: Optional[confloat(gt=0, lt=1)] = None
    word: Optional[constr(min_length=2, max_length=3, pattern="^[a-z]+$")] = None
    when: Optional[datetime] = None
    day: Optional[date] = None
    at: Optional[time] = None
    lasts: Optional[timedelta] = None
    id: Optional[UUID] = None
    link: Optional[AnyUrl] = None
    mail: Optional[EmailStr] = None
    host: Optional[IPv4Address] = None
    raw: Optional[bytes] = None
    my_param: Optional[str] = Field(None, alias="my-param", title="Mine")
    node: Optional[Node] = None

class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    must: Optional[str]

class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
'''


def interpreters():
    found = {"stand-in": runtimes.PYTHON}
    for name in ("python3", "python3.12", "python3.13"):
        path = shutil.which(name)
        if path and subprocess.run([path, "-c", "import pydantic; assert pydantic.VERSION > '2'"], capture_output=True).returncode == 0:
            found["pydantic"] = path
    return found


FOUND = interpreters()


PROGRAM = """
import json, sys
sys.path[:0] = sys.argv[1:]
from models_under_test import *
for line in sys.stdin:
    try:
        answer = str(eval(json.loads(line)))
    except ValidationError as error:
        answer = f"invalid {error.error_count()} " + ".".join(str(part) for part in error.errors()[0]["loc"])
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture(scope="module", params=sorted(FOUND))
def say(request, tmp_path_factory):
    """say(expression): what it is, printed."""
    place = tmp_path_factory.mktemp("models")
    (place / "models_under_test.py").write_text(MODULE)
    with subprocess.Popen([FOUND[request.param], "-I", "-B", "-c", PROGRAM, PACKAGES, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        def run(expression):
            print(json.dumps(expression), file=program.stdin, flush=True)
            return json.loads(program.stdout.readline())
        yield run
        program.stdin.close()


def wire(**values):
    return f"__import__('json').dumps(Client.arguments(Params(**{values!r})), sort_keys=True)"


@pytest.mark.parametrize("given,want", [
    ({}, {}), ({"n": 2}, {"n": 2.0}), ({"n": "2.5"}, {"n": 2.5}), ({"order": "desc-x"}, {"order": "desc-x"}), ({"nested": {"a": 1}}, {"nested": {"a": 1}}),
    ({"many": [{"a": 1}, {"a": 2}]}, {"many": [{"a": 1}, {"a": 2}]}), ({"named": {"x": 1}}, {"named": {"x": 1}}), ({"either": 5}, {"either": 5}),
    ({"either": "5"}, {"either": "5"}), ({"count": 10}, {"count": 10}), ({"share": 0.5}, {"share": 0.5}), ({"word": "ab"}, {"word": "ab"}),
    ({"when": "2026-01-02T03:04:05Z"}, {"when": "2026-01-02T03:04:05Z"}), ({"day": "2026-01-02"}, {"day": "2026-01-02"}), ({"at": "03:04:05"}, {"at": "03:04:05"}),
    ({"lasts": "PT90S"}, {"lasts": "PT1M30S"}), ({"id": "12345678-1234-5678-1234-567812345678"}, {"id": "12345678-1234-5678-1234-567812345678"}),
    ({"link": "https://example.org/x"}, {"link": "https://example.org/x"}), ({"mail": "a@example.org"}, {"mail": "a@example.org"}), ({"host": "10.0.0.1"}, {"host": "10.0.0.1"}),
    ({"raw": b"hi"}, {"raw": "hi"}), ({"my-param": "v"}, {"my-param": "v"}), ({"my_param": "v"}, {"my-param": "v"}), ({"node": {"next": {"next": None}}}, {"node": {"next": {}}}),
])
def test_arguments_go_out_under_their_own_names(say, given, want):
    assert json.loads(say(wire(**given))) == {"kind": "x", "s": "x", **want}


@pytest.mark.parametrize("given,place", [
    ({"s": 3}, "s"), ({"n": "x"}, "n"), ({"order": "up"}, "order"), ({"nested": {"a": "x"}}, "nested.a"), ({"nested": {}}, "nested.a"), ({"many": [{"a": 1}, {}]}, "many.1.a"),
    ({"named": {"x": "y"}}, "named.x"), ({"kind": "y"}, "kind"), ({"count": 0}, "count"), ({"count": 11}, "count"), ({"share": 1}, "share"), ({"word": "a"}, "word"),
    ({"word": "AB"}, "word"), ({"when": "yesterday"}, "when"), ({"id": "x"}, "id"), ({"link": "no address"}, "link"), ({"host": "300.0.0.1"}, "host"), ({"many": {}}, "many"),
])
def test_what_does_not_fit_is_refused_by_its_place(say, given, place):
    assert say(wire(**given)) == f"invalid 1 {place}"


def test_models_are_told_apart_by_what_they_take_besides(say):
    assert say("Strict(must='x', more=1)") == "invalid 1 more"
    assert say("Strict()") == "invalid 1 must"
    assert say("Client.arguments(Strict(must=None))") == "{'must': None}"
    assert say("Client.arguments(Open(x=1, y='z'))") == "{'x': 1, 'y': 'z'}"


def test_results_have_attributes_and_enumerations_plain_values(say):
    assert say("Params(order='asc').order, Params.model_validate({'nested': {'a': 1}}).nested.a, Params(my_param='v').my_param") == "('asc', 1, 'v')"
    assert say("Params(order=Order.desc_x).order, Nested(a=1) == Nested(a=1), Nested(a=1)") == "('desc-x', True, Nested(a=1))"
    assert say("Params(s='q').model_dump(exclude_none=True)") == "{'s': 'q', 'kind': 'x'}"
