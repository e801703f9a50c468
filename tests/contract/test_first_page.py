"""GET /, and the refusal of a name that is not the server's."""


def test_the_first_page_is_text_or_html_as_the_client_likes(server):
    text = server.get("/")
    assert text.status == 200 and text.headers["Content-Type"].startswith("text/plain") and "/openapi.json" in text.body.decode() and "curl" in text.body.decode()
    page = server.get("/", headers={"Accept": "text/html,application/xhtml+xml"})
    assert page.status == 200 and page.headers["Content-Type"].startswith("text/html") and '<a href="/metrics">' in page.body.decode()
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]


def test_the_example_of_the_first_page_works(server):
    assert "/v1/execute" in server.get("/").body.decode()
    answer = server.post("/v1/execute", {"code": "print(6*7)"})
    assert answer.status == 200 and answer.json["stdout"] == "42\n"


def test_nothing_of_the_host_header_gets_into_the_page(server):
    answer = server.raw_request("GET", "/", headers=["Accept: text/html"])
    assert f"http://127.0.0.1:{server.port}" in answer.body.decode()


def test_a_host_that_is_not_ours_is_refused_naming_the_setting(server):
    refused = server.get("/healthz", headers={"Host": "elsewhere.example"})
    assert refused.status == 403 and "http.allowed_hosts" in refused.json["error"]
