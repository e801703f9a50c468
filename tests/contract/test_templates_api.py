"""/v1/templates and `cove template`: roots built from Debian packages, for real, and what a sandbox finds in them."""
import json
import os
import pathlib
import shutil
import signal

import pytest
from conftest import HostState, cove, leaving_nothing, wait_until
from contract.test_openapi import mismatch
from security.test_posture import EXPECTED, fits, mounts
from server import Server, at

PROBES = pathlib.Path(__file__).parents[1] / "probes"
BUILD = 600  # seconds a build may take on a machine that does much else
LEAN = "lean"  # with Python
BARE = "bare"  # without

pytestmark = pytest.mark.skipif(not shutil.which("mmdebstrap") and not os.environ.get("COVE_REQUIRE_KERNEL"), reason="mmdebstrap is not installed")


def build(server, name, *packages, **fields):
    return server.post("/v1/templates", {"name": name, "packages": list(packages), **fields})


def settled(server, name):
    """The template when its build has ended, one way or the other."""
    assert wait_until(lambda: server.get(f"/v1/templates/{name}").json["status"] != "building", BUILD)
    return server.get(f"/v1/templates/{name}").json


def directory(server):
    return server.state_dir / "templates"


def processes_below(server):
    """Of the server: those of a build carry the name of the builder or of the tools it calls."""
    everything = HostState.all_processes()
    below = {server.pid}
    while more := {pid for pid, (_, parent) in everything.items() if parent in below} - below:
        below |= more
    return {pid: everything[pid][0] for pid in below}


def cli(server, *words):
    return cove("template", *words, env={"COVE_URL": f"http://127.0.0.1:{server.port}"})


def builder(server):
    return next((pid for pid, name in processes_below(server).items() if name == "cove-builder" and server.alive(pid)), None)


@pytest.fixture(scope="module")
def server():
    """One server with both templates. `bare` is first built and killed half way, which is a test of its own."""
    with leaving_nothing(), Server("--drain", "2s", "--on-exit", "destroy", "--pool-size", "0", "--images", f"py:3={LEAN},gone:1=gone", warm=True) as running:
        begun = build(running, LEAN, "python3-ipython", preload=["colorsys"], memoryLimit="300Mi", pidsLimit=40, cpuLimit="500m", timeoutSeconds=40, env={"FROM": "lean", "KEPT": "yes"})
        assert begun.status == 202, begun
        assert begun.json["status"] == "building"
        running.lean = settled(running, LEAN)
        assert running.lean["status"] == "ready", (running.lean, running.get(f"/v1/templates/{LEAN}/log").body[-3000:])
        yield running


@pytest.fixture(scope="module")
def bare(server):
    begun = build(server, BARE)
    assert begun.status == 202, begun
    made = settled(server, BARE)
    assert made["status"] == "ready", (made, server.get(f"/v1/templates/{BARE}/log").body[-3000:])
    return made


@pytest.fixture(scope="module")
def sandbox(server):
    return server.create(template=LEAN, ttlSeconds=3000)


# --- what a template is


def test_the_host_is_always_there(server):
    host = server.get("/v1/templates").json["templates"][0]
    assert (host["name"], host["status"], host["root"], host["kernels"]) == ("host", "ready", "host", True)
    assert "python" in host["languages"] and host["packages"] == [] and host["sizeBytes"] is None
    assert server.delete("/v1/templates/host").status == 409
    assert server.request("PATCH", "/v1/templates/host", {"memoryLimit": "1Gi"}).status == 409
    assert build(server, "host").code == "exists"


def test_a_built_one_tells_what_it_is(server):
    lean = server.get(f"/v1/templates/{LEAN}").json
    assert (lean["status"], lean["root"], lean["from"], lean["packages"], lean["preload"]) == ("ready", "built", "host", ["python3-ipython"], ["colorsys"])
    assert "python" in lean["languages"] and "bash" in lean["languages"] and "ruby" not in lean["languages"]
    assert lean["kernels"] is True
    assert lean["defaults"] == {"memoryBytes": 300 << 20, "diskBytes": None, "pids": 40, "cpuMillis": 500, "timeoutSeconds": 40.0, "env": ["FROM", "KEPT"]}
    assert 20 << 20 < lean["sizeBytes"] < 1 << 30
    assert lean["installed"]["python3"] and lean["installed"]["libc6"] and lean["createdAt"] <= lean["builtAt"]
    listed = [one for one in server.get("/v1/templates").json["templates"] if one["name"] == LEAN]
    assert listed and "installed" not in listed[0]
    number, = (path for path in directory(server).iterdir() if path.name.isdigit() and (path / "usr/bin/python3").exists())
    assert f"python3 {lean['installed']['python3']}\n" in (number / "manifest").read_text()


def test_answers_are_what_the_description_says(server):
    schema = {"$ref": "#/components/schemas/Template"}
    for name in ("host", LEAN):
        assert mismatch(server.get(f"/v1/templates/{name}").json, schema) is None
    assert mismatch(server.get("/v1/templates").json, {"$ref": "#/components/schemas/TemplateList"}) is None


def test_its_log_can_be_read_from_anywhere(server):
    whole = server.get(f"/v1/templates/{LEAN}/log")
    assert whole.status == 200 and whole.headers["Content-Type"].startswith("text/plain") and b"I: success" in whole.body
    assert server.get(f"/v1/templates/{LEAN}/log?from=100").body == whole.body[100:]
    assert server.get(f"/v1/templates/{LEAN}/log?from=99999999").body == b""
    assert server.get(f"/v1/templates/{LEAN}/log?from=x").code == "invalid"


def test_what_is_not_there_is_not_found(server):
    for method, path in (("GET", ""), ("GET", "/log"), ("DELETE", ""), ("PATCH", "")):
        answer = server.request(method, "/v1/templates/nothing" + path, {} if method == "PATCH" else None)
        assert (answer.status, answer.code) == (404, "not_found"), (method, path)


@pytest.mark.parametrize("package", ["--allow-unauthenticated", "-y", "foo;rm", "foo rm", "../x", "/etc/passwd", "foo=1.0", "foo/sid", "foo:i386", "foo*", "^foo", "?essential", "~nfoo", "foo-", "Foo", "foo\nbar", "foo,bar", "a", ""])
def test_what_is_no_package_is_refused_before_anything_is_begun(server, package):
    answer = build(server, "never", "python3", package)
    assert (answer.status, answer.code) == (400, "invalid") and answer.json["error"].startswith("packages contains '")
    assert server.get("/v1/templates/never").status == 404


@pytest.mark.parametrize("fields, words", [
    ({"name": "../x"}, "name"), ({"name": ""}, "name"), ({"name": None}, "name"), ({"name": "A"}, "name"), ({"name": "a" * 65}, "name"), ({"name": 7}, "name"),
    ({"packages": "python3"}, "packages"), ({"packages": [1]}, "packages"), ({"packages": ["aa"] * 501}, "packages"),
    ({"from": "../x"}, "from"), ({"preload": ["os; print(1)"]}, "preload"), ({"preload": ["a"] * 51}, "preload"),
    ({"memoryLimit": "1"}, "memoryLimit"), ({"memoryLimit": "1Ti"}, "memoryLimit"), ({"cpuLimit": "x"}, "cpuLimit"), ({"pidsLimit": 1}, "pidsLimit"), ({"ephemeralStorageLimit": "1"}, "ephemeralStorageLimit"),
    ({"timeoutSeconds": 0}, "timeoutSeconds"), ({"timeoutSeconds": 1e9}, "timeoutSeconds"), ({"env": []}, "env"), ({"buildTimeoutSeconds": 0}, "buildTimeoutSeconds"), ({"buildTimeoutSeconds": 1e6}, "buildTimeoutSeconds"),
])
def test_a_field_that_is_wrong_is_named(server, fields, words):
    answer = server.post("/v1/templates", {"name": "never", "packages": [], **fields})
    assert (answer.status, answer.code) == (400, "invalid") and words in answer.json["error"], answer


def test_a_name_is_taken_once_and_a_base_must_be_there(server):
    assert (build(server, LEAN).status, build(server, LEAN).code) == (409, "exists")
    answer = build(server, "never", **{"from": "nothing"})
    assert (answer.status, answer.code) == (404, "not_found")


# --- builds that do not end well


def test_a_package_that_does_not_exist_fails_the_build_and_is_named(server):
    failed = cli(server, "build", "odd", "--packages", "no-such-package-anywhere")
    assert failed.status == 1 and "could not be built" in failed.err and "I: " in failed.err
    odd = server.get("/v1/templates/odd").json
    assert odd["status"] == "failed" and "no-such-package-anywhere" in odd["reason"], odd
    answer = server.post("/v1/sandboxes", {"template": "odd"})
    assert (answer.status, answer.code) == (409, "conflict") and "no-such-package-anywhere" in answer.json["error"]
    assert cli(server, "delete", "odd").out == "odd\n"
    assert server.get("/v1/templates/odd").status == 404


def test_a_build_that_takes_too_long_is_ended(server):
    assert build(server, "late", "python3", buildTimeoutSeconds=1).status == 202
    late = settled(server, "late")
    assert late["status"] == "failed" and "longer than it may" in late["reason"]
    assert builder(server) is None and [path.name for path in directory(server).iterdir() if path.name.startswith(".")] == []
    assert server.delete("/v1/templates/late").status == 204


def test_a_build_that_takes_too_much_disk_is_ended(fresh_server):
    server = fresh_server("--templates-build-size", "20M")
    assert build(server, "large", "python3").status == 202
    large = settled(server, "large")
    assert large["status"] == "failed" and "templates.build_size (20M)" in large["reason"], large
    assert builder(server) is None and [path.name for path in directory(server).iterdir() if path.name.startswith(".")] == []


def test_a_build_can_be_cancelled_and_only_one_goes_on_at_a_time(server):
    assert build(server, "gone", "python3").status == 202
    assert server.get("/v1/templates/gone").json["status"] == "building"
    other = build(server, "other")
    assert (other.status, other.code) == (409, "conflict") and "gone" in other.json["error"]
    assert server.post("/v1/sandboxes", {"template": "gone"}).code == "conflict"
    assert wait_until(lambda: b"I: " in server.get("/v1/templates/gone/log").body, 60)
    assert server.get("/v1/templates/gone").json["progress"] != ""
    assert server.delete("/v1/templates/gone").status == 204
    assert server.get("/v1/templates/gone").status == 404
    assert wait_until(lambda: builder(server) is None) and [path.name for path in directory(server).iterdir() if path.name.startswith(".")] == []


def test_a_build_that_is_killed_half_way_leaves_nothing_and_can_be_done_again(server, request):
    assert build(server, BARE, "python3").status == 202
    assert wait_until(lambda: b"I: extracting" in server.get(f"/v1/templates/{BARE}/log").body, BUILD)
    before = processes_below(server)
    os.kill(builder(server), signal.SIGKILL)
    broken = settled(server, BARE)
    assert broken["status"] == "failed" and "unexpectedly" in broken["reason"]
    assert [path.name for path in directory(server).iterdir() if path.name.startswith(".")] == []
    assert wait_until(lambda: not any(server.alive(pid) for pid, name in before.items() if name in ("mmdebstrap", "dpkg", "apt-get")))
    assert request.getfixturevalue("bare")["packages"] == []


def test_run_starts_from_a_template_too(server, bare):
    run = lambda *words: cove("run", "--state-dir", server.state_dir, *words)
    code = "import os, IPython; print(os.environ['FROM'], os.environ['KEPT'])"
    made = run("--template", LEAN, "-e", "KEPT=mine", "-c", code)
    assert (made.status, made.out) == (0, "lean mine\n"), made
    assert run("--template", BARE, "--", "/usr/bin/python3", "-V").status == 127, "only the host has one"
    told = run("--template", "nothing", "-c", "1")
    assert told.status == 125 and "there is no template 'nothing'" in told.err and LEAN in told.err, told
    json_of = run("--template", LEAN, "--json", "-c", "1").result
    assert json_of["isolation"]["template"] == LEAN, json_of


# --- a sandbox of one


def test_a_sandbox_has_what_its_template_gives(server, sandbox):
    made = server.get(at(sandbox)).json
    assert made["template"] == LEAN
    assert (made["limits"]["memoryBytes"], made["limits"]["pids"], made["limits"]["cpuMillis"]) == (300 << 20, 40, 500)
    assert server.out(sandbox, "echo $FROM $KEPT") == "lean yes\n"
    assert server.out(sandbox, "python3 -c 'print(6*7)'") == "42\n"


def test_an_execution_has_the_time_that_the_template_gives(server, sandbox):
    assert server.request("PATCH", f"/v1/templates/{LEAN}", {"timeoutSeconds": 0.5}).status == 200
    assert server.sh(sandbox, "sleep 60")["reason"] == "timeout"
    assert server.sh(sandbox, "sleep 1", timeoutSeconds=30)["exitCode"] == 0
    assert server.request("PATCH", f"/v1/templates/{LEAN}", {"timeoutSeconds": None}).json["defaults"]["timeoutSeconds"] is None


def test_what_is_asked_for_goes_before_what_the_template_gives(server):
    name = server.create(template=LEAN, memoryLimit="128Mi", pidsLimit=20, env={"FROM": "me"})
    made = server.get(at(name)).json
    assert (made["limits"]["memoryBytes"], made["limits"]["pids"], made["limits"]["cpuMillis"]) == (128 << 20, 20, 500)
    assert server.out(name, "echo $FROM $KEPT") == "me yes\n"
    server.delete(at(name))


def test_an_image_can_stand_for_a_template_and_an_unknown_template_is_refused(server):
    answer = server.post("/v1/sandboxes", {"template": "nothing"})
    assert (answer.status, answer.code) == (400, "invalid") and "unknown template: nothing" in answer.json["error"]
    assert server.post("/v1/sandboxes", {"template": 7}).code == "invalid"
    for fields, wanted in (({"template": "host"}, "host"), ({"image": "py:3"}, LEAN), ({"image": "py:3", "template": "host"}, "host"), ({"image": "odd:1"}, "host")):
        name = server.create(**fields)
        assert server.get(at(name)).json["template"] == wanted
        server.delete(at(name))
    assert server.post("/v1/sandboxes", {"image": "gone:1"}).code == "invalid"


def test_its_defaults_can_be_changed(server, bare):
    changed = server.request("PATCH", f"/v1/templates/{BARE}", {"memoryLimit": "64Mi", "env": {"A": "b"}})
    assert changed.status == 200 and changed.json["defaults"]["memoryBytes"] == 64 << 20 and changed.json["defaults"]["env"] == ["A"]
    again = server.request("PATCH", f"/v1/templates/{BARE}", {"memoryLimit": None, "timeoutSeconds": 3})
    assert again.json["defaults"] == {"memoryBytes": None, "diskBytes": None, "pids": None, "cpuMillis": None, "timeoutSeconds": 3.0, "env": ["A"]}
    assert server.request("PATCH", f"/v1/templates/{BARE}", {"memoryLimit": "x"}).code == "invalid"


def test_a_template_without_python_says_so(server, bare):
    assert "python" not in bare["languages"] and bare["kernels"] is False
    name = server.create(template=BARE)
    assert server.out(name, "ls /usr/bin/python3 2>&1 || true").endswith("No such file or directory\n")
    answer = server.post(at(name, "kernels"), {})
    assert (answer.status, answer.code) == (409, "conflict") and "python3-ipython" in answer.json["error"]
    server.delete(at(name))


def test_kernels_run_on_the_templates_own_python_and_soon_come_warm(server, sandbox):
    births = []

    def born_warm():
        kernel = server.post(at(sandbox, "kernels"), {}).json
        births.append(kernel["birth"])
        seen = server.post(at(sandbox, f"kernels/{kernel['id']}/execute"), {"code": "import sys; print('colorsys' in sys.modules, 'numpy' in sys.modules)\nimport numpy"}).json
        assert server.delete(at(sandbox, f"kernels/{kernel['id']}")).status == 204
        # The host has numpy, and its warm interpreters have loaded it.
        assert seen["error"]["name"] == "ModuleNotFoundError", seen
        assert seen["stdout"] == ("True False\n" if kernel["birth"] == "warm" else "False False\n"), seen
        return kernel["birth"] == "warm"

    assert wait_until(born_warm, 60), births
    assert births[0] == "cold"


def test_one_that_is_in_use_is_not_deleted(server, sandbox):
    answer = server.delete(f"/v1/templates/{LEAN}")
    assert (answer.status, answer.code) == (409, "conflict") and sandbox in answer.json["error"]
    assert server.get(f"/v1/templates/{LEAN}").json["status"] == "ready"


# --- what nobody may find in one


def test_tp_no_setuid_file_no_device_no_capability(server, sandbox, bare):
    for path in directory(server).iterdir():
        for parent, directories, files in os.walk(path):
            for name in directories + files:
                status = os.lstat(os.path.join(parent, name))
                assert status.st_mode & 0o6000 == 0 or os.path.islink(os.path.join(parent, name)), os.path.join(parent, name)
                assert os.path.islink(os.path.join(parent, name)) or os.path.isfile(os.path.join(parent, name)) or os.path.isdir(os.path.join(parent, name)), os.path.join(parent, name)
                assert (status.st_uid, status.st_gid) == (0, 0)
                assert "security.capability" not in os.listxattr(os.path.join(parent, name), follow_symlinks=False)
    assert server.out(sandbox, "find / -xdev -perm /6000 2>/dev/null; find /usr -perm /6000 2>/dev/null; find /usr /etc -type b -o -type c") == ""
    # /bin/su is there, and gives nobody anything.
    assert server.out(sandbox, "stat -c %a:%u $(command -v su)") == "755:65534\n"


def test_tp_nothing_of_the_host_or_of_another_template_is_seen(server, sandbox, bare):
    hosts = {name for name in os.listdir("/usr/bin")}
    inside = set(server.out(sandbox, "ls -A /usr/bin").split())
    assert "mmdebstrap" in hosts and not {"mmdebstrap", "clang-19", "pytest-3", "git"} & inside
    other = server.create(template=BARE)
    assert "python3" in inside and "python3" not in server.out(other, "ls -A /usr/bin").split()
    server.delete(at(other))
    table = server.out(sandbox, "cat /proc/self/mountinfo")
    assert str(server.state_dir) not in table and "lowerdir=/t/" in table and "/r/0/0" not in table
    assert server.out(sandbox, "ls /t /r 2>&1 || true").count("No such file") == 2
    # Of apt's way to its packages nothing stays, nor of who the host is.
    assert server.out(sandbox, "ls -d /etc/apt /var/lib/dpkg /var/cache/apt /var/lib/apt 2>/dev/null || true") == ""
    assert server.out(sandbox, "cat /etc/hostname /etc/machine-id /etc/resolv.conf") == "cove\nc07ec07ec07ec07ec07ec07ec07ec07e\nnameserver 127.0.0.1\noptions timeout:5 attempts:1\n"
    assert server.sh(sandbox, "cat /etc/shadow")["exitCode"] != 0


def test_tp_its_files_cannot_be_changed_and_two_sandboxes_share_none(server, sandbox):
    attempts = "for f in /usr/bin/python3 /usr/bin/new /etc/passwd /cove/init; do (echo x >> $f) 2>/dev/null && echo wrote $f; done; rm -f /usr/bin/env 2>/dev/null && echo removed; true"
    assert server.out(sandbox, attempts) == ""
    other = server.create(template=LEAN)
    assert server.out(sandbox, "echo mine > /workspace/a; ls /workspace") == "a\n"
    assert server.out(other, "ls /workspace") == ""
    server.delete(at(other))


def test_tp_the_posture_is_that_of_every_sandbox(server):
    name = server.create(template=LEAN, memoryLimit="1Gi", pidsLimit=256)
    for probe in ("posture.py", "probelib.py"):
        assert server.exec(name, "sh", "-c", f"cat > {probe}", stdin=(PROBES / probe).read_text())["exitCode"] == 0
    result = server.exec(name, "python3", "-u", "posture.py", stdin="\n")
    assert result["exitCode"] == 0, result
    facts = {}
    for line in result["stdout"].splitlines():
        if line.startswith("{"):
            fact = json.loads(line)
            facts[fact.pop("fact")] = fact
    assert facts["status"] == EXPECTED["status"]
    assert facts["maps"]["setgroups"] == "deny" and all(map(fits, facts["maps"]["uid"], EXPECTED["maps"]["uid"]))
    assert {key: facts["init"][key] for key in EXPECTED["init_status"]} == EXPECTED["init_status"]
    assert facts["init"]["files"] == EXPECTED["init_closed"]
    assert facts["group"]["lines"] == EXPECTED["group"]
    names = set(facts["root"]["names"])
    assert names - set(EXPECTED["root"]["optional"]) == set(EXPECTED["root"]["required"])
    for limit, pair in facts["limits"]["table"].items():
        assert all(map(fits, pair, EXPECTED["limits"][limit])), (limit, pair)
    seen = mounts(facts["mounts"]["table"])
    assert [entry[:2] for entry in seen if not entry[0].startswith("/dev")] == [["/", "overlay"], ["/usr", "overlay"], ["/cove", "overlay"], ["/proc", "proc"]]
    assert all("nosuid" in entry[2] for entry in seen) and all("ro" in entry[2].split(",") for entry in seen if entry[0] in ("/usr", "/cove", "/dev"))
    server.delete(at(name))


# --- who may


def test_building_and_deleting_is_the_operators_right(fresh_server):
    server = fresh_server()
    keys = {}
    for tenant, flags in (("ops", ["--operator"]), ("acme", [])):
        made = cove("key", "create", "--tenant", tenant, "--state-dir", server.state_dir, "--json", *flags)
        keys[tenant] = made.result
        assert keys[tenant]["operator"] is (tenant == "ops")
    server.stop()
    server.start()
    as_ops = {"Authorization": "Bearer " + keys["ops"]["key"]}
    as_acme = {"Authorization": "Bearer " + keys["acme"]["key"]}
    for method, path, body in (("POST", "", {"name": "x", "packages": ["../x"]}), ("PATCH", "/host", {}), ("DELETE", "/host", None), ("GET", "/host/log", None)):
        assert server.request(method, "/v1/templates" + path, body).status == 401
        refused = server.request(method, "/v1/templates" + path, body, headers=as_acme)
        assert (refused.status, refused.code) == (403, "denied") and "--operator" in refused.json["error"]
        assert server.request(method, "/v1/templates" + path, body, headers=as_ops).status not in (401, 403)
    # What there is everybody with a key may know: they choose from it.
    assert [one["name"] for one in server.get("/v1/templates", headers=as_acme).json["templates"]] == ["host"]
    cove("key", "revoke", keys["ops"]["id"], "--state-dir", server.state_dir)
    assert server.post("/v1/templates", {"name": "x"}, headers=as_ops).status == 401


# --- the command line


def test_the_command_line_lists_shows_and_refuses(server):
    table = cli(server, "list").out.splitlines()
    assert table[0].split() == ["NAME", "STATUS", "SIZE", "LANGUAGES", "PACKAGES"] and table[1].split()[:3] == ["host", "ready", "-"]
    assert any(line.split()[0] == LEAN and line.split()[-1] == "python3-ipython" for line in table)
    assert json.loads(cli(server, "show", LEAN).out)["name"] == LEAN
    assert "I: success" in cli(server, "log", LEAN).out
    refused = cli(server, "build", "x", "--packages", "python3,../x")
    assert refused.status == 1 and "../x" in refused.err
    assert cli(server, "delete", "host").status == 1 and cli(server, "show", "nothing").status == 1
    made = cove("create", "--template", LEAN, env={"COVE_URL": f"http://127.0.0.1:{server.port}"})
    assert made.status == 0 and server.get(at(made.out.strip())).json["template"] == LEAN
    server.delete(at(made.out.strip()))


# --- last: the server goes and comes


def test_it_survives_a_restart_and_its_sandboxes_too(server, sandbox, bare):
    assert build(server, "half", "python3").status == 202
    assert wait_until(lambda: b"I: " in server.get("/v1/templates/half/log").body, 60)
    stray = directory(server) / "12345"
    stray.mkdir()
    server.restart()
    assert server.get(f"/v1/templates/{LEAN}").json["installed"] == server.lean["installed"]
    half = server.get("/v1/templates/half").json
    assert half["status"] == "failed" and "ended during the build" in half["reason"]
    assert server.out(sandbox, "python3 -c 'print(1)'; echo $FROM") == "1\nlean\n"
    assert wait_until(lambda: not stray.exists() and [path.name for path in directory(server).iterdir() if path.name.startswith(".")] == [], 120)
    assert len([path for path in directory(server).iterdir()]) == 2
    name = server.create(template=BARE)
    assert server.out(name, "echo up") == "up\n"
    server.delete(at(name))
    # With nobody on it, it goes, and all that was its own.
    server.delete(at(sandbox))
    assert server.delete(f"/v1/templates/{LEAN}").status == 204
    assert server.post("/v1/sandboxes", {"template": LEAN}).code == "invalid"
    assert len([path for path in directory(server).iterdir()]) == 1
