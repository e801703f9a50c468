"""`cove noxrc` and a link named noxrc: section 5 of the contract, against a server and in local mode."""
import fcntl
import os
import pathlib
import pty
import select
import shutil
import signal
import subprocess
import tarfile
import termios
import time

import lifeline
import pytest
from conftest import COVE, PATIENCE, end, new_marker, processes_with, wait_until
from server import new_id


class Said:
    def __init__(self, done):
        self.status, self.out, self.err = done.returncode, done.stdout.decode(), done.stderr.decode()

    def __iter__(self):
        return iter((self.status, self.out, self.err))


def noxrc(*words, stdin=b"", env=None, program=(COVE, "noxrc"), cwd=None):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("NOXRUNNER_")}
    done = subprocess.run([*program, *map(str, words)], input=stdin, capture_output=True, timeout=PATIENCE, env={**environment, **(env or {})}, cwd=cwd)
    return Said(done)


@pytest.fixture
def nox(server):
    def run(*words, **options):
        return noxrc("--base-url", f"http://127.0.0.1:{server.port}", *words, **options)
    return run


# --- the command line itself


def test_no_command_is_help_and_one():
    status, out, err = noxrc()
    assert status == 1 and out.startswith("usage: noxrc") and err == ""
    assert noxrc("-h").status == 0
    assert noxrc("exec", "--help").status == 0


@pytest.mark.parametrize("words", [("nonsense",), ("create",), ("create", "s", "--ttl", "x"), ("create", "s", "extra"), ("exec", "--nope", "s", "ls"), ("touch", "s", "--local-test"), ("--timeout", "x", "health"), ("download", "s", "--src")])
def test_bad_usage_is_two(words):
    status, out, err = noxrc(*words)
    assert status == 2 and out == "" and err.startswith("usage: noxrc") and "error:" in err


def test_a_link_named_noxrc_is_noxrc(workdir, server):
    (workdir / "noxrc").symlink_to(COVE)
    run = noxrc("--base-url", f"http://127.0.0.1:{server.port}", "health", program=(workdir / "noxrc",))
    assert tuple(run) == (0, "✓ Manager is healthy\n", "")


def test_where_the_address_comes_from(server):
    url = f"http://127.0.0.1:{server.port}/"
    assert noxrc("health", env={"NOXRUNNER_BASE_URL": url}).status == 0
    assert noxrc("--base-url", url, "health", env={"NOXRUNNER_BASE_URL": "http://127.0.0.1:1"}).status == 0
    status, out, err = noxrc("health", env={"NOXRUNNER_BASE_URL": ""})
    assert status == 1 and err.startswith("✗ ")
    status, out, err = noxrc("--base-url", "http://127.0.0.1:1", "health")
    assert (status, out, err) == (1, "", "✗ Manager is not healthy\n")


# --- commands, against a server


def test_create_says_the_pod(nox, server):
    name = new_id()
    status, out, err = nox("create", name, "--ttl", "300", "--mem", "256Mi", "--cpu", "500m")
    made = server.get("/v1/sandboxes/" + name).json
    assert (status, out, err) == (0, f"✓ Sandbox created: {made['podName']}\n", "")
    assert made["ttlSeconds"] == 300 and made["limits"]["memoryBytes"] == 256 << 20 and made["limits"]["cpuMillis"] == 500
    status, out, err = nox("create", name, "--wait", "--wait-timeout", "20")
    assert (status, out) == (0, f"✓ Sandbox created: {made['podName']}\nℹ Waiting for pod to be ready...\n✓ Pod is ready\n")
    assert nox("create", name, "--wait", "--wait-timeout", "0").out.endswith("⚠ Pod did not become ready within timeout\n")
    assert tuple(nox("touch", name)) == (0, "✓ TTL extended\n", "")
    assert tuple(nox("delete", name)) == (0, "✓ Sandbox deleted\n", "")
    status, out, err = nox("delete", name)
    assert status == 1 and out == "" and err.startswith("✗ ") and "HTTP 404" in err and "Response: " in err
    assert nox("touch", name).status == 1
    status, out, err = nox("create", name, "--ttl", "-1")
    assert status == 1 and err.startswith("✗ Failed to create noxrunner: HTTP 400")


def test_exec_gives_the_streams_and_the_status(nox, sandbox):
    assert tuple(nox("exec", sandbox, "sh", "-c", "echo out; echo err >&2; exit 7")) == (7, "out\n", "err\n")
    assert nox("exec", "--ignore-exit-code", sandbox, "false").status == 0
    assert nox("exec", sandbox, "--", "echo", "x").out == "x\n"
    assert nox("exec", "--workdir", "/tmp", sandbox, "pwd").out == "/tmp\n"
    assert nox("exec", sandbox, "--workdir", "/tmp", "pwd").status == 127, "after the session every word is the command's"
    assert nox("exec", "--env", "A=1 '2'", "--env", "B=3", sandbox, "sh", "-c", 'echo "$A $B"').out == "1 '2' 3\n"
    status, out, err = nox("exec", "--env", "NONSENSE", sandbox, "echo", "x")
    assert status == 0 and out.startswith("⚠ ") and out.endswith("x\n")
    status, out, err = nox("exec", "--timeout-seconds", "1", sandbox, "sleep", "30")
    assert status == 124 and "timed out" in err
    assert nox("exec", sandbox, "sh", "-c", "kill -9 $$").status == 137
    assert nox("exec", sandbox, "no-such-program").status == 127
    status, out, err = nox("exec", "no-such-session", "true")
    assert status == 1 and err.startswith("✗ Execution failed: HTTP 404")


def test_upload_and_download(nox, server, sandbox, workdir):
    (workdir / "a.txt").write_text("one")
    (workdir / "d" / "sub").mkdir(parents=True)
    (workdir / "d" / "sub" / "ü.txt").write_text("two")
    (workdir / "d" / "top").write_text("three")
    status, out, err = nox("upload", sandbox, workdir / "a.txt", "--dest", "/workspace/in put")
    assert (status, out, err) == (0, "ℹ Uploading 1 file(s)...\n✓ Uploaded 1 file(s) to /workspace/in put\n", "")
    assert nox("upload", sandbox, "--dir", workdir / "d").out.endswith("✓ Uploaded 2 file(s) to /workspace\n")
    assert server.out(sandbox, "cat 'in put/a.txt' sub/ü.txt top") == "onetwothree"
    for words in ((), (workdir / "nope",), (workdir / "d",), ("--dir", workdir / "nope")):
        status, out, err = nox("upload", sandbox, *words)
        assert status == 1 and err.startswith("✗ "), words

    status, out, err = nox("download", sandbox, "--output", workdir / "x.tar.gz")
    assert (status, out) == (0, f"ℹ Downloading files...\n✓ Downloaded to {workdir}/x.tar.gz\n")
    assert "sub/ü.txt" in tarfile.open(workdir / "x.tar.gz", "r:gz").getnames()
    status, out, err = nox("download", sandbox, "--extract", workdir / "out")
    assert (status, out) == (0, f"ℹ Downloading files...\n✓ Extracted to {workdir}/out\n")
    assert (workdir / "out" / "sub" / "ü.txt").read_text() == "two"
    (workdir / "here").mkdir()
    assert nox("download", sandbox, "--src", "/workspace/sub", cwd=workdir / "here").out.endswith("✓ Extracted to .\n")
    assert os.listdir(workdir / "here") == ["ü.txt"]
    assert nox("download", sandbox, "--src", "/nope").status == 1


def test_ctrl_c_is_130(server, sandbox):
    marker = new_marker()
    process = subprocess.Popen([COVE, "noxrc", "--base-url", f"http://127.0.0.1:{server.port}", "exec", sandbox, "sh", "-c", "sleep 30", marker], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert wait_until(lambda: set(processes_with(marker)) - {process.pid})
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err.decode()) == (130, "✗ Interrupted by user\n")


def test_no_server_is_a_network_error():
    status, out, err = noxrc("--base-url", "http://127.0.0.1:1", "touch", "s")
    assert status == 1 and err.startswith("✗ ") and "Network error" in err


# --- the interactive shell


def test_shell_words(nox, sandbox):
    lines = ["pwd", "mkdir -p 'a b/c' && echo made", "cd 'a", "cd nowhere", "cd a b/c", "pwd", "pwd | cat", "cd ..", "pwd", "cd -", "cd", "pwd", "cd /tmp", "touch", "help", "sh -c 'exit 9'", "X=1; echo $X", "exit", "echo never"]
    status, out, err = nox("shell", sandbox, stdin="\n".join(lines).encode())
    assert status == 0
    banner, _, rest = out.partition("\n\n")
    assert len(banner.splitlines()) == 3 and all(line.startswith("ℹ ") for line in banner.splitlines())
    assert rest.startswith(f"noxrunner:{sandbox}:/workspace$ /workspace\n")
    assert "made\n" in rest
    assert f"noxrunner:{sandbox}:/workspace/a b/c$ /workspace/a b/c\n" in rest
    assert f"noxrunner:{sandbox}:/workspace/a b$ /workspace/a b\n" in rest
    assert "⚠ " in rest and "✓ TTL extended\n" in rest and "⚠ Command exited with code 9\n" in rest
    assert f"noxrunner:{sandbox}:/tmp$ " in rest
    assert "never" not in rest
    assert "✗ cd: nowhere: No such directory\n" in err


def test_shell_ends_at_the_end_of_input(nox, sandbox):
    assert nox("shell", sandbox, "--workdir", "/tmp", stdin=b"echo $PWD").out.splitlines()[-2].endswith("$ /tmp")


def test_shell_on_a_terminal_has_colours_and_ends_at_ctrl_c(server, sandbox):
    master, slave = pty.openpty()

    def take_terminal():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = subprocess.Popen([COVE, "noxrc", "--base-url", f"http://127.0.0.1:{server.port}", "shell", sandbox], stdin=slave, stdout=slave, stderr=slave, preexec_fn=take_terminal)
    seen = b""
    prompt = f"\x1b[36mnoxrunner:{sandbox}:/workspace$ \x1b[0m".encode()
    deadline = time.monotonic() + PATIENCE
    while prompt not in seen and time.monotonic() < deadline:
        if select.select([master], [], [], 0.2)[0]:
            seen += os.read(master, 65536)
    try:
        assert prompt in seen and "\x1b[34mℹ ".encode() in seen, seen
        os.write(master, b"\x03")
        assert process.wait(PATIENCE) == 0
    finally:
        end(process)
        os.close(master)
        os.close(slave)


# --- local mode


@pytest.fixture
def local():
    name = new_id(lifeline.directory.name)  # its files lie in /tmp, whatever the temporary directory of a run is
    directory = pathlib.Path(f"/tmp/noxrunner_sandbox_{name}")

    def run(*words, **options):
        return noxrc("--local-test", *words, **options)
    run.name, run.directory = name, directory
    yield run
    shutil.rmtree(directory, ignore_errors=True)


def test_local_create_names_the_pod_after_the_session(local):
    status, out, err = local("create", local.name, "--wait")
    assert (status, out) == (0, f"✓ Sandbox created: local-{local.name}\nℹ Waiting for pod to be ready...\n✓ Pod is ready\n")
    assert "WARNING" in err
    assert (local.directory / "workspace").is_dir()
    assert local("health").status == 0
    assert local("touch", local.name).status == 0


def test_local_commands_run_in_a_sandbox(local):
    # What the host has and a sandbox does not: its processes, its files, its user, its network.
    secret = pathlib.Path("/tmp/nox-secret-" + local.name)
    secret.write_text("secret")
    try:
        status, out, err = local("exec", local.name, "sh", "-c", f"cat {secret}; id -u; ls /proc | grep -c '^[0-9]'; echo $HOME; pwd; cat /proc/1/comm")
        lines = out.splitlines()
        assert "secret" not in out and lines[0] != "0" and int(lines[1]) < 8, out
        assert lines[2:] == ["/home/cove", "/workspace", "init"]
        assert err.count("WARNING") == 2
    finally:
        secret.unlink()


def test_local_files_last_within_and_between_commands(local, workdir):
    (workdir / "in.txt").write_text("from here")
    assert local("upload", local.name, workdir / "in.txt").status == 0
    assert (local.directory / "workspace" / "in.txt").read_text() == "from here"
    status, out, err = local("exec", local.name, "sh", "-c", "cat in.txt; echo made > out.txt; mkdir d; echo y > d/z")
    assert (status, out) == (0, "from here")
    assert (local.directory / "workspace" / "out.txt").read_text() == "made\n"
    local("exec", local.name, "python3", "-c", "import os; os.unlink('in.txt')")
    assert sorted(os.listdir(local.directory / "workspace")) == ["d", "out.txt"]


def test_local_refusals(local):
    for words, name in ((("rm", "-rf", "x"), "rm"), (("SUDO", "ls"), "SUDO"), (("make",), "make"), (("/bin/echo",), "/bin/echo")):
        status, out, err = local("exec", local.name, *words)
        assert status == 1 and out == "" and err.endswith(f"Command not allowed: {name}"), err


def test_local_ends(local):
    assert local("exec", local.name, "sh", "-c", "exit 7").status == 7
    status, out, err = local("exec", "--timeout-seconds", "1", local.name, "sh", "-c", "echo lost; sleep 30")
    assert (status, out) == (124, "") and err.endswith("Command timed out after 1 seconds")
    assert local("exec", local.name, "sh", "-c", "kill -9 $$").status == 256 - 9
    if not shutil.which("unzip"):
        status, out, err = local("exec", local.name, "unzip")
        assert status == 127 and err.endswith("Command not found: unzip")
    assert local("exec", "--env", "A=b c", local.name, "printenv", "A").out == "b c\n"


@pytest.mark.parametrize("given, want", [("sub", "/workspace/sub"), ("/workspace/sub", "/workspace/sub"), ("/etc", "/workspace"), ("../..", "/workspace"), ("a/../b", "/workspace")])
def test_local_workdirs_stay_inside(local, given, want):
    assert local("exec", "--workdir", given, local.name, "pwd").out == want + "\n"


def test_local_sessions_are_those_of_one_process(local, workdir):
    local("create", local.name)
    assert local("download", local.name, "--output", workdir / "x").status == 1
    status, out, err = local("delete", local.name)
    assert status == 1 and "✗ " in err


def test_local_links_are_never_followed_on_the_host(local, workdir):
    (workdir / "in.txt").write_text("payload")
    victim = workdir / "victim"
    victim.mkdir()
    # Planted by hand, as no command could: those that lead out do not come back.
    local("create", local.name)
    (local.directory / "workspace" / "d").symlink_to(victim)
    assert local("upload", local.name, workdir / "in.txt", "--dest", "d").status == 1
    assert os.listdir(victim) == []
    local("exec", local.name, "sh", "-c", f"ln -s {victim} evil; ln -s ../../../../etc up; echo x > ok")
    assert sorted(os.listdir(local.directory / "workspace")) == ["ok"]


def test_local_directory_of_somebody_else_is_refused(local):
    if os.geteuid() != 0:
        pytest.skip("needs root to make one")
    local.directory.mkdir()
    os.chown(local.directory, 12345, 12345)
    assert local("create", local.name).status == 1


def test_local_shell(local):
    lines = b"mkdir sub\ncd sub\npwd\necho here > f\ncd ..\ncat sub/f\nrm sub/f\nls sub | wc -l\nexit\n"
    status, out, err = local("shell", local.name, stdin=lines)
    assert status == 0
    assert f"noxrunner:{local.name}:/workspace/sub$ /workspace/sub\n" in out
    assert "$ here\n" in out
    assert "$ 0\n" in out, "in sh everything may be run: the sandbox is the lock"


def test_local_ctrl_c(local):
    marker = new_marker()
    process = subprocess.Popen([COVE, "noxrc", "--local-test", "exec", local.name, "sh", "-c", "sleep 30", marker], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert wait_until(lambda: [pid for pid in processes_with(marker) if open(f"/proc/{pid}/comm").read() == "sh\n"], PATIENCE)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and "✗ Interrupted by user" in err.decode()


def test_local_leaves_nothing_where_it_was_called(local, workdir):
    assert local("exec", local.name, "true", cwd=workdir).status == 0
    assert os.listdir(workdir) == []
