"""docs/openapi.json: served as it stands, complete, and consistent in itself."""
import json
import pathlib
import re

import pytest
from conftest import ROOT, cove

DOCUMENT = json.loads((ROOT / "docs" / "openapi.json").read_text())
METHODS = {"get", "put", "post", "delete", "head", "patch", "options"}
OPERATIONS = {(method, path): operation for path, item in DOCUMENT["paths"].items() for method, operation in item.items() if method in METHODS}


def routes():
    run = cove("routes", "--json")
    assert run.status == 0, run.stderr
    return json.loads(run.stdout)


def walk(value):
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(inner)


def resolve(reference):
    value = DOCUMENT
    for word in reference.removeprefix("#/").split("/"):
        value = value[word]
    return value


def test_every_route_is_described_and_nothing_else_is():
    real = {(route["method"].lower(), route["pattern"]) for route in routes()}
    assert set(OPERATIONS) == real


def test_routes_that_need_no_key_are_described_so():
    for route in routes():
        operation = OPERATIONS[route["method"].lower(), route["pattern"]]
        public = operation.get("security") == [{}]
        assert public == (route["access"] == "open"), route
        if not public:
            assert {"401", "403"} <= set(operation["responses"]), route


def test_it_is_served_as_it_stands(server):
    answer = server.get("/openapi.json")
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/json"
    assert answer.json == DOCUMENT


def test_every_reference_leads_somewhere_and_everything_is_used():
    references = {value["$ref"] for value in walk(DOCUMENT) if isinstance(value, dict) and isinstance(value.get("$ref"), str)}
    for reference in references:
        resolve(reference)
    spoken = {"#/components/schemas/TerminalControl", "#/components/schemas/TerminalNotice", "#/components/schemas/FileChange", "#/components/schemas/LifecycleEvent"}  # what goes through streams
    for kind in ("schemas", "responses", "parameters"):
        for name in DOCUMENT["components"][kind]:
            assert f"#/components/{kind}/{name}" in references | spoken, name


def test_operation_ids_are_unique_and_everything_has_words():
    ids = [operation["operationId"] for operation in OPERATIONS.values()]
    assert len(set(ids)) == len(ids)
    assert all(operation["summary"] and operation["tags"] and operation["responses"] for operation in OPERATIONS.values())


def test_the_parameters_of_a_path_are_declared():
    for (_, path), operation in OPERATIONS.items():
        declared = [resolve(one["$ref"]) if "$ref" in one else one for one in operation.get("parameters", [])]
        assert {one["name"] for one in declared if one["in"] == "path"} == set(re.findall(r"\{(\w+)\}", path)), path
        assert all(one.get("required") for one in declared if one["in"] == "path")


def test_the_pages_of_the_api_and_the_description_have_the_same_paths():
    docs = pathlib.Path(ROOT) / "docs"
    prose = "".join(page.read_text() for page in [docs / "api.md", docs / "jupyter.md", *sorted((docs / "api").glob("*.md"))])
    for _, path in OPERATIONS:
        short = re.sub(r"^/v1/sandboxes/\{id\}(?=/(processes|kernels|files))", "", path)
        assert short in prose or short.rsplit("/", 1)[1] in prose, path


# --- what the server really says has the described shape

def mismatch(value, schema, where="$"):
    """The first place where a value is not what its schema says; None when it is."""
    if "$ref" in schema:
        return mismatch(value, resolve(schema["$ref"]), where)
    if "oneOf" in schema:
        tries = [mismatch(value, one, where) for one in schema["oneOf"]]
        return None if None in tries else tries[0]
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int, "number": (int, float)}
    types = schema.get("type")
    types = [types] if isinstance(types, str) else types
    if types and not any(isinstance(value, kinds[kind]) and not (isinstance(value, bool) and kind in ("integer", "number")) for kind in types):
        return f"{where}: {value!r} is no {types}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where}: {value!r} is none of {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        return f"{where}: {value!r} is not {schema['const']!r}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        return f"{where}: {value!r} is not like {schema['pattern']}"
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for name in schema.get("required", ()):
            if name not in value:
                return f"{where}: {name} is missing"
        for name, inner in value.items():
            if name in properties:
                if found := mismatch(inner, properties[name], f"{where}.{name}"):
                    return found
            elif properties and not schema.get("additionalProperties"):
                return f"{where}: {name} is not described"
    if isinstance(value, list) and "items" in schema:
        for number, inner in enumerate(value):
            if found := mismatch(inner, schema["items"], f"{where}[{number}]"):
                return found
    return None


def described(method, path, status):
    return OPERATIONS[method, path]["responses"][str(status)]


BOX = "/v1/sandboxes/{id}"
ANSWERS = [
    ("get", "/version", None, 200), ("get", "/v1/templates", None, 200), ("get", "/v1/sandboxes", None, 200), ("get", BOX, None, 200), ("put", BOX, {"ttlSeconds": 300}, 200), ("post", BOX + "/touch", b"", 200),
    ("post", BOX + "/exec", {"cmd": ["echo", "x"]}, 200), ("post", BOX + "/exec", {"cmd": ["sh", "-c", "kill -9 $$"]}, 200), ("post", BOX + "/exec", {"cmd": []}, 400), ("post", BOX + "/processes", {"cmd": ["true"]}, 201),
    ("get", BOX + "/processes", None, 200), ("get", BOX + "/processes/{pid}", None, 200), ("get", BOX + "/processes/{pid}/events", None, 200), ("get", "/v1/events", None, 200), ("put", BOX + "/files?path=f", b"data", 200),
    ("get", BOX + "/files/stat?path=f", None, 200), ("get", BOX + "/files/list", None, 200), ("post", BOX + "/files/mkdir", {"path": "d"}, 200), ("post", BOX + "/files/rename", {"from": "f", "to": "g"}, 200),
    ("post", BOX + "/kernels", {}, 201), ("get", BOX + "/kernels", None, 200), ("get", BOX + "/kernels/{kid}", None, 200), ("post", BOX + "/kernels/{kid}/execute", {"code": "display(1); x = [1]; x"}, 200),
    ("post", BOX + "/kernels/{kid}/execute", {"code": "1/0", "userExpressions": {"a": "1"}}, 200), ("post", BOX + "/kernels/{kid}/execute?detach=true", {"code": "1"}, 202), ("post", BOX + "/kernels/{kid}/execute", {}, 400),
    ("get", BOX + "/kernels/{kid}/variables", None, 200), ("post", BOX + "/kernels/{kid}/complete", {"code": "pri"}, 200), ("post", BOX + "/kernels/{kid}/inspect", {"code": "print"}, 200), ("post", BOX + "/kernels/{kid}/is_complete", {"code": "if x:"}, 200),
    ("get", BOX + "/kernels/{kid}/history", None, 200), ("post", BOX + "/kernels/{kid}/history", {"output": True}, 200), ("get", BOX + "/kernels/{kid}/comms", None, 200), ("post", BOX + "/kernels/{kid}/comms", {"type": "close", "commId": "none"}, 200),
    ("post", BOX + "/kernels/{kid}/restart", None, 200), ("post", BOX + "/kernels/{kid}/input", {"value": "x"}, 409), ("get", BOX + "/kernels/{kid}/executions/e1", None, 404),
    ("post", BOX + "/executions", {"code": "print(1)"}, 201), ("get", BOX + "/executions", None, 200), ("get", BOX + "/executions/{xid}?wait=20", None, 200), ("post", BOX + "/executions", {}, 400), ("get", BOX + "/dependencies", None, 200), ("post", BOX + "/dependencies", {"packages": ["x"]}, 400),
    ("post", "/v1/listeners", {"sandbox": "nobody"}, 404), ("get", "/v1/listeners", None, 200), ("delete", "/v1/listeners/{port}", None, 400), ("get", BOX + "/resources/status/", None, 200), ("post", BOX + "/resources/files/{relpath}", b"x", 200),
    ("get", BOX + "/resources/modules?q=textwrap", None, 200), ("get", BOX + "/resources/modules", None, 422), ("get", "/status/", None, 400),
    ("get", BOX + "/files/stat?path=none", None, 404), ("post", BOX + "/files/rename", {"from": "none", "to": "g"}, 404), ("get", BOX + "/files/stat", None, 400),
]


def test_answers_are_what_the_description_says(server, sandbox):
    first = server.start_process(sandbox, "sh", "-c", "echo out; echo err >&2; exit 3")["id"]
    server.ended(sandbox, first)
    xid = server.post(f"/v1/sandboxes/{sandbox}/executions", {"code": "def handler(event): print(1)", "event": {}, "callback": {"url": "https://nobody.invalid/"}}).json["id"]
    for method, path, body, status in ANSWERS:
        answer = server.request(method.upper(), path.replace("{id}", sandbox).replace("{pid}", first).replace("{kid}", "k1").replace("{eid}", "e1").replace("{xid}", xid), body)
        assert answer.status == status, (method, path, answer)
        response = described(method, path.partition("?")[0].replace("/executions/e1", "/executions/{eid}").replace("{xid}", "{eid}"), status)
        response = resolve(response["$ref"]) if "$ref" in response else response
        found = mismatch(answer.json, response["content"]["application/json"]["schema"])
        assert found is None, f"{method} {path}: {found}"


@pytest.mark.parametrize("name", ["Sandbox", "Process", "Event", "Entry", "Error", "ExecRequest", "ExecResult", "CreateRequest", "Kernel", "ExecuteRequest", "ExecutionResult"])
def test_the_schemas_people_look_for_are_there(name):
    assert DOCUMENT["components"]["schemas"][name]
