"""ZY: the zygote, from which every warm interpreter is forked, attacked from inside by its children and from outside by what may befall it.

Children are programs of POST /v1/execute, each in a sandbox of its own. docs/threat-model.md says what is common to all children of one zygote by nature."""
import concurrent.futures
import json
import os
import pathlib
import secrets
import signal
import time

import pytest

from conftest import fair, leaving_nothing, wait_until
from hostile import SOAK, alive
from kernels import Kernel
from newborns import BORN, LIGHT, ONE_WEIGHT, Program, Racer, groups_of, kill, named, probe, served_by_one_zygote, status_of, warm, zygotes
from arena import SECRET
from server import Server, at

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the zygote is looked at from the host as root")

CHILDREN = 1000 if SOAK else 40


@pytest.fixture(scope="module")
def world():
    """(server, alice, bob, cold): two tenants whose interpreters are born from one zygote, and a server that has none."""
    with leaving_nothing(), Server("--drain", "1s") as cold, served_by_one_zygote("alice", "bob") as tenants:
        yield tenants["alice"], tenants["alice"], tenants["bob"], cold


@pytest.fixture(scope="module")
def alice(world):
    return world[1]


@pytest.fixture(scope="module")
def bob(world):
    return world[2]


@pytest.fixture(scope="module")
def cold(world):
    """A server without a zygote."""
    return world[3]


def at_once(*jobs):
    """Their results; the first failure is raised."""
    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        return [future.result() for future in [pool.submit(job) for job in jobs]]


# --- ZY-01

LAYOUT = """
import ctypes, json
libc = ctypes.CDLL(None)
lines = [line.split() for line in open('/proc/self/maps')]
base = ctypes.c_ulong()
libc.syscall(158, 0x1003, ctypes.byref(base))  # where this thread's canary and pointer guard lie
print(json.dumps({
    'libc': next(words[0] for words in lines if 'libc.so' in words[-1]), 'stack': next(words[0] for words in lines if words[-1] == '[stack]').split('-')[1],
    'heap': next(words[0] for words in lines if words[-1] == '[heap]').split('-')[0], 'canary': ctypes.c_ulong.from_address(base.value + 0x28).value,
    'guard': ctypes.c_ulong.from_address(base.value + 0x30).value, 'seed': hash('a')}))
"""


def layout(server):
    return json.loads(Program(server, LAYOUT).out)


def test_ZY_01_layout_and_guards_are_common_to_the_children_of_one_zygote_and_no_others(world, alice, bob, cold):
    one, two = layout(alice), layout(bob)
    assert one == two and len(set(one.values())) == len(one)  # by nature: what warm means
    before = warm(alice)
    kill(before, signal.SIGKILL)
    warm(alice, other_than=[before])
    replaced = layout(alice)
    for other in (replaced, layout(cold)):
        assert [key for key in one if one[key] == other[key]] == []
    first, second = layout(cold), layout(cold)
    assert [key for key in first if first[key] == second[key]] == []


def test_ZY_01_a_zygote_is_replaced_after_its_births_and_at_its_age(fresh_server):
    server = fresh_server("--python-zygote-births", "3", "--python-zygote-interval", "0s", ONE_WEIGHT, "--pool-size=0", "--python-preload", "json", "--drain", "1s", warm=True)
    first = warm(server)
    seeds = []
    deadline = time.monotonic() + 60
    while len(set(seeds)) < 2 and time.monotonic() < deadline:
        seeds.append(layout(server)["seed"])
    assert len(set(seeds)) == 2, "the zygote was not replaced"
    # Whoever comes while the next one warms up is still served by the one before; nobody fails.
    assert first not in zygotes(server) and len(zygotes(server)) <= 2
    # Where births are many it is not replaced before it has a certain age, and then it is.
    server.stop()
    server.flags = ["--python-zygote-births", "3", "--python-zygote-interval", "4s", ONE_WEIGHT, "--pool-size=0", "--python-preload", "json", "--drain", "1s"]
    server.start()
    first, began = warm(server), time.monotonic()
    seeds = []
    while len(set(seeds)) < 2 and time.monotonic() - began < 60:
        seeds.append(layout(server)["seed"])
    assert len(set(seeds)) == 2 and len(seeds) > 4, "it was replaced after its births alone, or never"
    assert time.monotonic() - began > 2 and first not in zygotes(server)
    server.stop()
    server.flags = ["--python-zygote-age", "1s", ONE_WEIGHT, "--pool-size=0", "--python-preload", "json", "--drain", "1s"]
    server.start()
    first = warm(server)
    assert wait_until(lambda: first not in zygotes(server), 30), "an old zygote serves on"


# --- ZY-02

RANDOM = """
import gc, hashlib, json, os, random, secrets, sqlite3, ssl, tempfile, uuid
import numpy
import _random
told = {
    'random': random.random(), 'choice': random.sample(range(10**9), 3), 'system': random.SystemRandom().random(), 'new': random.Random().random(),
    'uuid4': str(uuid.uuid4()), 'secrets': secrets.token_hex(16), 'urandom': os.urandom(16).hex(), 'ssl': ssl.RAND_bytes(16).hex(),
    'temp': tempfile.mktemp(), 'directory': tempfile.mkdtemp(), 'numpy': numpy.random.rand(2).tolist(), 'normal': numpy.random.standard_normal(2).tolist(),
    'generator': numpy.random.default_rng().random(), 'sqlite': sqlite3.connect(':memory:').execute('select hex(randomblob(16)), random()').fetchone(),
    'authkey': __import__('multiprocessing').process.current_process().authkey.hex(),
}
# Whatever generator any module has made before the fork.
gc.unfreeze()
kept = [thing for thing in gc.get_objects() if isinstance(thing, (_random.Random, numpy.random.RandomState, numpy.random.Generator)) and not isinstance(thing, random.SystemRandom)]
for at, thing in enumerate(kept):
    told[f'kept {at} {type(thing).__name__}'] = str(thing.random())
print(json.dumps(told))
"""


def test_ZY_02_no_two_children_draw_the_same_numbers(alice, bob):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        drawn = list(pool.map(lambda n: json.loads(Program((alice, bob)[n % 2], RANDOM).out), range(50)))
    assert sum("kept" in name for name in drawn[0]) >= 2, "the probe found no generator made before the fork"
    for name in drawn[0]:
        assert len({json.dumps(draw[name]) for draw in drawn}) == len(drawn), f"{name} repeats"


# --- ZY-03, ZY-05

SCAN = """
import json, sys
masked = json.loads(sys.stdin.read())
words = [bytes(byte ^ 0x55 for byte in bytes.fromhex(word)) for word in masked]
own = {id(word) for word in words}
areas = [line.split() for line in open('/proc/self/maps') if line.split()[1].startswith('r')]
memory, hits, seen = open('/proc/self/mem', 'rb', 0), {}, 0
copies = [(id(word), id(word) + len(word) + 64) for word in words]
for area in areas:
    start, end = (int(edge, 16) for edge in area[0].split('-'))
    at = start
    while at < end and seen < 1 << 30:
        try:
            memory.seek(at)
            piece = memory.read(min(1 << 20, end - at))
        except (OSError, OverflowError, ValueError):
            break
        seen += len(piece)
        for number, word in enumerate(words):
            found = piece.find(word)
            while found >= 0:
                # The word itself, that we look for.
                if not any(low <= at + found < high for low, high in copies):
                    hits.setdefault(number, []).append(area[-1] + ' ' + piece[max(0, found - 16):found + 40].hex())
                found = piece.find(word, found + 1)
        del piece
        # Words that lie across two pieces.
        at += (1 << 20) - 64 if end - at > 1 << 20 else end - at
print(json.dumps({'seen': seen, 'hits': hits}))
"""


def masked(*words):
    """So that the program that searches does not hold what it searches for."""
    return json.dumps([bytes(byte ^ 0x55 for byte in word.encode()).hex() for word in words])


def test_ZY_03_no_trace_of_earlier_children_or_of_the_servers_secrets_in_memory(world, alice, bob):
    server = world[0]
    marks = ["mark" + secrets.token_hex(12) for _ in range(3)]
    # In its code, its input, its variables, its environment, a file and its output.
    left = Program(alice, f"import os, sys\nmark = {marks[0]!r} * 1000\nos.environ['MARK'] = mark\nopen('mark', 'w').write(mark)\nprint(mark, sys.stdin.read())", stdin=marks[1])
    assert left.status == 0 and marks[1] in left.out
    secret = {"mark in code": marks[0], "mark in input": marks[1], "environment of the server": SECRET, "alice's key": alice.key, "bob's key": bob.key,
              "state directory": str(server.state_dir), "host name": "node=" + os.uname().nodename}
    assert Program(bob, f"keep = {marks[2]!r}", stdin="").status == 0
    secret["mark of the same tenant"] = marks[2]
    found = Program(bob, SCAN, stdin=masked(*secret.values()))
    told = json.loads(found.out)
    assert told["seen"] > 80 << 20, "too little was looked at"
    assert {list(secret)[int(number)]: where for number, where in told["hits"].items()} == {}
    # The search finds what is there.
    known = json.loads(Program(bob, SCAN + "\nneedle = 'there-is-' + 'a-needle'", stdin=masked("OPENBLAS_NUM_THREADS=1")).out)
    assert known["hits"]


ENVIRONMENT = ["PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/tmp", "OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1", "MPLBACKEND=agg",
               "MPLCONFIGDIR=/tmp/mpl"]


def test_ZY_05_what_the_zygote_was_started_with_says_nothing(alice):
    """It stays readable for good, whatever is cleared afterwards."""
    told = Program(alice, "import json\nprint(json.dumps([open('/proc/self/' + name).read().split('\\0')[:-1] for name in ('environ', 'cmdline')]))")
    environment, command = json.loads(told.out)
    assert environment == ENVIRONMENT
    assert command[:4] == ["/usr/bin/python3", "-I", "-B", "/cove/python/zygote.py"]


# --- ZY-04

def test_ZY_04_a_child_has_three_pipes_and_nothing_else_open(alice):
    told = Program(alice, """
import json, os, stat, sys
table, usable = {}, {}
for fd in range(4096):
    try:
        table[fd] = [stat.S_IFMT(os.fstat(fd).st_mode) == stat.S_IFIFO, os.get_inheritable(fd)]
    except OSError as error:
        usable.setdefault(error.errno, []).append(fd)
os.write(2, json.dumps([table, list(usable)]).encode())
""")
    table, refused = json.loads(told.err)
    assert table == {"0": [True, True], "1": [True, True], "2": [True, True]} and refused == [9]


# --- ZY-06, ZY-07, XT-16

def test_ZY_06_the_zygotes_socket_is_nowhere_to_be_found(world, alice):
    server = world[0]
    zygote = warm(alice)
    told = Program(alice, """
import json, os, socket
print(json.dumps({
    'listed': [line.split()[-1] for line in open('/proc/self/net/unix').read().splitlines()[1:]],
    'names': sorted(name for name in os.listdir('/proc') if name.isdigit() or name == 'net'),
    'descriptors': sorted(os.listdir('/proc/self/fd'))}))
for fd in range(3, 64):
    for junk in (b'', b'\\0' * 8, b'\\xff' * 400):
        try:
            os.write(fd, junk)
            print('took', fd)
        except OSError:
            pass
""")
    seen = json.loads(told.out.splitlines()[0])
    assert seen["listed"] == [] and "took" not in told.out
    assert seen["descriptors"] == ["0", "1", "2", "3"]  # 3 is the listing's own
    assert zygotes(server) == [zygote] and Program(alice, BORN).out == "True\n"


def test_ZY_07_the_zygote_is_somebody_elses_process_in_another_place(world, alice, bob):
    server = world[0]
    zygote = warm(alice)
    pids = [zygote, server.keeper(), os.getpid()]
    code = ATTACK_BY_NUMBER.format(pids=pids)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(Program, alice, code)
        assert wait_until(lambda: named("zy07-child"), 10)
        child = named("zy07-child")[0]
        standing = {who: status_of(pid) for who, pid in (("zygote", zygote), ("child", child))}
        spaces = {who: {name: os.readlink(f"/proc/{pid}/ns/{name}") for name in ("pid", "user", "mnt", "net", "ipc", "uts", "cgroup")} for who, pid in (("zygote", zygote), ("child", child))}
        told = json.loads(running.result().out)
    assert told["pids"] == ["1", str(told["own"])]
    for name in ("kill", "stop", "pidfd", "limit", "affinity"):
        assert set(told[name]) == {3}, name  # ESRCH
    assert set(told["nice"]) <= {3, 1}
    for name in ("attach", "read", "kcmp"):
        assert set(told[name]) == {1}, name  # EPERM: no such calls inside
    # Another uid, so that its limits are not the child's to use up; and every namespace another.
    assert standing["zygote"]["Uid"].split()[0] != standing["child"]["Uid"].split()[0]
    assert [name for name in spaces["zygote"] if spaces["zygote"][name] == spaces["child"][name]] == []
    # Nothing it could do to others of its sandbox's uid reached the zygote.
    assert warm(alice) == zygote


ATTACK_BY_NUMBER = """
import ctypes, json, os, time
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(15, b'zy07-child')
def errno(call, *words):
    words = [ctypes.c_long(word) for word in words] + [ctypes.c_long(0)] * 4
    return 0 if libc.syscall(call, *words) >= 0 else ctypes.get_errno()
pids = {pids}
print(json.dumps(dict(
    pids=[name for name in os.listdir('/proc') if name.isdigit()], own=os.getpid(),
    kill=[errno(62, pid, 0) for pid in pids], stop=[errno(62, pid, 19) for pid in pids], pidfd=[errno(434, pid, 0) for pid in pids],
    attach=[errno(101, 16, pid) for pid in pids], read=[errno(310, pid) for pid in pids], kcmp=[errno(312, pid, pid, 1) for pid in pids],
    limit=[errno(302, pid, 7) for pid in pids], nice=[errno(141, 0, pid, 19) for pid in pids], affinity=[errno(204, pid, 8, id(pids)) for pid in pids])), flush=True)
time.sleep(0.6)
"""


def test_ZY_07_a_child_that_uses_up_its_own_limits_costs_the_zygote_nothing(world, alice, bob):
    zygote = warm(alice)
    bomb = """
import os, time
n = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(30)
        n += 1
except OSError as error:
    print(n, error.errno, flush=True)
held = []
try:
    while True:
        held.append(os.open('/dev/null', os.O_RDONLY))
except OSError as error:
    print(len(held), error.errno, flush=True)
time.sleep(1)
"""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(Program, alice, bomb, timeout_ms=8000)
        time.sleep(0.5)
        assert [Program(bob, BORN).out for _ in range(5)] == ["True\n"] * 5
        assert "11" in running.result().out.split()  # EAGAIN: its own limit of processes
    assert zygotes(world[0]) == [zygote]


@pytest.fixture(scope="module")
def talk(alice, bob):
    """What two children of one zygote notice of each other, and what one notices alone."""
    alone = probe(alice, "inherited_channels", "listen", 0.4)
    listener, talker = at_once(lambda: probe(alice, "inherited_channels", "listen", 2.2), lambda: (time.sleep(0.5), probe(bob, "inherited_channels", "talk", 1))[1])
    return alone, listener, talker


def test_XT_16_what_the_zygote_had_mapped_cannot_be_opened(talk):
    for one in talk:
        assert one.errno("open:/proc/self/exe") == "EACCES" and one.errno("write:/proc/self/exe") in ("EACCES", "EROFS", "ETXTBSY")  # Landlock: no rule above it
        assert one.errno("open:/proc/self/map_files") == "EPERM" and one.errno("write:/proc/self/map_files") == "EPERM"
    talker = talk[2]
    assert talker.errno("flock") == "EBADF" and talker.errno("lease") == "EBADF" and talker.errno("exec") == "EACCES"


def test_XT_16_nothing_writable_is_shared_between_children(talk):
    for one in talk:
        shared = one["shared"]
        assert shared["writable"] == [] and shared["anonymous"] == []
        assert set(shared["paths"]) <= {"/usr/lib/x86_64-linux-gnu/gconv/gconv-modules.cache"}  # read-only, of glibc
        for name in ("userfaultfd", "keyctl", "fanotify", "memfd_secret", "kcmp"):
            assert one.errno(f"call:{name}") in ("EPERM", "ENOSYS")


def test_XT_16_a_watch_on_the_zygotes_program_sees_nothing_of_what_others_do(talk):
    alone, listener, _ = talk
    assert alone["noticed"]["bytes"] == 0 and listener["noticed"]["bytes"] == 0


def test_XT_16_words_to_wait_on_are_private_but_for_files_of_the_shared_usr(talk):
    """The documented residual: a futex in a page of a file is known by the file below all overlays. Both sides have to want it, and it needs no zygote."""
    alone, listener, talker = talk
    assert set(alone["futex"]["woken"].values()) == {"ETIMEDOUT"}
    private = ("heap", "stack", "data of the program", "a file of its own")
    assert {listener["futex"]["woken"][name] for name in private} == {"ETIMEDOUT"} and {talker["futex"]["woken"][name] for name in private} == {0}
    assert {name for name, many in talker["futex"]["woken"].items() if many} == {"text of the program", "a file of /usr"}


# --- ZY-09

def test_ZY_09_nothing_the_zygote_imports_from_can_be_written(alice):
    told = Program(alice, """
import errno, json, os, sys
places = sorted({os.path.dirname(module.__file__) for module in list(sys.modules.values()) if getattr(module, '__file__', None)} | {path for path in sys.path if path}
                | {'/cove', '/cove/python', '/cove/lib', '/usr/lib/python3/dist-packages', '/etc/ld.so.cache', '/etc/ld.so.preload', '/usr/lib', '/usr/bin'})
refused, taken = {}, []
for place in places:
    if place.startswith('/workspace'):
        continue
    for name, act in (('make', lambda: open(place + '/planted.py', 'x')), ('rename', lambda: os.rename(place, place + '.old')), ('mode', lambda: os.chmod(place, 0o777)),
                      ('link', lambda: os.symlink('/workspace', place + '/planted')), ('remove', lambda: os.remove(place + '/__init__.py'))):
        try:
            act()
            taken.append([place, name])
        except OSError as error:
            refused[errno.errorcode[error.errno]] = refused.get(errno.errorcode[error.errno], 0) + 1
for module in list(sys.modules.values()):
    if getattr(module, '__file__', None) and not module.__file__.startswith('/workspace'):
        try:
            open(module.__file__, 'r+')
            taken.append([module.__file__, 'open'])
        except OSError as error:
            refused[errno.errorcode[error.errno]] = refused.get(errno.errorcode[error.errno], 0) + 1
print(json.dumps([len(places), refused, taken]))
""")
    places, refused, taken = json.loads(told.out)
    assert places > (20 if LIGHT else 50) and taken == []
    assert set(refused) <= {"EROFS", "EACCES", "EPERM", "ENOENT", "ENOTDIR", "EXDEV", "EBUSY"}, refused


def test_ZY_09_what_a_child_plants_is_not_in_the_next_zygote(world, alice, bob):
    planted = """
import os, site, sys
places = ['/workspace', '/tmp', '/home/cove', '/dev/shm', '/home/cove/.local/lib/python3.11/site-packages', '/tmp/mpl', '/workspace/.config/matplotlib', '/home/cove/.ipython/profile_default/startup']
for place in places:
    os.makedirs(place, exist_ok=True)
    for name in ('sitecustomize.py', 'usercustomize.py', 'planted.pth', 'json.py', 'numpy.py', 'matplotlibrc', '00-first.py', 'random.py'):
        open(place + '/' + name, 'w').write('import builtins; builtins.planted = True')
print('planted')
"""
    assert Program(alice, planted).out == "planted\n"
    before = warm(alice)
    kill(before, signal.SIGKILL)
    warm(alice, other_than=[before])
    told = Program(bob, "import builtins, sys, json, random, numpy\nprint(hasattr(builtins, 'planted'), sorted({m.__file__.split('/')[1] for n, m in sys.modules.items() if n != '__main__' and getattr(m, '__file__', None)}))")
    assert told.out == "False ['cove', 'usr']\n"


# --- ZY-10

EVERYTHING = """
import asyncio, concurrent.futures, hashlib, multiprocessing, os, queue, socket, sqlite3, ssl, subprocess, sys, threading, time
import numpy
began = time.monotonic()
one = numpy.random.rand(200, 200)
assert numpy.allclose(one @ numpy.linalg.inv(one), numpy.eye(200), atol=1e-4)
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    assert sum(pool.map(lambda n: int((one @ one).shape[0]) * n, range(8))) == 200 * 28
lock, done = threading.Lock(), []
def work(n):
    with lock:
        done.append(n)
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
[t.start() for t in threads]; [t.join(10) for t in threads]
assert sorted(done) == list(range(8))
ssl.create_default_context(); assert ssl.RAND_bytes(8)
base = sqlite3.connect('/workspace/a.db'); base.execute('create table t (a)'); base.executemany('insert into t values (?)', [(n,) for n in range(100)]); base.commit()
assert base.execute('select sum(a) from t').fetchone() == (4950,)
async def main():
    process = await asyncio.create_subprocess_exec('echo', 'async', stdout=subprocess.PIPE)
    said, _ = await process.communicate()
    loop = asyncio.get_running_loop()
    return said, await loop.run_in_executor(None, lambda: 6 * 7), await asyncio.gather(*(asyncio.sleep(0.001, n) for n in range(5)))
assert asyncio.run(main()) == (b'async\\n', 42, [0, 1, 2, 3, 4])
assert subprocess.run(['sh', '-c', 'echo $((6*7))'], capture_output=True).stdout == b'42\\n'
assert subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True).stdout == b'1\\n'
with multiprocessing.get_context('fork').Pool(2) as pool:
    assert pool.map(abs, [-1, -2, -3]) == [1, 2, 3]
pid = os.fork()
if pid == 0:
    os._exit(int((one @ one).shape[0] == 200) + 6)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
assert hashlib.sha256(b'a').hexdigest().startswith('ca97') and socket.socketpair()
print('all', round(time.monotonic() - began, 3))
"""


def test_ZY_10_libraries_work_in_every_child(world, alice, bob):
    zygote = warm(alice)
    born = []

    def child(number):
        told = Program((alice, bob)[number % 2], EVERYTHING + BORN)
        assert told.status == 0, told.result
        born.append(told.out.splitlines()[1] == "True")
        return float(told.out.split()[1])

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        times = sorted(pool.map(child, range(CHILDREN)))
    assert all(born) and zygotes(world[0]) == [zygote]
    # A deadlock would last until the time is over; this machine may be busy.
    assert times[len(times) // 2] < 2 and times[-1] < 10, times[-3:]


# --- ZY-11

NONE = "0" * 16
LOW = "EACCES"  # init is not dumpable: nobody sees its namespaces
# What a child of the zygote stands in. The same as what an exec'd interpreter stands in, but for DIFFERENT.
SPEC = {
    "Umask": "0022", "Uid": "1000 1000 1000 1000", "Gid": "1000 1000 1000 1000", "Groups": "", "TracerPid": "0", "SigPnd": NONE, "ShdPnd": NONE, "SigBlk": NONE,
    "SigIgn": "0000000001001000",  # SIGPIPE and SIGXFSZ, as in every CPython
    "CapInh": NONE, "CapPrm": NONE, "CapEff": NONE, "CapBnd": NONE, "CapAmb": NONE, "NoNewPrivs": "1", "Seccomp": "2", "Seccomp_filters": "1", "Threads": "1",
    "VmLck": "0 kB", "THP_enabled": "1",
    "RLIMIT_AS": [-1, -1], "RLIMIT_CORE": [1, 1], "RLIMIT_DATA": [-1, -1], "RLIMIT_MEMLOCK": [65536, 65536], "RLIMIT_MSGQUEUE": [131072, 131072], "RLIMIT_NICE": [0, 0],
    "RLIMIT_NOFILE": [1024, 4096], "RLIMIT_RSS": [-1, -1], "RLIMIT_RTPRIO": [0, 0], "RLIMIT_RTTIME": [-1, -1], "RLIMIT_SIGPENDING": [256, 256], "RLIMIT_STACK": [8388608, 67108864],
    "cwd": "/workspace", "root": "/", "leads_session": True, "leads_group": True, "terminal": "ENXIO", "nice": 0, "scheduler": 0, "priority": 0, "io_priority": 0,
    "oom_score_adj": "500", "personality": "00000000", "coredump_filter": "00000033\n", "timers": "", "itimers": [[0.0, 0.0]] * 3,
    "keyring": "EPERM", "add_key": "EPERM", "request_key": "EPERM", "dumpable": 1, "keep_capabilities": 0, "securebits": 239, "timer_slack": 50000, "no_new_privileges": 1,
    "thp_disabled": 0, "parent_death_signal": 0, "subreaper": 0, "machine_check": 2, "alternate_stack": 2,
    "locale": "LC_CTYPE=C.UTF-8;" + ";".join(f"LC_{name}=C" for name in ("NUMERIC", "TIME", "COLLATE", "MONETARY", "MESSAGES", "PAPER", "NAME", "ADDRESS", "TELEPHONE", "MEASUREMENT", "IDENTIFICATION")),
    "file_system_encoding": "utf-8", "descriptors": {"0": "pipe", "1": "pipe", "2": "pipe"}, "group": ["/"], "setgroups": "deny", "hostname": "cove", "login": "4294967295",
    "audit_session": "4294967295", "mounts": 7, "namespaces": dict.fromkeys(("cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "time_for_children", "user", "uts"), LOW),
    "landlock_write": "EACCES", "landlock_device": "EPERM", "signal_to_init": None, "comm": "python3", "wakeup": -1,
    "handlers": {"SIGINT": "<built-in function default_int_handler>", "SIGPIPE": "1", "SIGXFSZ": "1"},
}
# (born, exec'd) and why.
DIFFERENT = {
    "SigCgt": ("0000000100000002", "0000000000000002"),  # 33 is glibc's own, from the first thread a process makes: the zygote once made one
    "parent": (1, 4),  # init itself, not one that init forked to watch over a command
    "landlock_exe": ("EACCES", True),  # the zygote's root is not the sandbox's, and has no rule
    "command": (["/usr/bin/python3", "-I", "-B", "/cove/python/zygote.py"], ["/usr/bin/python3", "-I", "-B", "/cove/python/cold.py"]),
    "first_environment": (ENVIRONMENT, None),  # what exec left on the stack; os.environ is the same in both
}
# Of the sandbox, not of how its interpreter came: the same in both, whatever it is.
OF_THE_SANDBOX = ("RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NPROC", "Cpus_allowed", "Mems_allowed", "affinity", "environment", "Speculation_Store_Bypass", "SpeculationIndirectBranch",
                  "io_flusher")
OF_THE_RUN = ("uid_map", "gid_map")  # a host uid for every sandbox


def test_ZY_11_a_child_stands_exactly_as_written(alice, cold):
    born, executed = (probe(server, "inherited")["inherited"]["table"] for server in (alice, cold))
    assert {name: born[name] for name in SPEC} == SPEC
    assert {name: executed[name] for name in SPEC} == SPEC
    # Which cores it has depends on the other sandboxes of its server: as many, and those that it may use.
    assert {name: (born[name], executed[name]) for name in OF_THE_SANDBOX if name not in ("Cpus_allowed", "affinity") and born[name] != executed[name]} == {}
    for table in (born, executed):
        assert int(table["Cpus_allowed"].replace(",", ""), 16) == sum(1 << core for core in table["affinity"])
    assert len(born["affinity"]) == len(executed["affinity"])
    for name, (here, there) in DIFFERENT.items():
        told, other = born[name], executed[name]
        if isinstance(here, list):
            told, other = told[:len(here)], other[:len(there or [])] or None
        assert told == here and (other == there or there is None), name
    assert [born[name][0] == "1000" and born[name][2] == "1" and born[name][1] != executed[name][1] for name in OF_THE_RUN] == [True, True]
    # Nothing that is looked at is left out of what is written.
    assert set(born) == set(executed) == {*SPEC, *DIFFERENT, *OF_THE_SANDBOX, *OF_THE_RUN}
    assert born["RLIMIT_NPROC"][0] > 1 and born["RLIMIT_CPU"][0] > 0 and born["RLIMIT_FSIZE"][0] > 0


# --- ZY-12, ZY-14

HELD = """
import ctypes, time
libc = ctypes.CDLL(None)
libc.prctl(15, b'{name}')
print(time.process_time(), flush=True)
{more}
time.sleep({seconds})
"""


def test_ZY_12_the_first_line_of_a_program_runs_within_the_sandboxs_limits(world, alice):
    name = "zy12-" + secrets.token_hex(4)
    zygote = warm(alice)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(Program, alice, HELD.format(name=name, more="", seconds=0.5))
        assert wait_until(lambda: named(name), 10)
        child = named(name)[0]
        parent = int(status_of(child)["PPid"])
        groups, above, zygotes_own = groups_of(child), groups_of(parent), groups_of(zygote)
        program = running.result()
    assert status_of(zygote)["Tgid"] == str(zygote)
    # In every hierarchy that limits anything, where its init is, and not where the zygote is.
    assert groups == above and [path for path in groups.values() if "/s-" in path]
    limiting = [kind for kind in groups if set(kind.split(",")) & {"memory", "pids", "cpu"} or kind == ""]
    assert limiting and [kind for kind in limiting if groups[kind] == zygotes_own[kind]] == []
    # From the fork to the first line: the runtime's own start and nothing else.
    assert float(program.out) < 0.5


def group_bytes(pid):
    """Bytes charged to the memory group of a process."""
    for kind, path in groups_of(pid).items():
        for base, file in (("/sys/fs/cgroup/memory", "memory.usage_in_bytes"), ("/sys/fs/cgroup", "memory.current")):
            if "memory" in kind.split(",") or kind == "":
                for place in (pathlib.Path(base + path) / file, pathlib.Path(base) / path.rpartition("/")[2] / file):
                    if place.exists():
                        return int(place.read_text())
    pytest.skip("the memory group cannot be seen from here")


def dirty_bytes(pid):
    """What it has made its own of what it was born with, and since."""
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Private_Dirty:"):
            return int(line.split()[1]) << 10
    raise AssertionError("the kernel does not tell")


def test_ZY_14_pages_a_child_dirties_are_its_own_to_pay(world, alice):
    zygote = warm(alice)
    name = "zy14-" + secrets.token_hex(4)
    # All that was inherited, touched: a count of references in every object.
    more = f"import gc; gc.unfreeze(); kept = gc.get_objects(); held = [bytearray(8 << 20) for _ in range(4)]; libc.prctl(15, b'{name}x')"
    before = status_of(zygote)["RssAnon"]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        running = [pool.submit(Program, alice, HELD.format(name=name, more=more, seconds=1.2)) for _ in range(4)]
        assert wait_until(lambda: len(named(name + "x")) == 4, 15)
        children = named(name + "x")
        bills = [(group_bytes(pid), dirty_bytes(pid)) for pid in children]
        assert {future.result().status for future in running} == {0}
    for charged, dirty in bills:
        # The kernel charges in batches, and counts its own tables besides.
        assert dirty > 40 << 20 and charged > dirty - (2 << 20), bills
    assert status_of(zygote)["RssAnon"] == before


def test_ZY_14_a_child_out_of_memory_takes_only_itself(world, alice, bob):
    zygote = warm(alice)
    greedy = Program(alice, "held = []\nwhile True: held.append(bytearray(16 << 20))")
    assert greedy.status == 137 and not greedy.result["timed_out"]
    assert zygotes(world[0]) == [zygote] and Program(bob, BORN).out == "True\n" and alive(bob) < 5


# --- the birth itself, into a sandbox where somebody waits for it

@pytest.fixture
def den(alice):
    """A sandbox of alice's, with hostile code to come."""
    name = alice.create(ttlSeconds=600, pidsLimit=100)
    yield name
    alice.delete(at(name))


def births_of_others(tenant, seconds):
    """[(born, seconds)] of programs one after the other."""
    until, found = time.monotonic() + seconds, []
    while time.monotonic() < until:
        began = time.monotonic()
        found.append((Program(tenant, BORN).out == "True\n", time.monotonic() - began))
    return found


LOOKED_INTO = ("mem", "maps", "environ", "root", "cwd", "exe", "ns/user", "fd/3", "auxv", "root/etc", "oom_score_adj", "clear_refs", "uid_map", "stack", "syscall")
CALLED = ("process_vm_readv", "process_vm_writev", "ptrace", "kcmp", "pidfd_getfd", "setns")


def test_ZY_07_ZY_12_a_newborn_cannot_be_looked_into_at_any_moment_of_its_birth(world, alice, den):
    """Tried thousands of times on each pid that comes, from the stand-in's first moment on."""
    zygote = warm(alice)
    racer = Racer(alice, den, "look", 1.2)
    kernels = [Kernel(alice, den) for _ in range(6)]
    assert [kernel.birth for kernel in kernels] == ["warm"] * 6
    told = racer.told()
    assert sum(told["mem"].values()) > 300, "the race was not run"
    for what in LOOKED_INTO:
        assert set(told[what]) <= {13, 1}, (what, told[what])  # EACCES, EPERM: another's uid, then capabilities, then not dumpable, then another Landlock domain
    for what in CALLED:
        assert set(told[what]) == {1}, (what, told[what])  # EPERM: no such calls inside
    assert kernels[-1].out("print(6 * 7)") == "42\n" and zygotes(world[0]) == [zygote]


@pytest.mark.parametrize("how", ["stop", "kill", "limit"])
def test_ZY_07_what_is_done_to_a_newborn_on_its_way_is_felt_by_nobody_else(world, alice, bob, den, how):
    """A process of the same sandbox may signal it as soon as it has the sandbox's uid. Its own birth fails; the zygote goes on."""
    zygote = warm(alice)
    seconds = 2.4 if how == "stop" else 1  # longer than a zygote may take, where something waits
    racer = Racer(alice, den, how, seconds)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        victim = pool.submit(alice.post, at(den, "kernels"), None, timeout=60)
        others = births_of_others(bob, seconds)
        told = racer.told()
        alice.delete(at(den))  # or a stopped one would be waited for
        assert victim.result().status in (201, 404, 409, 500, 503, 504, 507), victim.result()
    told = next(iter(told.values()))
    assert set(told) <= {0, 1} and told.get(1), told  # EPERM: before it has the uid, which the stand-in never has
    assert all(born for born, _ in others) and max(seconds for _, seconds in others) < fair(1.5), others
    assert zygotes(world[0]) == [zygote]


SPIN = "for i in $(seq 60); do (while :; do :; done) & done; wait"
HOG = "import os\nfor _ in range(3): os.fork()\nwhile True: held = [bytearray(1 << 20) for _ in range(60)]"


def test_ZY_07_a_birth_into_a_starved_sandbox_holds_up_nobody_else(world, alice, bob):
    zygote = warm(alice)
    names = [alice.create(ttlSeconds=600, pidsLimit=80, cpuLimit="100m", memoryLimit="64Mi") for _ in range(2)]
    alice.start_process(names[0], "sh", "-c", SPIN)
    alice.start_process(names[1], "python3", "-c", HOG)
    time.sleep(0.5)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        victims = [pool.submit(alice.post, at(name, "kernels"), None, timeout=60) for name in names * 2]
        others = births_of_others(bob, 2.4)
        assert all(born for born, _ in others) and max(seconds for _, seconds in others) < fair(1.5), others
        assert zygotes(world[0]) == [zygote]
        for name in names:  # and they are gone in time, although they have no processor time to end with
            began = time.monotonic()
            assert alice.delete(at(name)).status == 204 and time.monotonic() - began < fair(5)
        assert {victim.result().status for victim in victims} <= {201, 404, 409, 500, 503, 504}


def test_ZY_07_a_birth_that_meets_a_pause_holds_up_nobody_else(world, alice, bob, den):
    zygote = warm(alice)
    until, statuses = time.monotonic() + 1.5, {}

    def pause():
        while time.monotonic() < until:
            assert alice.post(at(den, "pause")).status == 200 and alice.post(at(den, "resume")).status == 200

    def bear():
        while time.monotonic() < until:
            answer = alice.post(at(den, "kernels"), None, timeout=30)
            statuses[answer.status] = statuses.get(answer.status, 0) + 1
            if answer.status == 201:
                alice.delete(at(den, f"kernels/{answer.json['id']}"), timeout=30)

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(pause), pool.submit(bear), pool.submit(bear)]
        others = births_of_others(bob, 1.5)
        for job in jobs:
            job.result()
    assert statuses.get(201), statuses
    assert all(born for born, _ in others) and max(seconds for _, seconds in others) < fair(1.5), others
    assert zygotes(world[0]) == [zygote]


def test_ZY_12_a_sandbox_full_of_processes_gets_no_newborn_besides(alice):
    name = alice.create(ttlSeconds=600, pidsLimit=12)
    alice.start_process(name, "python3", "-c", "import os, time\ntry:\n    while os.fork(): pass\nexcept OSError: pass\ntime.sleep(60)")
    def count():
        return int(alice.get(at(name)).json["usage"]["pids"])
    assert wait_until(lambda: count() >= 12, 10)
    time.sleep(0.2)
    full = count()
    for _ in range(3):
        assert alice.post(at(name, "kernels"), None, timeout=60).status != 201
    assert wait_until(lambda: count() == full, 5), (count(), full)
    alice.delete(at(name))


def test_ZY_11_a_kernel_stands_as_a_command_beside_it_does(alice, den):
    """The same sandbox, the same moment; the table is the one of a program, but for what a kernel has by its kind."""
    for file in ("probelib.py", "inherited.py"):
        assert alice.put(at(den, f"files?path={file}"), (pathlib.Path(__file__).parent.parent / "probes" / file).read_bytes()).status == 200
    kernel = Kernel(alice, den)
    assert kernel.birth == "warm"
    tables = []
    for said in (kernel.out("exec(open('/workspace/inherited.py').read())"), alice.exec(den, "python3", "inherited.py")["stdout"]):
        tables.append(next(json.loads(line)["table"] for line in said.splitlines() if line.startswith('{"fact": "inherited"')))
    born, executed = tables
    by_kind = {"descriptors", "handlers", "environment", "wakeup", "locale"}  # the channel on 3; SIGINT is the runtime's; COLUMNS and the like
    assert {name: (born[name], executed[name]) for name in SPEC if born[name] != executed[name] and name not in by_kind} == {}
    assert {name: born[name] for name in SPEC if born[name] != SPEC[name] and name not in by_kind} == {}
    assert born["descriptors"] == {"0": "pipe", "1": "pipe", "2": "pipe", "3": "socket"}
    # Here they have the same sandbox: the same ids, the same limits.
    assert {name: (born[name], executed[name]) for name in (*OF_THE_SANDBOX, *OF_THE_RUN) if born[name] != executed[name] and name not in by_kind} == {}
