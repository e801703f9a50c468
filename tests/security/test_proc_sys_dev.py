"""PR: what /proc, /sys and /dev could tell or change."""
import os
import pathlib
import re

from arena import SECRET, canaries, code, seen

ABSENT = {"ENOENT"}


def leaks():
    return seen("proc_leaks", canaries().as_argument())


def test_PR_01_the_kernels_own_files_are_absent():
    assert set(leaks().under("proc:").values()) == ABSENT
    assert leaks()["proc-root"]["names"] == ["self", "thread-self"]


def test_PR_02_no_setting_of_the_host_can_be_written():
    before = {path: pathlib.Path(path).read_text() for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/hostname", "/proc/sys/kernel/randomize_va_space")}
    report = code("from probelib import *\n" + "".join(f"tried({path!r}, write, {path!r}, '|/tmp/x')\n" for path in before))
    assert set(report.under("").values()) == ABSENT
    assert set(leaks().under("sysctl:").values()) == ABSENT
    assert leaks()["sysrq"]["errno"] == "ENOENT"
    assert {path: pathlib.Path(path).read_text() for path in before} == before


def test_PR_03_only_init_and_the_program_are_seen():
    fact = leaks()["processes"]
    assert fact["parent"] == 1 and fact["own"] in (2, 3)
    names = {int(pid): entry["name"] for pid, entry in fact["table"].items()}
    assert names == {1: "init", fact["own"]: "python3"}
    assert fact["table"]["1"]["parent"] == "0"
    assert leaks()["signalable"]["pids"] == [1, fact["own"]]


def test_PR_04_the_mount_table_tells_no_path_of_the_host():
    report = leaks()
    assert report["statmount"]["errno"] == "EPERM" and report["listmount"]["errno"] == "EPERM"
    tables = [report.value("mounts:mountinfo"), report.value("mounts:mounts"), report.value("mounts:mountstats"), report.value("init-mounts:mountinfo"), report.value("init-mounts:mounts")]
    assert report["init-mounts:mountstats"]["errno"] == "EACCES"
    for table in tables:
        for word in ("/var/lib", "/tmp/", "/home/", "host-", "cove-", str(canaries().directory), "/proc/self/fd"):
            assert word not in table
        assert set(re.findall(r"(?:lowerdir|upperdir|workdir)=([^, ]+)", table)) <= {"/r/0/root", "upper", "work", "/empty:/r/0/0"}
        assert not re.search(r"\b[a-z0-9]{26}\b", table)  # a sandbox id


def test_PR_04_of_the_host_the_mount_table_tells_the_sandboxs_own_uid_and_nothing_else():
    # devtmpfs would show half of the host's memory as its size. tmpfs shows the uid by which the host knows this sandbox
    # (docs/threat-model.md, residuals), and never that of the keeper, which neighbours have in common.
    table = leaks().value("mounts:mountinfo")
    assert "devtmpfs" not in table
    told = set(re.findall(r"\buid=(\d+)", table))
    assert len(told) == 1 and all(int(uid) % 65536 != 0 for uid in told)


def test_PR_05_the_control_group_is_called_slash():
    for whose in ("group", "init-group"):
        lines = leaks().value(f"{whose}:cgroup").splitlines()
        assert lines and {line.split(":", 2)[2] for line in lines} == {"/"}
        assert leaks().value(f"{whose}:cpuset") == "/\n"


def test_PR_06_the_environment_holds_what_is_on_the_list():
    assert leaks()["environment"]["variables"] == {
        "PATH": "/cove/stand-ins:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/cove/bin", "HOME": "/home/cove", "USER": "cove", "LOGNAME": "cove", "LANG": "C.UTF-8",
        "TMPDIR": "/tmp", "SHELL": "/bin/bash", "PYTHONUNBUFFERED": "1", "SANDBOX_CPUS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
        "PYTHON_CPU_COUNT": "1", "SANDBOX_MEMORY_BYTES": "1073741824", "SANDBOX_PIDS": "256", "NODE_OPTIONS": "--max-old-space-size=768"}
    assert SECRET not in leaks().value("own:environ")
    assert leaks().value("init:cmdline") == "cove-init\0"
    assert leaks().errors("init:environ", "init:auxv") == {"init:environ": "EACCES", "init:auxv": "EACCES"}


def test_PR_07_init_is_closed_to_everyone_inside():
    report = leaks()
    assert set(report.under("init-secret:").values()) == {"EACCES"}
    assert set(report.under("init-link:").values()) == {"EACCES"}
    assert set(report.under("init-write:").values()) == {"EACCES"}


def test_PR_08_no_namespace_but_the_own_can_be_had():
    report = leaks()
    assert set(report.under("setns:").values()) == {"EPERM"} and report["setns-init"]["errno"] == "EPERM"
    # Asking for the parent's or owner's: refused, or no such question for this kind. pid and user would lead to the keeper.
    assert report["ns-parent:user"]["errno"] == "EPERM" and report["ns-parent:pid"]["errno"] == "EPERM"
    assert report["ns-userns:user"]["errno"] == "EPERM"
    assert set(report.under("ns-parent:").values()) <= {"EPERM", "EINVAL", "ENOTTY"}
    # Kernels before 6.12 do not know these questions.
    assert set(report.under("ns-next-mnt:").values()) | set(report.under("ns-previous-mnt:").values()) <= {"EPERM", "ENOTTY"}
    assert set(report.under("pidfd-namespace:").values()) <= {"EACCES", "ENOTTY"}
    for kind, link in report["own-namespaces"]["links"].items():
        ours = os.readlink(f"/proc/self/ns/{kind}")
        assert (link == ours) == (kind == "time"), kind


def test_PR_09_there_is_no_sys():
    assert set(leaks().under("sys:").values()) == ABSENT


def test_PR_10_nothing_of_the_own_standing_can_be_improved():
    assert set(leaks().under("self-write:").values()) == {"EACCES"}
    assert leaks()["oom-after"]["score"] == "500"


def test_PR_11_no_id_map_can_be_written():
    assert set(leaks().under("map:").values()) == {"EACCES"}
    assert len(leaks().under("map:")) == 7


def test_PR_12_the_network_tables_are_of_the_own_namespace():
    report = leaks()
    port = f":{canaries().port:04X}"
    for name, errno in report.under("net:").items():
        text = report[f"net:{name}"].get("value", "") or ""
        assert errno in (None, "ENOENT"), name
        assert port not in text and canaries().abstract not in text and str(canaries().path_socket) not in text
    assert len(report.value("net:tcp").splitlines()) == 1 and len(report.value("net:unix").splitlines()) == 1
    assert len(report.value("net:route").splitlines()) <= 1 and len(report.value("net:arp").splitlines()) == 1
    assert report["netlink-links"]["names"] == ["lo"]
    assert not report["netlink-mentions"]["port"]


def test_PR_13_dev_holds_five_nodes_and_nothing_else():
    report = leaks()
    tree = report["devices"]["tree"]
    nodes = {path: tuple(numbers) for path, numbers in tree.items() if numbers[0] in (2, 6)}  # character, block
    assert nodes == {"/dev/null": (2, 1, 3), "/dev/zero": (2, 1, 5), "/dev/full": (2, 1, 7), "/dev/random": (2, 1, 8), "/dev/urandom": (2, 1, 9)}
    assert set(tree) - set(nodes) == {"/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/ptmx", "/dev/pts", "/dev/shm", "/dev/tty"}
    opened = {name for name, errno in report.under("device:").items() if errno is None}
    assert opened == set()
    assert set(report.under("device:").values()) <= {"ENOENT", "EACCES"}
    assert set(report.under("good-device:").values()) == {None}
    # Landlock refuses every device ioctl; without it the kernel wants CAP_SYS_ADMIN for these.
    assert report.errors("random-reseed", "random-add") == {"random-reseed": "EACCES", "random-add": "EACCES"}


def test_PR_14_the_kernel_log_is_refused():
    assert set(leaks().under("syslog:").values()) == {"EPERM"}


def test_PR_15_what_identifies_the_machine_is_made_up_or_absent():
    report = leaks()
    identity = report["identity"]
    assert identity["hostname"] == identity["nodename"] == "cove"
    assert identity["machine_id"] == "c07e" * 8 + "\n" and identity["timezone"] == "Etc/UTC\n"
    assert identity["resolv"] == "nameserver 127.0.0.1\noptions timeout:5 attempts:1\n" and identity["hosts"] == "127.0.0.1 localhost cove\n::1 localhost cove\n"
    assert [line.split(":")[0] for line in identity["passwd"].splitlines()] == ["root", "cove", "nobody"]
    assert report["mac"]["addresses"] == {"lo": "000000000000"}
    assert set(report.under("linkable:").values()) == ABSENT


def test_PR_15_two_sandboxes_cannot_tell_that_they_are_neighbours():
    look = """
from probelib import *
import socket
fact('same', identity=[os.uname().nodename, read('/etc/machine-id'), read('/etc/passwd'), os.getuid(), os.getgid(), sorted(os.listdir('/')), sorted(os.listdir('/etc'))])
"""
    first, second = code(look), code(look)
    assert first["same"] == second["same"]


def test_PR_16_no_kernel_filesystem_can_be_had():
    assert set(leaks().under("mount:").values()) == {"EPERM"}
    assert set(leaks().under("fsopen:").values()) == {"EPERM"}
    assert all(errno == "ENOENT" for name, errno in leaks().under("sys:/sys/kernel").items())
