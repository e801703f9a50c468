"""What programs find inside: a machine of the sandbox's own size, the places they expect, and a word about packages where there is no network."""
import json
import os
import pathlib
import re
import shutil

import pytest
from conftest import COVE, cove, python, run_json
from kernels import Kernel
from newborns import warm
from server import Server, at

MEMORY = 1 << 30  # of a sandbox by default


def shell(script, *options, **keywords):
    return run_json(*options, "--", "bash", "-c", script, **keywords)


@pytest.fixture(scope="module")
def warm_kernel():
    with Server("--drain", "1s", warm=True) as running:
        box = running.create()
        assert warm(running)
        yield Kernel(running, box)


# ---- Output


def test_what_python_printed_before_its_time_was_up_is_there():
    done = run_json("--timeout", "2s", "-c", "import time\nfor i in range(100):\n    print('step', i)\n    time.sleep(0.5)")
    assert done.reason == "timeout" and done.out.startswith("step 0\nstep 1\n")


def test_whoever_wants_pythons_buffers_has_them():
    done = run_json("--timeout", "1s", "--env", "PYTHONUNBUFFERED=", "-c", "import time\nprint('step')\ntime.sleep(60)")
    assert done.reason == "timeout" and done.out == ""


def test_a_warm_program_is_unbuffered_too(server, sandbox):
    seen = server.post(at(sandbox, "exec"), {"cmd": ["python3", "-c", "import sys; print(sys.stdout.write_through)"]}).json
    assert seen["stdout"] == "True\n"


# ---- Sizes

COUNTS = "import os\nprint(os.cpu_count(), len(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'], os.environ['OPENBLAS_NUM_THREADS'])"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
@pytest.mark.parametrize("cpus, cores", [("0.5", 1), ("1", 1), ("1.5", 2), ("2", 2)])
def test_programs_count_the_cores_of_their_sandbox(cpus, cores):
    assert python(COUNTS, "--cpus", cpus).out == f"{cores} {cores} {cores} {cores}\n"
    assert shell("nproc; env -u OMP_NUM_THREADS nproc", "--cpus", cpus).out == f"{cores}\n{cores}\n"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_a_server_that_may_use_one_core_gives_that_one():
    core = min(os.sched_getaffinity(0))
    seen = cove("-c", core, COVE, "run", "-c", "import os; print(os.sched_getaffinity(0))", binary=shutil.which("taskset"))
    assert seen.out == f"{{{core}}}\n", seen.err


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_a_warm_interpreter_counts_them_as_well(warm_kernel):
    assert warm_kernel.birth == "warm"
    assert warm_kernel.out(COUNTS) == "1 1 1 1\n"


NODE = "const os = require('os'), v8 = require('v8');\nconsole.log(JSON.stringify([v8.getHeapStatistics().heap_size_limit, os.availableParallelism ? os.availableParallelism() : 1]))"


def test_the_heap_of_node_fits_into_the_sandbox():
    for memory, size in (("512M", 512 << 20), ("256M", 256 << 20)):
        heap, threads = json.loads(run_json("--memory", memory, "--lang", "javascript", "-c", NODE).out)
        assert size // 2 < heap < size and threads == 1


@pytest.mark.parametrize("code", ["const os = require('os');", "import os from 'node:os';", "import {cpus, totalmem} from 'os'; const os = {cpus, totalmem};"])
def test_node_sees_the_cores_and_the_memory_of_its_sandbox(code):
    said = run_json("--memory", "512M", "--cpus", "1.5", "--lang", "javascript", "-c", code + "console.log(JSON.stringify([os.cpus().length, typeof os.cpus()[0].model, os.totalmem()]))")
    assert json.loads(said.out) == [2, "string", 512 << 20], said


def test_options_of_ones_own_for_node_are_kept_and_win():
    heap, _ = json.loads(run_json("--env", "NODE_OPTIONS=--max-old-space-size=100", "--lang", "javascript", "-c", NODE).out)
    assert heap < 200 << 20
    done = run_json("--env", "NODE_OPTIONS=--no-warnings", "--lang", "javascript", "-c", NODE + "\nconsole.log(process.env.NODE_OPTIONS)")
    assert done.out.endswith("--max-old-space-size=768 --no-warnings\n") and json.loads(done.out.splitlines()[0])[0] < MEMORY


JAVA = """
public class Main {
  public static void main(String[] args) {
    long all = 0;
    for (int i = 0; i < 3000; i++) all += new byte[1 << 20].length;
    System.out.println(Runtime.getRuntime().maxMemory() + " " + Runtime.getRuntime().availableProcessors() + " " + (all >> 20));
  }
}
"""


@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
def test_java_collects_its_garbage_within_the_sandbox():
    done = run_json("--timeout", "60s", "--lang", "java", "-c", JAVA)
    assert done.reason == "exited" and done.err == "", done.err
    heap, cores, done = map(int, done.out.split())
    assert MEMORY // 4 < heap < MEMORY * 3 // 4 and cores == 1 and done == 3000


@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
def test_a_heap_that_the_user_asks_java_for_wins():
    assert "64M" in shell("java -Xmx64M -XX:+PrintFlagsFinal -version 2>&1 | awk '$2 == \"MaxHeapSize\" { print $4 / 1048576 \"M\" }'", "--timeout", "60s").out


# ---- Places


@pytest.mark.parametrize("place", ["/var/tmp", "/mnt/data", "/mnt", "/data", "/app"])
def test_places_that_programs_expect_can_be_written(place):
    done = shell(f"set -e; mkdir -p {place}/a/b; echo x > {place}/a/b/c; mv {place}/a/b/c {place}/d; cat {place}/d; rm -r {place}/a {place}/d")
    assert (done.out, done.err) == ("x\n", "")


def test_var_tmp_is_as_tmp_is():
    assert shell("stat -c '%a %U' /tmp /var/tmp").out == "1777 cove\n1777 cove\n"


@pytest.mark.parametrize("place", ["/", "/etc", "/usr", "/cove", "/cove/bin", "/cove/stand-ins", "/var", "/var/lib", "/opt", "/run"])
def test_nothing_else_can_be_written(place):
    assert shell(f"touch {place}/x || mkdir {place}/y").result["exit_code"] == 1


def test_the_limits_can_be_asked_for_and_the_core_limit_set():
    done = shell("set -e; ulimit -a >/dev/null; ulimit -c 0; ulimit -c; python3 -c 'import resource; print(resource.getrlimit(resource.RLIMIT_CORE))'")
    assert (done.out, done.err, done.result["exit_code"]) == ("0\n(1, 1)\n", "", 0)


# ---- Facts


def test_free_tells_the_memory_of_the_sandbox():
    lines = [line.split() for line in shell("free -b", "--memory", "256M").out.splitlines()]
    total, used, left = map(int, lines[1][1:4])
    assert total == 256 << 20 and 0 < used < 64 << 20 and used + left <= total and lines[2] == ["Swap:", "0", "0", "0"]
    assert "1.0Gi" in shell("free -h").out
    assert re.search(r"^Mem: +1024 ", shell("free -m").out, re.M)


def test_files_count_as_memory():
    before, after = (int(re.search(r"^Mem: +\d+ +\d+ +(\d+)", shell(f"{make} free -m").out, re.M).group(1)) for make in ("", "head -c 100M /dev/zero > f;"))
    assert 90 <= before - after <= 110


@pytest.mark.parametrize("command, first", [("ps aux", "USER"), ("ps -ef", "UID"), ("ps", "PID"), ("ps -e", "PID"), ("ps -eo pid,ppid,cmd", "PID"), ("ps aux --sort=-%mem", "USER")])
def test_ps_shows_the_processes_of_the_sandbox_and_not_its_own_helpers(command, first):
    done = shell(f"sleep 60 & {command}; kill $!")
    lines = done.out.splitlines()
    assert done.err == "" and lines[0].split()[0] == first
    assert len([line for line in lines[1:] if re.search(r" sleep( 60)?$", line)]) == 1
    assert any("init" in line for line in lines[1:]) and 4 <= len(lines) <= 6 and "awk" not in done.out


def test_ps_of_one_process():
    assert shell("ps -p $$ -o comm=; ps -p 9999").out.split() == ["bash", "PID", "TTY", "TIME", "CMD"]


def test_a_command_line_cannot_break_the_table():
    script = "bash -c 'exec -a \"$(printf \"a\\nb\\tc\\033[31m)\")\" sleep 60' & sleep 0.3; ps -ef; kill %1"
    lines = shell(script).out.splitlines()
    assert all(re.match(r"(UID|cove) ", line) for line in lines) and "\033" not in "".join(lines)


def test_top_uptime_and_lscpu_answer():
    top = shell("top -b -n1").out
    assert re.match(r"top - \d\d:\d\d:\d\d up ", top) and "MiB Mem :   1024.0 total" in top and "init" in top
    assert re.fullmatch(r" \d\d:\d\d:\d\d up 0 min,  0 users,  load average: \d\.\d\d, \d\.\d\d, \d\.\d\d\n", shell("uptime").out)
    assert re.search(r"^CPU\(s\): +1$", shell("lscpu").out, re.M)


def test_df_tells_the_disk_of_the_sandbox():
    assert shell("df -B1 --output=size /workspace", "--disk", "64M").out.split()[-1] == str(64 << 20)


@pytest.mark.parametrize("command, found", [("ss -tln", "127.0.0.1:8123"), ("netstat -an", "127.0.0.1:8123"), ("ss -tulpn", "LISTEN"), ("ss -tun", None)])
def test_ss_and_netstat_show_who_listens(command, found):
    done = python(f"import os, socket\nserver = socket.create_server(('127.0.0.1', 8123))\nos.system({command!r})")
    assert done.err == "" and len(done.out.splitlines()) == (2 if found else 1) and (found or "") in done.out


def test_no_fact_of_the_host_is_told():
    host = {name: pathlib.Path(f"/proc/{name}").read_text() for name in ("meminfo", "uptime", "cpuinfo", "loadavg")}
    told = shell("free -b; free -k; free -m; top -b -n1; uptime; lscpu; ps aux; ps -ef; ss -an; netstat -an; env")
    total = int(re.search(r"MemTotal: +(\d+)", host["meminfo"]).group(1))
    for number in (total * 1024, total, total // 1024):
        assert not re.search(rf"\b{number}\b", told.out)
    model = re.search(r"model name\s*: (.*)", host["cpuinfo"])
    assert model is None or model.group(1) not in told.out
    assert "up 0 min" in told.out
    for line in told.out.splitlines():
        assert "kthreadd" not in line and "cove serve" not in line


# ---- Packages

NO_NETWORK = "this sandbox has no network"


@pytest.mark.parametrize("command, status", [("pip install six-of-nowhere", 1), ("pip3 install six-of-nowhere", 1), ("pip download six-of-nowhere", 1), ("apt install x", 100), ("apt-get update", 100)])
def test_what_needs_the_network_says_so_at_once(command, status):
    done = shell(command)
    assert done.result["exit_code"] == status and done.result["duration_ms"] < 25_000
    assert done.err.splitlines()[-1].startswith(f"{command.split()[0]}: {NO_NETWORK}")


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
@pytest.mark.parametrize("command", ["npm install left-of-nowhere", "npx left-of-nowhere"])
def test_npm_says_so_too(command):
    done = shell(command)
    assert done.result["exit_code"] not in (0, 124) and done.err.splitlines()[-1].startswith(f"{command.split()[0]}: {NO_NETWORK}")


def test_python_m_pip_fails_at_once_and_its_index_says_why():
    done = shell("python3 -m pip install six-of-nowhere")
    assert done.result["exit_code"] == 1 and "this-sandbox-has-no-network" in done.out + done.err and "externally-managed" not in done.err


WHEEL = """
import zipfile
with zipfile.ZipFile("here-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr("here.py", "word = 'found'")
    wheel.writestr("here-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: here\\nVersion: 1.0\\n")
    wheel.writestr("here-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr("here-1.0.dist-info/RECORD", "")
"""


def test_what_needs_no_network_is_done_by_the_real_program():
    assert shell("pip --version").out.startswith("pip ")
    assert NO_NETWORK not in shell("pip list; pip show pip; apt-get --version").err
    done = shell(f"set -e; python3 - <<'E'{WHEEL}E\npip install -q ./here-1.0-py3-none-any.whl; python3 -c 'import here; print(here.word)'; pip install -q here")
    assert done.out == "found\n" and done.result["exit_code"] == 0, done.err
    assert shell("pip install pip").result["exit_code"] == 0  # is there already


def test_pip_in_a_kernel_says_so_too(warm_kernel):
    seen = warm_kernel.run("%pip install six-of-nowhere", patience=60)
    assert NO_NETWORK in seen["stdout"] + seen["stderr"]


def test_a_name_that_cannot_be_found_is_found_never():
    done = python("import socket\ntry:\n    socket.getaddrinfo('example.org', 80)\nexcept socket.gaierror as error:\n    print(error.errno == socket.EAI_NONAME)")
    assert done.out == "True\n"


# ---- The science template


def test_packages_of_a_template_may_come_from_a_file(workdir):
    listed = workdir / "packages"
    listed.write_text("# what is needed\nno-such-package-one  # and why\n\nno-such-package-two\n")
    with Server("--drain", "1s") as running:
        where = {"COVE_URL": f"http://127.0.0.1:{running.port}"}
        assert cove("template", "build", "listed", "--packages", f"no-such-package-zero,@{listed}", "-d", env=where).status == 0
        assert sorted(running.get("/v1/templates/listed").json["packages"]) == ["no-such-package-one", "no-such-package-two", "no-such-package-zero"]
        missing = cove("template", "build", "other", "--packages", f"@{workdir}/missing", env=where)
        assert missing.status == 1 and f"--packages @{workdir}/missing" in missing.err


def test_the_science_template_has_what_agents_import_first_and_a_fast_blas():
    text = (pathlib.Path(__file__).parents[2] / "packaging" / "science.packages").read_text()
    names = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9.+-]+", name) for name in names) and names == sorted(set(names))
    assert {f"python3-{name}" for name in ("scipy", "sklearn", "seaborn", "requests", "tqdm", "psutil", "bs4", "flask", "numpy", "pandas", "ipython")} < set(names)
    assert "libopenblas0-pthread" in names
