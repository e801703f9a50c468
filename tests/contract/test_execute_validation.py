"""What is said of requests of another shape (the table of section 1), and of JSON that is none, compared with Python's own words."""
import json

import pytest
from interpreter import JSON, ask, form, form_type

RUN = "/v1/execute"


def problems(server, body, path=RUN, content_type="application/json"):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = server.raw_request("POST", path, body, [f"Content-Type: {content_type}"])
    assert answer.status == 422, answer
    assert list(answer.json) == ["detail"] and isinstance(answer.json["detail"], list)
    return answer.json["detail"]


def missing(loc, given):
    return {"type": "missing", "loc": loc, "msg": "Field required", "input": given}


def wrong(kind, loc, message, given, **ctx):
    return {"type": kind, "loc": loc, "msg": message, "input": given, **({"ctx": ctx} if ctx else {})}


TEXT, WHOLE, BOOL = "Input should be a valid string", "Input should be a valid integer", "Input should be a valid boolean"
OBJECT = "Input should be a valid dictionary or object to extract fields from"
TIME, ECHO, FILES = ["body", "timeout_ms"], ["body", "last_line_interactive"], ["body", "files"]
TABLE = [
    ({}, [missing(["body", "code"], {})]),
    ({"code": None}, [wrong("string_type", ["body", "code"], TEXT, None)]),
    ({"code": 1}, [wrong("string_type", ["body", "code"], TEXT, 1)]),
    ({"code": ["x"]}, [wrong("string_type", ["body", "code"], TEXT, ["x"])]),
    ({"code": "", "stdin": 1}, [wrong("string_type", ["body", "stdin"], TEXT, 1)]),
    *[({"code": "", "timeout_ms": given}, [wrong("int_type", TIME, WHOLE, given)]) for given in (1.5, 2000.0, "2000", True, None, [])],
    *[({"code": "", "timeout_ms": given}, [wrong("greater_than_equal", TIME, "Input should be greater than or equal to 1", given, ge=1)]) for given in (0, -5, -10**40)],
    ({"code": "", "last_line_interactive": None}, [wrong("bool_type", ECHO, BOOL, None)]),
    ({"code": "", "last_line_interactive": []}, [wrong("bool_type", ECHO, BOOL, [])]),
    *[({"code": "", "last_line_interactive": given}, [wrong("bool_parsing", ECHO, BOOL + ", unable to interpret input", given)]) for given in (2, -1, "maybe", "", " yes")],
    *[({"code": "", "files": given}, [wrong("list_type", FILES, "Input should be a valid list", given)]) for given in (None, {}, "x", 1)],
    ({"code": "", "files": [1, None]}, [wrong("model_attributes_type", FILES + [0], OBJECT, 1), wrong("model_attributes_type", FILES + [1], OBJECT, None)]),
    ({"code": "", "files": [{"path": "a", "content": "aGk="}]}, [missing(FILES + [0, "file_id"], {"path": "a", "content": "aGk="})]),
    ({"code": "", "files": [{"path": None, "file_id": 7}]}, [wrong("string_type", FILES + [0, "path"], TEXT, None), wrong("string_type", FILES + [0, "file_id"], TEXT, 7)]),
    ({"timeout_ms": 0}, [missing(["body", "code"], {"timeout_ms": 0}), wrong("greater_than_equal", TIME, "Input should be greater than or equal to 1", 0, ge=1)]),
    ({"code": 1, "stdin": 2, "timeout_ms": "x", "last_line_interactive": "x", "files": 3}, None),
]


@pytest.mark.parametrize("body, want", TABLE)
def test_everything_that_is_wrong_is_told_at_once(server, body, want):
    told = problems(server, body)
    if want is None:
        assert [problem["loc"][1] for problem in told] == ["code", "stdin", "timeout_ms", "last_line_interactive", "files"]
    else:
        assert told == want and [list(problem) for problem in told] == [list(problem) for problem in want]


@pytest.mark.parametrize("path", [RUN, RUN + "/stream", "/v1/sessions", "/v1/sessions/code-session-x/bash"])
def test_no_body_and_no_object(server, path):
    assert problems(server, b"", path) == [missing(["body"], None)]
    assert problems(server, b"null", path) == [missing(["body"], None)]
    for given in ([1, "a"], "text", 5, True):
        assert problems(server, given, path) == [wrong("model_attributes_type", ["body"], OBJECT, given)]


def test_json_sent_as_something_else(server):
    body = b'{"code": "1"}'
    for content_type in ("text/plain", "application/x-www-form-urlencoded", "application/jsonp", "json"):
        assert problems(server, body, content_type=content_type) == [wrong("model_attributes_type", ["body"], OBJECT, body.decode())]


MALFORMED = ["{", "}", "[1,", "[1,]", '{"code": }', '{"code" "x"}', '{"code": "x" "y": 1}', "{code: 1}", '{"code": "x",}', '{"code": "x', '{"a": "\\', '{"a": "\\x"}', '{"a": "\\u12"}', '{"a": "\\uZZZZ"}',
             '{"a": "\\ud800\\uZZZZ"}', '{"a": "x\ny"}', "nul", "tru", "-", "01", "1.", ".5", "+1", "{} {}", "  ", "\x00", "'x'", '{"é漢😀": tru}', '[1 2]', "[", '{"a":1 ', '{"a"', '{"a":', "NaNx", "--1", "1e", "[1}", '"\t"',
             '{"code": "print(1)"}]', "\ufeff{", "{'a': 1}", '{"a": undefined}', "/* c */ {}"]


@pytest.mark.parametrize("text", MALFORMED)
def test_json_that_is_none_is_described_as_python_does(server, text):
    body = text.encode()
    try:
        json.loads(body)
        raise AssertionError("it is JSON")
    except json.JSONDecodeError as error:
        want = [wrong("json_invalid", ["body", error.pos], "JSON decode error", {}, error=error.msg)]
    assert problems(server, body) == want


@pytest.mark.parametrize("body", [b"\xff", b'{"code": "\xc3("}', b"[" * 100000, b"1" * 5000])
def test_what_python_cannot_even_read_is_400(server, body):
    answer = server.raw_request("POST", RUN, body, ["Content-Type: application/json"])
    assert (answer.status, answer.json) == (400, {"detail": "There was an error parsing the body"})


def test_strange_but_good_json(server):
    def out(text):
        answer = server.raw_request("POST", RUN, text.encode(), ["Content-Type: application/json"])
        assert answer.status == 200, answer
        return answer.json["stdout"]

    assert out('\ufeff {"code": "1", "code": "print(\\"\\ud83d\\ude00\\")", "x": [NaN, -Infinity, 1e999, {"y": null}]} \r\n') == "😀\n"
    assert out('{"code": "2\\/1", "timeout_ms": 20000, "stdin": null}') == "2.0\n"


def test_half_a_surrogate_pair_is_422(server):
    for field in ("code", "stdin"):
        body = b'{"code": "1", "%s": "\\ud800"}' % field.encode()
        assert [(problem["type"], problem["loc"]) for problem in problems(server, body)] == [("string_unicode", ["body", field])]


@pytest.mark.parametrize("given, echo", [(True, 1), (1, 1), (1.0, 1), ("TRUE", 1), ("yes", 1), ("On", 1), ("t", 1), ("Y", 1), ("1", 1), (False, 0), (0, 0), ("No", 0), ("off", 0), ("F", 0), ("n", 0), ("false", 0), ("0", 0)])
def test_many_words_for_true_and_false(server, given, echo):
    assert ask(server, "7", last_line_interactive=given, timeout_ms=20000).json["stdout"] == "7\n" * echo


def test_unknown_keys_are_ignored(server):
    assert ask(server, "7", language="python", timeout_ms=20000).json["stdout"] == "7\n"


@pytest.mark.parametrize("path", [RUN, RUN + "/stream"])
def test_a_time_above_the_maximum_is_refused_and_the_maximum_is_not(server, path):
    answer = ask(server, "1", path, timeout_ms=60001)
    assert (answer.status, answer.json) == (422, {"detail": "timeout_ms exceeds maximum of 60000 ms"})
    assert ask(server, "1", path, timeout_ms=10**30).status == 422
    assert ask(server, "1", path, timeout_ms=60000).status == 200


# --- sessions

SESSION, CMD = "/v1/sessions", "/v1/sessions/code-session-0/bash"


@pytest.mark.parametrize("path, body, want", [
    (SESSION, {"ttl_seconds": 0}, [wrong("greater_than_equal", ["body", "ttl_seconds"], "Input should be greater than or equal to 1", 0, ge=1)]),
    (SESSION, {"ttl_seconds": 86401}, [wrong("less_than_equal", ["body", "ttl_seconds"], "Input should be less than or equal to 86400", 86401, le=86400)]),
    (SESSION, {"ttl_seconds": 1.0}, [wrong("int_type", ["body", "ttl_seconds"], WHOLE, 1.0)]),
    (SESSION, {"ttl_seconds": "900"}, [wrong("int_type", ["body", "ttl_seconds"], WHOLE, "900")]),
    (SESSION, {"files": None, "ttl_seconds": None}, [wrong("list_type", FILES, "Input should be a valid list", None), wrong("int_type", ["body", "ttl_seconds"], WHOLE, None)]),
    (CMD, {}, [missing(["body", "cmd"], {})]),
    (CMD, {"cmd": ["ls"]}, [wrong("string_type", ["body", "cmd"], TEXT, ["ls"])]),
    (CMD, {"cmd": "ls", "timeout_ms": 0}, [wrong("greater_than_equal", TIME, "Input should be greater than or equal to 1", 0, ge=1)]),
    (CMD, {"cmd": "ls", "timeout_ms": True}, [wrong("int_type", TIME, WHOLE, True)]),
])
def test_shapes_of_sessions(server, path, body, want):
    assert problems(server, body, path) == want


# --- forms

def test_forms_without_a_file(server):
    absent = [missing(["body", "file"], None)]
    for body in (form(), form(('name="other"; filename="a"', b"x"))):
        assert problems(server, body, "/v1/files", form_type()["Content-Type"]) == absent
    assert problems(server, b"{}", "/v1/files", "application/json") == absent
    assert problems(server, b"", "/v1/files", "text/plain") == absent


def test_a_text_where_the_file_should_be(server):
    body = form(('name="file"', "grüße".encode()))
    assert problems(server, body, "/v1/files", form_type()["Content-Type"]) == [
        wrong("value_error", ["body", "file"], "Value error, Expected UploadFile, received: <class 'str'>", "grüße") | {"ctx": {"error": {}}}]


@pytest.mark.parametrize("content_type, body", [
    ("multipart/form-data", form()), ("multipart/form-data; boundary=", form()), ("multipart/form-data; boundary=b", b""), ("multipart/form-data; boundary=b", b"--b\r\nnonsense"),
    ("multipart/form-data; boundary=b", b"--b\r\n" + b"X" * 100000), ("multipart/form-data; boundary=b", b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\ncut'),
    ("multipart/form-data; boundary=b", b'--b\nContent-Disposition: form-data; name="file"; filename="a"\n\nx\n--b--\n'),
])
def test_forms_that_are_none_are_400(server, content_type, body):
    answer = server.raw_request("POST", "/v1/files", body, [f"Content-Type: {content_type}"])
    assert answer.status == 400 and isinstance(answer.json["detail"], str) and answer.json["detail"]
    assert server.get("/v1/files").json == {"files": []}, "nothing came of them"
