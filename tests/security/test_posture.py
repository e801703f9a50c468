"""The live sandbox against posture_default.json, seen from inside and from the host. What is more than the file says fails."""
import json
import os
import pathlib
import re

import pytest

from conftest import new_marker, processes_with
from arena import SECRET, Neighbour, canaries, run

EXPECTED = json.loads((pathlib.Path(__file__).parent / "posture_default.json").read_text())
FIRST_UID, LAST_UID = 0x70000000, 0x7FFFFFFF  # the ids Cove gives out as root; the host's own are all below


def fits(seen, wanted):
    """'*' fits anything, 'a|b' either; everything else only itself."""
    return wanted == "*" or str(seen) in str(wanted).split("|")


@pytest.fixture(scope="module")
def live():
    marker = new_marker()
    with Neighbour("posture", marker) as sandbox:
        sandbox.marker = marker
        inside = [pid for pid in processes_with(marker) if os.readlink(f"/proc/{pid}/ns/pid") != os.readlink("/proc/self/ns/pid")]
        assert len(inside) == 1
        sandbox.program = inside[0]
        sandbox.init = int(re.search(r"^PPid:\s*(\d+)", pathlib.Path(f"/proc/{sandbox.program}/status").read_text(), re.M).group(1))
        yield sandbox


def mounts(lines):
    table = []
    for line in lines:
        left, _, right = line.partition(" - ")
        path, flags = left.split()[4:6]
        kind, _, options = right.split()[:3]
        options = ",".join(sorted(re.sub(r"^(size|nr_inodes|uid|gid)=.*", r"\1=*", option) for option in options.split(",")))
        table.append([path, kind, ",".join(sorted(set(flags.split(",")) - {"relatime"})), options])
    return table


def test_posture_one_uid_and_one_gid_are_mapped_and_none_is_the_hosts(live):
    maps = live.facts["maps"]
    for which in ("uid", "gid"):
        assert len(maps[which]) == 3 and all(map(fits, maps[which], EXPECTED["maps"][which]))
        inner, outer, count = map(int, pathlib.Path(f"/proc/{live.program}/{which}_map").read_text().split())
        assert (inner, count) == (1000, 1)
        assert os.geteuid() != 0 or FIRST_UID <= outer <= LAST_UID
    assert maps["setgroups"] == EXPECTED["maps"]["setgroups"]


def test_posture_of_ids_capabilities_and_filter(live):
    assert live.facts["status"] == EXPECTED["status"]
    init = {key: live.facts["init"][key] for key in EXPECTED["init_status"]}
    assert init == EXPECTED["init_status"]


def test_posture_is_the_same_in_every_thread(live):
    each = live.facts["threads"]["each"]
    assert len(each) == 4 and all(thread == EXPECTED["status"] for thread in each)


def test_posture_as_the_host_sees_it(live):
    for pid in (live.program, live.init):
        fields = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
        assert {name: fields[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {name: "0" * 16 for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
        assert (fields["NoNewPrivs"], fields["Seccomp"], fields["Seccomp_filters"], fields["Groups"].strip()) == ("1", "2", "1", "")
        uids = set(fields["Uid"].split()) | set(fields["Gid"].split())
        assert len(uids) == 1 and (os.geteuid() != 0 or FIRST_UID <= int(uids.pop()) <= LAST_UID)
        environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
        assert SECRET.encode() not in environment
        assert pathlib.Path(f"/proc/{pid}/oom_score_adj").read_text() == "500\n"
    assert pathlib.Path(f"/proc/{live.init}/environ").read_bytes() == b""
    assert SECRET.encode() in pathlib.Path(f"/proc/{live.process.pid}/environ").read_bytes()  # the canary was there to be leaked


def test_posture_of_the_namespaces(live):
    own, hosts = live.facts["namespaces"]["links"], {name: os.readlink(f"/proc/self/ns/{name}") for name in os.listdir("/proc/self/ns")}
    assert sorted(name for name in own if own[name] != hosts[name]) == EXPECTED["namespaces_own"]
    assert sorted(name for name in own if own[name] == hosts[name]) == EXPECTED["namespaces_of_the_host"]
    for pid in (live.program, live.init):
        assert {name: os.readlink(f"/proc/{pid}/ns/{name}") for name in own} == own


def test_posture_of_the_mount_table(live):
    seen = mounts(live.facts["mounts"]["table"])
    wanted = [[path, kind, ",".join(sorted(flags.split(","))), options] for path, kind, flags, options in EXPECTED["mounts"]]
    assert [entry[0] for entry in seen] == [entry[0] for entry in wanted]
    for entry, want in zip(seen, wanted):
        assert all(map(fits, entry, want)), (entry, want)
    assert mounts(pathlib.Path(f"/proc/{live.program}/mountinfo").read_text().splitlines()) == seen
    for line in live.facts["mounts"]["table"]:
        for word in ("/var/lib", "/tmp", "/proc/self/fd", str(canaries().directory), "host-"):
            assert word not in line


def test_posture_of_the_root_directory(live):
    names = set(live.facts["root"]["names"])
    assert names - set(EXPECTED["root"]["optional"]) == set(EXPECTED["root"]["required"])


def test_posture_of_the_descriptors(live):
    assert live.facts["descriptors"]["table"] == EXPECTED["descriptors"]
    kinds = []
    for name in os.listdir(f"/proc/{live.init}/fd"):
        link = os.readlink(f"/proc/{live.init}/fd/{name}")
        kinds.append("null" if link.endswith("null") else re.sub(r"^anon_inode:\[?(\w+)\]?$", r"\1", link.split(":[")[0] if link.startswith(("pipe", "socket")) else link))
    assert sorted(kinds) == EXPECTED["init_descriptors"]
    assert sorted(os.readlink(f"/proc/{live.program}/fd/{name}").split(":")[0] for name in os.listdir(f"/proc/{live.program}/fd")) == ["pipe"] * 3


def test_posture_of_the_environment(live):
    assert live.facts["environment"]["variables"] == EXPECTED["environment"]


def test_posture_of_the_limits(live):
    seen = live.facts["limits"]["table"]
    assert set(seen) == set(EXPECTED["limits"])
    for name, pair in seen.items():
        assert all(map(fits, pair, EXPECTED["limits"][name])), (name, pair, EXPECTED["limits"][name])


def test_posture_of_the_control_group(live):
    assert live.facts["group"]["lines"] == EXPECTED["group"]
    outside = pathlib.Path(f"/proc/{live.program}/cgroup").read_text()
    isolation = run("-c", "pass").result["isolation"]
    assert isolation["degraded"] == []
    if isolation["cgroup"] != "none":
        assert re.search(rf"/cove-{live.process.pid}/s-[a-z0-9]+$", outside, re.M)


def test_posture_of_everything_else(live):
    standing = dict(live.facts["standing"])
    pid = standing.pop("pid")
    assert standing.pop("session") == pid and standing.pop("group") == pid  # a session and a group of its own
    assert standing == EXPECTED["standing"]


def test_posture_of_init_seen_from_inside(live):
    init = live.facts["init"]
    assert init["files"] == EXPECTED["init_closed"]
    assert init["owner"] == 65534  # not dumpable: its files belong to the host's root, whom nobody inside can name
    assert init["command"] == "cove-init\0" and init["session"] == 1


def test_posture_the_result_says_what_is_on():
    isolation = run("-c", "pass").result["isolation"]
    assert re.fullmatch(r"default-[0-9a-f]{16}", isolation["seccomp"])
    assert isolation["landlock"] >= 6 and isolation["network"] == "none" and isolation["backend"] == "jail"
    assert isolation["namespaces"] == ["user", "mount", "pid", "net", "ipc", "uts", "cgroup"]
    assert isolation["unique_uid"] is True or os.geteuid() != 0
