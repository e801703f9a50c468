"""`cove doctor`: what it finds on this host, and on this host with a piece taken away."""
import os
import pathlib

import pytest
from conftest import COVE, cove

NOBODY = 65534
IDS = {
    "namespaces", "overlay", "proc", "tmpfs", "unique_uid", "seccomp", "landlock", "cgroup", "limit.memory", "limit.pids", "limit.cpu",
    "cgroup.kill", "cgroup.freeze", "sandbox", "kernel", "landlock_abi", "user.max_user_namespaces", "kernel.unprivileged_userns_clone",
    "kernel.apparmor_restrict_unprivileged_userns", "kernel.io_uring_disabled", "dev.tty.legacy_tiocsti", "kernel.unprivileged_bpf_disabled",
    "kernel.perf_event_paranoid", "vm.unprivileged_userfaultfd", "kernel.yama.ptrace_scope", "kernel.kptr_restrict", "kernel.dmesg_restrict",
    "fs.protected", "family.vsock", "family.af_alg", "family.rxrpc", "swap", "core_pattern", "smt", "container", "clock", "state_dir",
    "descriptors", "subuid", "template", "languages",
}
LIMITS = {"limit.memory", "limit.pids", "limit.cpu"}

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="changing the user or the host's mounts needs root")


def doctor(workdir, *arguments, **options):
    return cove("doctor", "--state-dir", workdir, *arguments, **options)


def doctor_as_nobody(workdir, *arguments):
    os.chown(workdir, NOBODY, NOBODY)
    return doctor(workdir, *arguments, user=NOBODY, env={"HOME": str(workdir)})


def doctor_after(workdir, change):
    """On a host that looks, to this one process, as the shell commands in `change` leave it."""
    return cove("-m", "sh", "-c", change + '\nexec "$@"', "sh", COVE, "doctor", "--json", "--state-dir", workdir, binary="unshare")


def statuses(run):
    return {check["id"]: check["status"] for check in run.result["checks"]}


def cgroup_mounts(controller=None):
    found = []
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split()
        if kind in ("cgroup", "cgroup2") and (controller is None or (kind == "cgroup" and controller in options.split(","))):
            found.append(left.split()[4])
    return found


@needs_root
def test_root_enforces_the_default_profile_here(workdir):
    run = doctor(workdir, "--json")
    assert (run.status, run.result["enforced"], run.result["cannot"]) == (0, True, [])
    assert {"fail"} & set(statuses(run).values()) == set()
    assert "removed in" in next(check["found"] for check in run.result["checks"] if check["id"] == "sandbox")


@needs_root
def test_an_ordinary_user_is_told_which_limits_it_cannot_have(workdir):
    run = doctor_as_nobody(workdir, "--json")
    if run.status == 0:
        pytest.skip("this host lets an ordinary user enforce everything")
    assert (run.status, run.result["enforced"]) == (1, False)
    assert set(run.result["cannot"]) == {"limit.memory", "limit.cpu"}
    found = statuses(run)
    # Another lock does the work of these: an rlimit, the namespaces, pid 1.
    assert [found[name] for name in ("limit.pids", "unique_uid", "cgroup.kill", "cgroup.freeze")] == ["warn"] * 4
    assert [found[name] for name in ("namespaces", "overlay", "proc", "tmpfs", "seccomp", "landlock", "sandbox")] == ["ok"] * 7


@needs_root
def test_an_ordinary_users_table_names_the_limits_and_ends_with_them(workdir):
    run = doctor_as_nobody(workdir)
    if run.status == 0:
        pytest.skip("this host lets an ordinary user enforce everything")
    lines = run.out.splitlines()
    assert lines[-1] == "cannot: memory limit, cpu limit"
    assert any(line.startswith("FAIL  memory limit") for line in lines)
    assert any(line.startswith("FAIL  cpu limit") for line in lines)


def test_json_has_every_check_once_with_its_fields(workdir):
    run = doctor(workdir, "--json")
    assert set(run.result) == {"enforced", "cannot", "warnings", "checks"}
    assert sorted(check["id"] for check in run.result["checks"]) == sorted(IDS)
    for check in run.result["checks"]:
        assert set(check) == {"id", "title", "status", "found", "consequence", "fix"}
        assert check["status"] in ("ok", "warn", "fail")
        assert check["title"] and check["found"], check
    assert run.result["warnings"] == list(statuses(run).values()).count("warn")
    assert run.result["cannot"] == [check["id"] for check in run.result["checks"] if check["status"] == "fail"]


@pytest.mark.parametrize("who", ["this user", pytest.param("nobody", marks=needs_root)])
def test_whatever_is_not_ok_has_a_consequence_and_a_fix(workdir, who):
    run = doctor_as_nobody(workdir, "--json") if who == "nobody" else doctor(workdir, "--json")
    for check in run.result["checks"]:
        assert bool(check["consequence"]) == bool(check["fix"]) == (check["status"] != "ok"), check


@pytest.mark.parametrize("who", ["this user", pytest.param("nobody", marks=needs_root)])
def test_the_table_fits_a_hundred_columns_and_has_no_colour_in_a_pipe(workdir, who):
    run = doctor_as_nobody(workdir) if who == "nobody" else doctor(workdir)
    lines = run.out.splitlines()
    assert max(map(len, lines)) <= 100
    assert "\x1b" not in run.out
    assert all(line == line.rstrip() for line in lines)
    rows = [line for line in lines if line[:6] in ("ok    ", "warn  ", "FAIL  ")]
    assert len(rows) == len(IDS)


@needs_root
def test_the_table_says_that_the_profile_is_enforced(workdir):
    run = doctor(workdir)
    assert run.status == 0
    assert run.out.splitlines()[-1].startswith("this host enforces the default profile")


@needs_root
@pytest.mark.parametrize("name,change", [
    ("none", "umount -l {}"),
    ("read-only", "mount -o remount,bind,ro {}"),
], ids=["none", "read-only"])
def test_without_control_groups_root_cannot_enforce_the_limits(workdir, name, change):
    run = doctor_after(workdir, "\n".join(change.format(mount) for mount in reversed(cgroup_mounts())))
    assert (run.status, set(run.result["cannot"])) == (1, LIMITS | {"cgroup.kill", "cgroup.freeze"})
    mode = next(check for check in run.result["checks"] if check["id"] == "cgroup")
    assert mode["found"].startswith("none")
    assert name != "read-only" or "Read-only file system" in mode["found"]


@needs_root
@pytest.mark.parametrize("controller", ["memory", "pids", "cpu"])
def test_a_missing_controller_is_the_one_thing_named(workdir, controller):
    mounts = cgroup_mounts(controller)
    if not mounts or any(mounts == cgroup_mounts(other) for other in ("memory", "pids", "cpu") if other != controller):
        pytest.skip("this host does not mount the controller by itself")
    run = doctor_after(workdir, "\n".join(f"umount -l {mount}" for mount in mounts))
    assert (run.status, run.result["cannot"]) == (1, [f"limit.{controller}"])


@needs_root
def test_v1_alone_is_enough(workdir):
    unified = [mount for mount in cgroup_mounts() if pathlib.Path(mount, "cgroup.controllers").exists()]
    if not cgroup_mounts("memory") or not unified:
        pytest.skip("this host has no v1 controllers beside v2")
    run = doctor_after(workdir, "\n".join(f"umount -l {mount}" for mount in unified))
    assert run.status == 0
    assert next(check["found"] for check in run.result["checks"] if check["id"] == "cgroup") == "v1 with memory, pids, cpu"


@needs_root
def test_a_masked_proc_is_found_by_trying_to_mount_one(workdir):
    run = doctor_after(workdir, "mount -t tmpfs none /proc/sys/fs")
    assert (run.status, set(run.result["cannot"])) == (1, {"proc", "sandbox"})


@needs_root
def test_forbidden_user_namespaces_are_found_by_trying_to_make_one(workdir):
    run = cove("-Ur", "sh", "-c", 'echo 0 > /proc/sys/user/max_user_namespaces\nexec "$@"', "sh", COVE, "doctor", "--json",
               "--state-dir", workdir, binary="unshare")
    assert run.status == 1
    assert {"namespaces", "overlay", "proc", "tmpfs", "sandbox", "user.max_user_namespaces"} <= set(run.result["cannot"])
