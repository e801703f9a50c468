"""The resources API and listeners under attack: files past the working directory, sandboxes of others, and the copies of cove up."""
import io
import tarfile

import pytest
from conftest import cove, leaving_nothing
from hostile import server_with_tenants
from server import Server, at


@pytest.fixture(scope="module")
def keyed(server):  # which is there longer, so that neither counts as left behind by the other
    with leaving_nothing():
        server, tenants = server_with_tenants("alpha", "beta")
        try:
            yield server, tenants
        finally:
            server.close()


@pytest.fixture(scope="module")
def box(server):
    name = server.create()
    yield name
    server.delete(at(name))


def scoped(name):
    return {"X-Cove-Sandbox": name}


def archive(*members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def member(name, target=None):
    info = tarfile.TarInfo(name)
    if target is not None:
        info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def test_FS_03_a_link_to_the_root_shows_nothing(server, box):
    server.exec(box, "bash", "-c", "ln -sfn / root; ln -sfn /proc proc; ln -sfn ../../.. up; ln -sfn /proc/self/fd fd")
    for path in ("root/etc/passwd", "root", "proc/self/environ", "proc/1/environ", "up/etc/passwd", "fd/0"):
        for place in ("files", "directories"):
            answer = server.get(f"/{place}/{path}", headers=scoped(box))
            assert answer.status in (400, 404) and b"root:x" not in answer.body, (place, path, answer)
        assert server.get(f"/files/{path}/etc/passwd", headers=scoped(box)).status in (400, 404)
    packed = server.get("/directories/.", headers=scoped(box))
    with tarfile.open(fileobj=io.BytesIO(packed.body)) as tar:
        assert not [one.name for one in tar.getmembers() if one.name.split("/")[0] in ("root", "proc", "up", "fd")]


def test_FS_05_an_upload_writes_through_no_link(server, box):
    server.exec(box, "bash", "-c", "echo original >/tmp/victim; rm -rf trap; mkdir trap; ln -s /tmp/victim trap/file; ln -s /tmp trap/dir")
    attempts = [("POST", "/files/trap/file", b"evil"), ("POST", "/files/trap/dir/victim", b"evil"), ("POST", "/files/trap/dir/new", b"evil"), ("DELETE", "/files/trap/file", None), ("DELETE", "/files/trap/dir/victim", None),
                ("POST", "/directories/trap/dir", archive((member("victim"), b"evil"))), ("POST", "/directories/trap", archive((member("dir/victim"), b"evil")))]
    for method, path, body in attempts:
        assert server.request(method, path, body, scoped(box)).status == 400, path
    for links in ([(member("l", "/tmp"), b""), (member("l/victim"), b"evil")], [(member("a", "."), b""), (member("a/l", "../../../tmp"), b""), (member("a/l/victim"), b"evil")], [(member("x/y", "../../../../tmp/victim"), b"")]):
        assert server.post("/directories/fresh", archive(*links), headers=scoped(box)).status == 400
    assert server.exec(box, "bash", "-c", "cat /tmp/victim; ls /tmp")["stdout"].split()[:2] == ["original", "victim"]


def test_FS_05_a_path_that_changes_while_it_is_used_writes_nothing_outside(server, box):
    """A directory that is a link half of the time: whatever the answers are, nothing lands behind the link."""
    server.exec(box, "bash", "-c", "mkdir -p /tmp/outside race; rm -rf /tmp/outside/*")
    flip = server.start_process(box, "bash", "-c", "cd race; while :; do mkdir d 2>/dev/null; rm -rf d; ln -s /tmp/outside d; rm d; done")
    try:
        for number in range(60):
            answer = server.post(f"/files/race/d/{number}", b"evil", headers=scoped(box))
            assert answer.status in (200, 400, 403, 404, 409), answer
    finally:
        server.delete(at(box, f"processes/{flip['id']}"))
    assert server.exec(box, "bash", "-c", "find /tmp/outside -type f | wc -l")["stdout"].strip() == "0"


@pytest.mark.parametrize("path", ["/status/", "/files/x", "/directories/x", "/modules?q=json"])
def test_XT_08_anothers_sandbox_is_as_unknown_as_one_that_is_not(keyed, path):
    server, tenants = keyed
    alpha, beta = tenants["alpha"], tenants["beta"]
    if alpha.get(at("alphas-box")).status == 404:
        alpha.create("alphas-box")
        alpha.post("/files/x", b"secret", headers=scoped("alphas-box"))
    for name in ("alphas-box", "nobody-box"):
        answer = beta.get(path, headers=scoped(name))
        assert (answer.status, answer.json) == (404, {"detail": f"sandbox not found: {name}"})
        assert server.get(path, headers=scoped(name)).status == 401, "and without a key nothing is"
    assert alpha.get("/files/x", headers=scoped("alphas-box")).body == b"secret"


def test_a_listener_of_anothers_sandbox_cannot_be_opened_or_closed(keyed):
    _, tenants = keyed
    alpha, beta = tenants["alpha"], tenants["beta"]
    name = alpha.create()
    port = alpha.post("/v1/listeners", {"sandbox": name}).json["port"]
    assert beta.post("/v1/listeners", {"sandbox": name}).json["error"] == f"sandbox not found: {name}"
    assert beta.delete(f"/v1/listeners/{port}").status == 404 and beta.get("/v1/listeners").json == {"listeners": []}
    assert [one["port"] for one in alpha.get("/v1/listeners").json["listeners"]] == [port]
    alpha.delete(at(name))


def test_a_token_in_the_query_is_no_key_here_and_is_not_logged(keyed):
    server, tenants = keyed
    key = tenants["alpha"].key
    assert server.get(f"/status/?token={key}", headers=scoped("alphas-box")).status == 401
    server.get("/status/?x=1&token=somebody-elses-secret")
    server.get("/status/?%74oken=somebody-elses-secret")
    assert key not in server.log and "somebody-elses-secret" not in server.log and "token=***" in server.log


def test_a_module_that_lies_about_its_sources_lies_to_nobody_else(server, box):
    """The helper runs among hostile code: what it prints is checked, and is at most wrong."""
    server.exec(box, "bash", "-c", "printf 'import os, sys\\nos.write(2, b\"x\")\\nclass L:\\n  def get_source(self, n): return 5\\nsys.modules[\"liar.inner\"] = type(\"M\", (), {\"__name__\": \"liar.inner\", \"__file__\": \"/etc/shadow\", \"__loader__\": L()})\\n' >liar.py; printf 'import os\\nos.write(1, b\"{}\"); os._exit(0)\\n' >leaver.py; printf 'import time\\ntime.sleep(600)\\n' >sleeper.py")
    answer = server.get("/modules?q=liar.inner", headers=scoped(box))
    assert answer.status in (200, 404, 500) and "root:" not in answer.body.decode()
    assert server.get("/modules?q=leaver.inner", headers=scoped(box)).status in (404, 500)
    assert server.get("/modules?q=leaver", headers=scoped(box)).status == 200


def test_a_server_cannot_choose_where_cove_down_writes(workdir):
    """Links of the host's own, met by names of the sandbox's: nothing is written through them."""
    home = workdir / "home"
    host = workdir / "host"
    (workdir / "elsewhere").mkdir()
    (workdir / "elsewhere" / "file").write_text("mine")
    host.mkdir(), home.mkdir()
    (host / "dir").symlink_to(workdir / "elsewhere")
    (host / "link").symlink_to(workdir / "elsewhere" / "file")
    with Server() as server:
        env = {"COVE_URL": f"http://127.0.0.1:{server.port}", "HOME": str(home), "XDG_STATE_HOME": ""}
        started = cove("up", "ipybox", "--json", "--bind", f"{host}:data", env=env)
        assert started.status == 0, started.err
        name = started.result["id"]
        server.exec(name, "bash", "-c", "cd /app/data; rm -rf dir link; mkdir dir; echo evil >dir/file; ln -s /etc/passwd out; ln -s ../../../etc up")
        down = cove("down", name, env=env)
        assert down.status == 1 and "still runs" in down.err and "link" in down.err
        assert (workdir / "elsewhere" / "file").read_text() == "mine"
        server.exec(name, "bash", "-c", "cd /app/data; rm -rf dir; echo evil >link")
        assert cove("down", name, env=env).status == 0
        assert (workdir / "elsewhere" / "file").read_text() == "mine", "a link is replaced, not followed"
        assert not (host / "out").exists() and not (host / "up").exists()
