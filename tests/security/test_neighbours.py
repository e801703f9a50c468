"""XT: two sandboxes at once, and one after the other. What one does, the other must not find, feel or hear."""
import os
import pathlib
import re
import secrets
import socket
import threading
import time

import pytest

from conftest import ROOT, processes_with
from arena import Neighbour, canaries, code, cove

SHARED = ["/usr/bin/env", "/etc/passwd", "/usr/lib/os-release"]
DEVICES = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"]


def errors(facts):
    return {name: fact["errno"] for name, fact in facts.items() if "errno" in fact}


@pytest.fixture(scope="module")
def pair():
    with Neighbour("neighbour") as first, Neighbour("neighbour") as second:
        yield first, second


def test_XT_01_a_mark_left_everywhere_is_found_nowhere_else(pair):
    word = "mark" + secrets.token_hex(8)
    pair[0].ask("mark", word)
    own = pair[0].ask("search", word)["search"]["found"]
    assert {os.path.dirname(path) for path in own} >= {"/workspace", "/tmp", "/home/cove", "/dev/shm"}
    found = pair[1].ask("search", word)["search"]
    assert found["found"] == [] and found["seen"] > 1000
    third = Neighbour("neighbour")
    with third:
        assert third.ask("search", word)["search"]["found"] == []


def test_XT_02_the_processes_of_another_are_invisible(pair):
    first = pair[0].ask("processes")["processes"]
    assert first["pids"] == [1, first["own"]]
    second = pair[1].ask("processes")["processes"]
    assert second["pids"] == [1, second["own"]]
    # The numbers by which the host knows the other's processes and its own.
    hosts = [*processes_with("neighbour.py"), os.getpid(), canaries().process.pid, pair[0].process.pid]
    assert len(hosts) >= 7
    told = pair[1].ask("reach-pids", *[pid for pid in hosts if pid > 100])
    assert {errno for name, errno in errors(told).items() if name.startswith("kill:")} == {"ESRCH"}
    assert {errno for name, errno in errors(told).items() if name.startswith("pidfd:")} <= {"ESRCH", "EINVAL"}
    assert {errno for name, errno in errors(told).items() if name.startswith("ptrace:")} == {"EPERM"}
    assert {errno for name, errno in errors(told).items() if name.startswith("open:")} == {"ENOENT"}


def test_XT_03_listening_sockets_are_refused_to_the_others_and_to_the_host(pair):
    name = "n" + secrets.token_hex(8)
    ports = pair[0].ask("listen", name)["ports"]["ports"]
    assert set(errors(pair[0].ask("connect", ports, name)).values()) == {None}
    told = errors(pair[1].ask("connect", ports, name))
    assert {errno for key, errno in told.items() if key.startswith("tcp:")} == {"ECONNREFUSED"}
    for address, port in ports.items():
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as peer, pytest.raises(ConnectionRefusedError):
            peer.settimeout(2)
            peer.connect(("::1" if ":" in address else "127.0.0.1", port))


def test_XT_03_the_hosts_listeners_are_out_of_reach(pair):
    planted = canaries()
    told = errors(pair[1].ask("connect", {"127.0.0.1": planted.port}, planted.abstract))
    assert told == {"tcp:127.0.0.1:127.0.0.1": "ECONNREFUSED", "tcp:127.0.0.1:0.0.0.0": "ECONNREFUSED", f"unix:\0{planted.abstract}": "ECONNREFUSED",
                    f"unix:/tmp/{planted.abstract}": "ENOENT", f"unix:/dev/shm/{planted.abstract}": "ENOENT"}
    assert planted.connections == []


def test_XT_04_unix_sockets_are_refused_or_absent(pair):
    name = "n" + secrets.token_hex(8)
    ports = pair[0].ask("listen", name)["ports"]["ports"]
    told = errors(pair[1].ask("connect", {}, name))
    assert told == {f"unix:\0{name}": "ECONNREFUSED", f"unix:/tmp/{name}": "ENOENT", f"unix:/dev/shm/{name}": "ENOENT"}
    assert ports


def test_XT_05_the_same_keys_and_names_are_different_things(pair):
    one, two = pair[0].ask("ipc", "first"), pair[1].ask("ipc", "second")
    for told, word in ((one, "first"), (two, "second")):
        assert told["shm"] == {"before": "", "now": word}
        assert told["sem"]["value"] == len(word)
        assert told["msg-exclusive"]["errno"] is None
        assert told["posix-shm"]["before"] == ""
        assert told["mq"]["errno"] == "EACCES"  # Landlock
    for kind in ("shm", "sem", "msg"):
        assert f" {0xC0FE} " not in pathlib.Path(f"/proc/sysvipc/{kind}").read_text()


def test_XT_06_locks_on_files_of_the_image_are_not_shared(pair):
    one, two = errors(pair[0].ask("locks", SHARED)), errors(pair[1].ask("locks", SHARED))
    assert one == two
    assert {errno for name, errno in two.items() if name.startswith(("flock:", "ofd-read:"))} == {None}
    assert {errno for name, errno in two.items() if name.startswith("ofd-write:")} <= {"EROFS", "EACCES"}
    assert {errno for name, errno in two.items() if name.startswith("lease:")} == {"EACCES"}  # of files one does not own


def test_XT_06_locks_on_device_nodes_are_not_shared(pair):
    one, two = errors(pair[0].ask("locks", DEVICES)), errors(pair[1].ask("locks", DEVICES))
    assert two == one, "a lock taken on a device node in one sandbox is felt in the other"


def test_XT_06_times_of_device_nodes_are_not_shared(pair):
    on_the_host = {path: os.stat(path).st_mtime_ns for path in DEVICES}
    before = pair[1].ask("times", DEVICES)["times"]["times"]
    time.sleep(0.01)
    pair[0].ask("touch", DEVICES)
    after = pair[1].ask("times", DEVICES)["times"]["times"]
    assert {path: os.stat(path).st_mtime_ns for path in DEVICES} == on_the_host, "a sandbox changed the times of the host's device nodes"
    assert after == before


def test_XT_07_what_is_in_the_page_cache_is_told_by_one_call_only(pair):
    # The documented residual: preadv2(RWF_NOWAIT) answers from the page cache of a file that all sandboxes read. mincore says
    # "all resident" for files one may not write, and cachestat is refused.
    told = pair[1].ask("cached", "/usr/bin/env")
    assert told["mincore"]["result"] == 0 and told["mincore"]["resident"] == told["mincore"]["pages"]
    assert told["cachestat"]["errno"] == "EPERM"
    assert told["preadv2"]["errno"] in (None, "EAGAIN", "ENOTSUP")  # ENOTSUP: this overlay does not offer it


def test_XT_09_a_result_on_its_way_has_a_name_nobody_could_have_taken(workdir):
    """The one name Cove invents outside: the file a result is written to before it is whole."""
    for round in range(8):
        done = cove("run", "--out", f"r:{workdir / 'r'}", "--json", "-c", "open('r', 'w').write('x')")
        assert done.status == 0 and os.listdir(workdir) == ["r"]
    (workdir / "r").unlink()
    refused = cove("run", "--out", f"r:{workdir / 'none' / 'r'}", "--json", "-c", "open('r', 'w').write('x')")
    names = re.findall(r"r\.cove-([a-z0-9]+)", str(refused.result["out"]))
    assert names and len(names[0]) >= 8 and os.listdir(workdir) == []


def test_XT_10_nothing_of_one_sandbox_is_found_in_the_next():
    with Neighbour("neighbour") as fresh:
        expected = fresh.ask("look")["standing"]
    with Neighbour("neighbour") as bent:
        bent.ask("mark", "evil")
        bent.ask("bend")
        assert bent.ask("look")["standing"] != expected
    for _ in range(5):
        with Neighbour("neighbour") as later:
            assert later.ask("look")["standing"] == expected


def test_XT_12_the_same_names_at_once_never_mix(workdir):
    def one(letter, results):
        program = f"import os, time\nfor i in range(200):\n    open('/tmp/same', 'a').write({letter!r} * 100)\nopen('result', 'w').write(open('/tmp/same').read())"
        results[letter] = cove("run", "--out", f"result:{workdir / letter}", "--json", "-c", program)
    results = {}
    workers = [threading.Thread(target=one, args=(letter, results)) for letter in "abcd"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for letter in "abcd":
        assert results[letter].status == 0
        assert (workdir / letter).read_text() == letter * 20_000
    assert sorted(os.listdir(workdir)) == list("abcd")


def test_XT_14_caches_are_of_one_sandbox_alone():
    poison = """
from probelib import *
import site, sysconfig
places = [sysconfig.get_path('purelib'), sysconfig.get_path('stdlib'), *site.getsitepackages(), '/usr/lib/node_modules', '/usr/share', '/var/cache', '/var/lib', '/usr/local/lib']
for place in dict.fromkeys(places):
    tried(f'place:{place}', lambda: os.open(f'{place}/evil.pth', os.O_CREAT | os.O_WRONLY))
for place in ('/home/cove/.local/lib/python3.11/site-packages', '/home/cove/.cache/pip'):
    os.makedirs(place)
    open(f'{place}/evil.pth', 'w').write('import evil')
"""
    report = code(poison)
    assert report.run.result["exit_code"] == 0, report.run.err
    assert set(report.under("place:").values()) <= {"EROFS", "EACCES", "ENOENT"}
    assert code("from probelib import *\nfact('home', names=os.listdir('/home/cove'))")["home"]["names"] == []


def test_XT_15_what_sysinfo_tells_of_the_machine_is_written_down(pair):
    # A residual: libc takes the size of memory from sysinfo(2) and cannot do without. It also counts the machine's processes.
    before = pair[1].ask("machine")["machine"]["processes"]
    pair[0].ask("crowd", 40)
    during = pair[1].ask("machine")["machine"]["processes"]
    pair[0].ask("disperse")
    model = (ROOT / "docs" / "threat-model.md").read_text()
    assert during - before < 20 or "sysinfo" in model


def test_XT_15_the_free_space_of_the_hosts_disk_is_not_told(pair):
    told = pair[1].ask("machine")["disk"]
    st = os.statvfs("/usr")
    assert told["total"] != st.f_blocks * st.f_frsize, "statvfs of /usr tells the size and use of the host's disk, to the block"


def test_XT_15_inode_numbers_and_ports_start_anew(pair):
    one, two = code("import os\nfrom probelib import *\nfact('i', n=[os.stat(p).st_ino for p in ('/', '/workspace', '/tmp')])"), \
        code("import os\nfrom probelib import *\nfact('i', n=[os.stat(p).st_ino for p in ('/', '/workspace', '/tmp')])")
    assert one["i"] == two["i"]


def test_XT_16_no_channel_leads_across(pair):
    one, two = pair[0].ask("channels"), pair[1].ask("channels")
    for told in (one, two):
        assert {name: told[name]["errno"] for name in ("vsock", "netlink-user", "netlink-uevent")} == {"vsock": "EAFNOSUPPORT", "netlink-user": "EPERM", "netlink-uevent": "EPERM"}
        assert told["netlink-route-send"]["errno"] == "EPERM"
    assert set(one["pipes"]["inodes"].values()).isdisjoint(two["pipes"]["inodes"].values())


@pytest.mark.parametrize("what", ["files", "devices"])
def test_SC_21_opening_a_file_is_seen_by_no_other_sandbox(pair, what):
    paths = SHARED + ["/usr/lib/python3.11/colorsys.py", "/usr/lib/python3.11"] if what == "files" else DEVICES
    paths = [path for path in paths if os.path.exists(path)]
    told = errors(pair[1].ask("watch", paths))
    assert set(told.values()) == {None}
    pair[0].ask("use", [path for path in paths if not os.path.isdir(path)])
    assert pair[1].ask("events")["events"]["masks"] == [], "inotify told of another sandbox's opens"
