"""NS: namespaces, mounts, ids, privileges."""
import os

from arena import code, run, seen


def spaces():
    return seen("namespaces")


def test_NS_01_a_user_namespace_is_refused_in_every_form():
    report = spaces()
    assert report.errors("unshare:user", "unshare-garbage:user", "clone:user", "clone-garbage:user", "clone3:user") == {
        "unshare:user": "EPERM", "unshare-garbage:user": "EPERM", "clone:user": "EPERM", "clone-garbage:user": "EPERM", "clone3:user": "ENOSYS"}


def test_NS_01_the_tools_that_ask_for_one_fail():
    tools = {name: fact for name, fact in spaces().facts.items() if name.startswith("tool:")}
    assert len(tools) == 6
    for name, fact in tools.items():
        assert fact["code"] != 0, name
        assert fact["code"] == 127 or "not permitted" in fact["text"] or "ermission denied" in fact["text"] or "/proc/sys/kernel/overflowuid" in fact["text"], (name, fact)


def test_NS_02_every_other_namespace_is_refused():
    report = spaces()
    for kind in ("mnt", "pid", "net", "ipc", "uts", "cgroup", "time"):
        assert report[f"unshare:{kind}"]["errno"] == "EPERM" and report[f"unshare-garbage:{kind}"]["errno"] == "EPERM", kind
        assert report[f"clone3:{kind}"]["errno"] == "ENOSYS", kind
        if kind != "time":
            assert report[f"clone:{kind}"]["errno"] == "EPERM" and report[f"clone-garbage:{kind}"]["errno"] == "EPERM", kind


def test_NS_03_nothing_can_be_mounted_remounted_moved_or_unmounted():
    for prefix in ("mount:", "umount:", "umount-plain:"):
        assert set(spaces().under(prefix).values()) == {"EPERM"}, prefix


def test_NS_04_the_new_mount_calls_are_refused_before_they_read_a_pointer():
    assert set(spaces().under("new-mount:").values()) == {"EPERM"}
    assert len(spaces().under("new-mount:")) == 15


def test_NS_05_the_root_cannot_be_changed():
    assert set(spaces().under("root:").values()) == {"EPERM"}


def test_NS_06_setns_is_refused_for_every_kind():
    assert set(spaces().under("setns-init:").values()) == {"EPERM"}
    assert set(spaces().under("setns-own:").values()) == {"EPERM"}


def test_NS_07_the_host_name_stays():
    before = os.uname().nodename
    assert set(spaces().under("name:").values()) == {"EPERM"}
    assert spaces()["name-after"]["name"] == "cove"
    assert os.uname().nodename == before


def test_NS_08_all_five_capability_sets_stay_empty():
    report = spaces()
    assert set(report.under("caps:").values()) == {"EPERM"}
    assert report["caps-after"]["sets"] == {name: "0" * 16 for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}


def test_NS_09_no_other_id_can_be_taken():
    report = spaces()
    assert report["ids-changed"]["numbers"] == []
    assert set(report.under("ids:setgroups").values()) == {"EPERM"}
    assert report["ids:setuid-0"]["errno"] == "EINVAL" and report["ids:setgid-0"]["errno"] == "EINVAL"  # 0 is not mapped
    after = report["ids-after"]
    assert after["uid"].split() == ["1000"] * 4 and after["gid"].split() == ["1000"] * 4
    assert after["groups"] == "" and after["groups_before"] == []


def test_NS_10_prctl_loosens_nothing():
    report = spaces()
    errors = report.under("prctl:")
    assert errors.pop("no-new-privs-0") == "EINVAL"
    assert set(errors.values()) == {"EPERM"}
    assert report.value("prctl-get:no-new-privs") == 1
    assert report.value("prctl-get:securebits") == 0b11101111  # all locked; all set but KEEP_CAPS


def test_NS_12_the_counters_cannot_be_raised():
    assert not spaces()["sysctl-there"]["there"]
    report = code("""
from probelib import *
for name in ('max_user_namespaces', 'max_inotify_instances'):
    for path in (f'/proc/sys/user/{name}', f'/proc/self/root/proc/sys/user/{name}', f'/proc/thread-self/root/proc/sys/user/{name}'):
        tried(path, write, path, '1000')
tried_call('still', 'unshare', 0x10000000)
""")
    assert report.errors("still") == {"still": "EPERM"}
    assert {errno for name, errno in report.under("/proc").items()} == {"ENOENT"}


def test_NS_12_inotify_stops_at_the_namespaces_own_number():
    report = code("from probelib import *\nfds = []\ntry:\n    while True: fds.append(libc.inotify_init1(0)); assert fds[-1] >= 0\nexcept AssertionError: fact('made', number=len(fds) - 1, errno=errno_name(ctypes.get_errno()))")
    assert report["made"] == {"number": 32, "errno": "EMFILE"}


def test_NS_13_an_own_filter_reaches_only_its_own_process():
    report = spaces()
    # Its own exit no longer works, so libc makes it crash; the parent, cove-init and the rest of the probe go on.
    assert report["own-filter:errno-0"] == {"code": None, "signal": 11} and report["own-filter:trace"] == {"code": None, "signal": 11}
    assert report.errors("own-filter:listener", "own-filter:listener-garbage", "own-filter:notify-sizes") == {
        "own-filter:listener": "EPERM", "own-filter:listener-garbage": "EPERM", "own-filter:notify-sizes": "EPERM"}


def test_NS_13_stacked_filters_end_at_the_kernels_bound_and_loosen_nothing():
    stacked, errno, after = spaces()["filters-stacked"]["text"].split()
    assert int(stacked) >= 300 and errno == "12" and after == "1"  # ENOMEM, then EPERM as before


def test_NS_13_a_program_that_locks_itself_out_is_reported_as_it_ended():
    done = run("--timeout", "5s", "-c", """
import ctypes, struct
libc = ctypes.CDLL(None)
program = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x80000000), 8)
fprog = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(program)), 16)
libc.syscall(317, 1, 0, fprog)
""")
    assert (done.reason, done.result["signal"], done.status) == ("signalled", "SIGSYS", 128 + 31)
