"""The workspace API: documents pulled from a store (contract sandbox-runtime, section 7), against a stand-in that speaks as the store does."""
import http.server
import json
import socket
import ssl
import subprocess
import threading

import pytest
from conftest import cove, wait_until
from hostile import descriptors, front
from server import Server, new_id
from workspace import SE, download, execute, mistake, result, session


class Store(http.server.ThreadingHTTPServer):
    """A document store and its object storage in one."""
    daemon_threads = True

    def __init__(self, tls=None):
        super().__init__(("127.0.0.1", 0), Asked)
        self.asked, self.fetched, self.now, self.most, self.lock, self.gate = [], [], 0, 0, threading.Lock(), None
        self.documents = {"gns://a": b"document a", "gns://elsewhere": b"document elsewhere", "gns://big": b"x" * 300000}
        self.scheme = "https" if tls else "http"
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"


class Asked(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body, **headers):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        store = self.server
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with store.lock:
            store.asked.append((self.path, self.headers["Authorization"], asked))
        docid = asked["docid"]
        if docid == "gns://denied":
            return self.answer(403, {"cause": "no"})
        if docid == "gns://odd":
            return self.answer(200, {"authrequest": ["GET"], "name": "x"})
        elsewhere = getattr(store, "elsewhere", None) or store
        target = {"gns://elsewhere": f"{elsewhere.url}/objects/elsewhere", "gns://inside": "http://169.254.169.254/latest/", "gns://loop": "http://127.0.0.1:1/", "gns://file": "file:///etc/passwd"}.get(docid, f"{store.url}/objects/{docid[6:]}")
        grant = {"authrequest": ["GET", target, "Authorization: AWS key:sig=", "Host: objects.example", "x-amz-date: Wed, 10 Sep 2025 15:22:51 GMT"], "name": "of the store.txt", "size": 10, "rev": asked.get("rev") or "rev-1"}
        if docid == "gns://updir":
            grant["name"] = "../../etc/evil"
        self.answer(200, grant)

    def do_GET(self):
        store = self.server
        with store.lock:
            store.now += 1
            store.most = max(store.most, store.now)
            store.fetched.append((self.path, dict(self.headers)))
        if store.gate:
            store.gate.wait(20)
        with store.lock:
            store.now -= 1
        docid = "gns://" + self.path.removeprefix("/objects/")
        content = store.documents.get(docid, store.documents["gns://a"] if docid.startswith("gns://n") else None)
        return self.answer(404, b"none") if content is None else self.answer(200, content)


@pytest.fixture(scope="module")
def store():
    made = Store()
    yield made
    made.shutdown()


@pytest.fixture(scope="module")
def server(store):
    with Server("--drain", "1s", env={"EFAST_DOWNLOADER_URL": store.url, "EFAST_TOKEN": "secret-of-the-server", "DOWNLOADER_TIMEOUT": "20"}) as running:
        yield running


@pytest.fixture
def name(server):
    made = session(server)
    yield made
    server.delete(f"{SE}/session/{made}")


def pull(server, name, *files, **fields):
    return server.post(f"{SE}/download_from_efast/{name}", {"file_params": list(files), **fields}, timeout=90)


def test_a_document(server, store, name):
    said = result(pull(server, name, {"docid": "gns://a", "savename": "报告 1.txt", "rev": "r7"}, save_path="in/docs", token="mine"))
    assert {**said, "results": 0} == {"message": "下载完成: 1个成功, 共1 个文件", "success_count": 1, "failed_count": 0, "total_count": 1, "results": 0, "save_path": "in/docs"}
    assert said["results"] == [{"success": True, "file_path": "in/docs/报告 1.txt", "file_info": {"name": "报告 1.txt", "size": 10, "rev": "r7"}, "downloaded_size": 10, "total_size": 10, "index": 0, "docid": "gns://a", "savename": "报告 1.txt"}]
    assert download(server, name, "in/docs/报告 1.txt").body == b"document a"
    assert store.asked[-1] == ("/api/efast/v1/file/osdownload/", "Bearer mine", {"docid": "gns://a", "savename": "报告 1.txt", "rev": "r7"})
    path, headers = store.fetched[-1]
    assert path == "/objects/a" and headers["Authorization"] == "AWS key:sig=" and headers["x-amz-date"] and headers["Host"] == store.url.removeprefix("http://")


def test_what_is_left_out_is_the_usual(server, store, name):
    said = result(pull(server, name, {"docid": "gns://a"}, {"docid": "gns://big", "savename": ""}, timeout=None))
    assert [one["file_path"] for one in said["results"]] == ["downloaded_file_0", "of the store.txt"] and said["save_path"] == ""
    assert said["results"][1]["downloaded_size"] == said["results"][1]["total_size"] == 300000
    assert store.asked[-1][1] == "Bearer secret-of-the-server"


def test_single_failures_never_fail_the_call(server, name):
    files = [{"docid": f"gns://{one}", "savename": one} for one in ("denied", "a", "missing", "odd", "inside", "loop", "file")]
    said = result(pull(server, name, *files, {"docid": "gns://updir", "savename": ""}, save_path="/s/"))
    assert (said["success_count"], said["failed_count"], said["total_count"]) == (1, 7, 8)
    bad = {one["savename"]: one for one in said["results"] if not one["success"]}
    assert list(bad["denied"]) == ["success", "error", "docid", "save_path", "savename", "rev", "index"] and bad["denied"]["save_path"] == "/s/" and bad["denied"]["index"] == 0
    assert "403" in bad["denied"]["error"] and "404" in bad["missing"]["error"] and "Invalid auth request" in bad["odd"]["error"]
    assert all(bad[one]["error"] for one in ("inside", "loop", "file")), "no private address, no other scheme, whoever says so"
    assert "'..'" in bad[""]["error"]
    assert execute(server, name, "ls s")["stdout"] == "a"


def test_three_at_a_time(server, store, name):
    store.gate, store.most = threading.Event(), 0
    answers = []
    thread = threading.Thread(target=lambda: answers.append(pull(server, name, *({"docid": f"gns://n{n}", "savename": f"n{n}"} for n in range(7)))))
    thread.start()
    try:
        assert wait_until(lambda: store.now == 3, 10)
    finally:
        store.gate.set()
    thread.join(30)
    store.gate = None
    assert store.most == 3 and [one["index"] for one in result(answers[0])["results"]] == list(range(7)) and result(answers[0])["success_count"] == 7


@pytest.mark.parametrize("files, status, words", [([], 400, "No file parameters provided"), ([{"docid": "a"}, {"savename": "x"}], 400, "Missing docid in file_params[1]"), ([{"docid": "a", "savename": "a/../b"}], 400, "Invalid filename: a/../b (cannot contain '..')"), ([{"docid": 5}], 400, "docid in file_params[0] must be a string")])
def test_requests_that_cannot_be(server, name, files, status, words):
    answer = pull(server, name, *files)
    assert (answer.status, answer.json) == (status, {"detail": words})


def test_paths_and_addresses_that_cannot_be(server, name):
    answer = pull(server, name, {"docid": "gns://a"}, save_path="../out")
    assert (answer.status, answer.json) == (500, {"detail": "Failed to create save path: child path cannot start with '.' or '..'"})
    execute(server, name, "ln -s /etc out")
    answer = pull(server, name, {"docid": "gns://a"}, save_path="out/deep")
    assert (answer.status, answer.json) == (500, {"detail": "Failed to create save path: child path would escape parent directory"})
    answer = pull(server, name, {"docid": "gns://a"}, efast_url="ftp://example.org")
    assert answer.status == 500 and answer.json["detail"].startswith("Batch download failed: ")


@pytest.mark.parametrize("address", ["http://127.0.0.1:{port}", "http://localhost:{port}", "http://169.254.169.254", "http://10.0.0.1", "http://[::1]:{port}", "http://[::ffff:127.0.0.1]:{port}", "http://0.0.0.0:{port}", "http://127.1:{port}"])
def test_a_caller_may_not_name_an_address_of_the_inside(server, store, name, address):
    other = Store()
    try:
        said = pull(server, name, {"docid": "gns://a", "savename": "f"}, efast_url=address.format(port=other.server_address[1]))
        if said.status == 200:
            assert result(said)["failed_count"] == 1 and result(said)["results"][0]["error"]
        else:
            assert said.status == 500 and "Batch download failed" in said.json["detail"]
        assert other.asked == [], "nobody was even asked"
    finally:
        other.shutdown()


def test_the_servers_token_is_for_its_own_store(server, store, name):
    other = Store()
    with Server("--drain", "1s", "--workspace-efast-places", f"127.0.0.1:{other.server_address[1]}", env={"EFAST_DOWNLOADER_URL": store.url, "EFAST_TOKEN": "secret-of-the-server"}) as second:
        assert result(pull(second, "s", {"docid": "gns://a"}, efast_url=store.url + "/"))["success_count"] == 1
        assert store.asked[-1][1] == "Bearer secret-of-the-server"
        assert result(pull(second, "s", {"docid": "gns://a"}, efast_url=other.url))["success_count"] == 0
        assert other.asked == [], "the operator lists it for what its own store grants, not as a store"
    other.shutdown()


def test_inside_places_are_for_what_the_operators_own_store_grants(store):
    objects = Store()
    store.elsewhere = objects
    flags = "--drain", "1s", "--workspace-efast-places", f"127.0.0.1:{objects.server_address[1]}"
    try:
        with Server(*flags, env={"EFAST_DOWNLOADER_URL": store.url}) as own:
            assert result(pull(own, "s", {"docid": "gns://elsewhere", "savename": "f"}))["success_count"] == 1
            assert objects.fetched[-1][0] == "/objects/elsewhere"
        with Server(*flags, env={"EFAST_DOWNLOADER_URL": "http://efast.invalid:1"}) as other:
            before = len(objects.fetched), len(store.asked)
            assert result(pull(other, "s", {"docid": "gns://elsewhere", "savename": "f"}, efast_url=store.url))["failed_count"] == 1
            assert result(pull(other, "s", {"docid": "gns://a", "savename": "f"}, efast_url=objects.url))["failed_count"] == 1
            assert (len(objects.fetched), len(store.asked)) == before
    finally:
        objects.shutdown()
        store.elsewhere = None


def test_the_servers_token_is_for_no_other_address_there(server, store, name):
    before = len(store.asked)
    for address in (store.url + "/admin/delete#", store.url + "/admin?x=", store.url + "http://other/"):
        answer = pull(server, name, {"docid": "gns://a"}, efast_url=address)
        assert answer.status == 500 and "Batch download failed" in answer.json["detail"], address
    assert len(store.asked) == before
    assert result(pull(server, name, {"docid": "gns://a"}, efast_url=store.url + "/elsewhere"))["failed_count"] == 1
    assert len(store.asked) == before, "an inside host is no store for a caller, whatever its path"


@pytest.mark.parametrize("leaving", ["the caller", "the session"])
def test_documents_stop_coming_when_nobody_waits_for_them(server, store, leaving):
    """As the store sees it: its answer has nobody to go to."""
    name = session(server)
    store.gate, store.now = threading.Event(), 0
    body = json.dumps({"file_params": [{"docid": "gns://a", "savename": f"f{n}"} for n in range(3)], "timeout": 600}).encode()
    before = descriptors(front(server))
    try:
        with socket.create_connection(("127.0.0.1", server.port)) as caller:
            caller.sendall(f"POST {SE}/download_from_efast/{name} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            assert wait_until(lambda: store.now == 3, 10)
            if leaving == "the session":
                server.delete(f"{SE}/session/{name}")
                assert wait_until(lambda: descriptors(front(server)) <= before + 2, 10), (before, descriptors(front(server)))
        assert wait_until(lambda: descriptors(front(server)) <= before, 10), (before, descriptors(front(server)))
    finally:
        store.gate.set()
        store.gate = None
        server.delete(f"{SE}/session/{name}")


def test_a_document_that_does_not_fit(server, store):
    store.documents["gns://huge"] = b"y" * 3_000_000
    name = session(server, size="2M")
    said = result(pull(server, name, {"docid": "gns://huge", "savename": "f"}))
    assert said["failed_count"] == 1 and said["results"][0]["error"]
    assert download(server, name, "f").status == 404, "no half of it"
    server.delete(f"{SE}/session/{name}")


def test_time_is_limited(server, store, name):
    store.gate = threading.Event()
    try:
        said = result(pull(server, name, {"docid": "gns://a", "savename": "late"}, timeout=1))
        assert said["failed_count"] == 1 and said["results"][0]["error"]
    finally:
        store.gate.set()
        store.gate = None


def test_certificates_are_verified(workdir):
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", workdir / "key.pem", "-out", workdir / "cert.pem", "-days", "2", *subject], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(workdir / "cert.pem", workdir / "key.pem")
    store = Store(context)
    workdir.chmod(0o755)
    (workdir / "cert.pem").chmod(0o644)
    for trusted, good in ((["--outbound-ca-file", workdir / "cert.pem"], 1), ([], 0)):
        with Server("--drain", "1s", *trusted, env={"EFAST_DOWNLOADER_URL": store.url}) as server:
            assert result(pull(server, "s", {"docid": "gns://a"}))["success_count"] == good
    store.shutdown()


def test_a_time_limit_below_nothing_is_refused(server, name):
    answer = pull(server, name, {"docid": "gns://a"}, timeout=-1)
    assert answer.status == 422 and "greater than or equal to 0" in answer.body.decode(), answer


@pytest.mark.parametrize("url", ["efast-private:9123", "ftp://store/", "http://", "http://store:99999", "http://store/?x=1"])
def test_an_address_that_makes_no_sense_stops_the_start(workdir, url):
    told = cove("serve", "--listen", "127.0.0.1:0", "--state-dir", workdir / "state", env={"EFAST_DOWNLOADER_URL": url})
    assert told.status != 0 and "workspace.efast_url (EFAST_DOWNLOADER_URL)" in told.err and url in told.err, told
