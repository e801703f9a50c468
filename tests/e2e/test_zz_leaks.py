"""After everything else: what the whole suite left behind on the host."""
from conftest import HostState, left_behind, started

def test_the_suite_left_no_process_mount_cgroup_namespace_or_directory(host_before):
    assert left_behind(host_before) == set()


def test_the_leak_check_sees_a_running_sandbox(host_before):
    with started("run", "--", "cat") as process:
        process.stdin.write(b"up\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"up\n"
        kinds = {thing.split()[0] for thing in HostState().things - host_before}
        assert {"process", "namespace"} <= kinds
        process.stdin.close()
        assert process.wait(30) == 0
    assert left_behind(host_before) == set()
