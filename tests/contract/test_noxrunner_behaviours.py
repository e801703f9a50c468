"""The nineteen behaviours that the reference client's own suite checks (contract, section 6), with a client that asks as it does."""
import io
import tarfile
import threading
import time

import pytest
from conftest import fair
from noxclient import NoxClient, NoxError, NoxHTTPError
from server import new_id


@pytest.fixture
def client(server):
    return NoxClient(f"http://127.0.0.1:{server.port}")


@pytest.fixture
def session(client):
    name = new_id("test-integration")
    client.create_sandbox(name, ttl_seconds=300)
    yield name
    try:
        client.delete_sandbox(name)
    except NoxHTTPError as error:
        assert error.status_code == 404


def test_1_the_manager_is_healthy(client):
    assert client.health_check() is True


def test_2_create_tells_the_pod_and_when_it_expires_and_may_be_repeated(client, session):
    first = client.create_sandbox(session, ttl_seconds=300)
    assert first["podName"] and first["expiresAt"]
    assert client.create_sandbox(session)["podName"] == first["podName"]
    assert client.create_sandbox(session, ttl_seconds=300)["podName"] == first["podName"]


def test_3_the_first_readiness_probe_succeeds(client, session):
    assert client.wait_for_pod_ready(session, timeout=30, interval=2) is True
    assert client.probes == 1


def test_3_readiness_of_an_unknown_session_is_false_and_no_time_is_no_probe(client):
    assert client.wait_for_pod_ready(new_id(), timeout=0.3, interval=0.1) is False
    assert client.wait_for_pod_ready(new_id(), timeout=0) is False and client.probes == 0


def test_4_echo_prints_its_words(client, session):
    result = client.exec(session, ["echo", "hello", "world"])
    assert result["exitCode"] == 0 and "hello" in result["stdout"] and "world" in result["stdout"] and "durationMs" in result


def test_5_a_made_directory_is_a_working_directory(client, session):
    assert client.exec(session, ["mkdir", "-p", "/workspace/subdir"])["exitCode"] == 0
    assert "subdir" in client.exec(session, ["pwd"], workdir="/workspace/subdir")["stdout"]
    assert "subdir" in client.exec_shell(session, "pwd", workdir="/workspace/subdir")["stdout"]


def test_6_a_variable_reaches_the_command(client, session):
    assert client.exec(session, ["printenv", "TEST_VAR"], env={"TEST_VAR": "test_value"})["stdout"].strip() == "test_value"


@pytest.mark.parametrize("cmd", [["sh", "-c", 'echo "$TEST_VAR"'], ["bash", "-c", 'echo "$TEST_VAR"'], ["python3", "-c", "import os; print(os.environ['TEST_VAR'])"]], ids=["sh", "bash", "python3"])
@pytest.mark.parametrize("value", ["test_value", "it's a 'quoted' value with  spaces", 'double " and $HOME and `id`', "ünï"])
def test_7_shells_see_a_variable_byte_for_byte(client, session, cmd, value):
    assert client.exec(session, cmd, env={"TEST_VAR": value})["stdout"] == value + "\n"


def test_7_several_variables_at_once(client, session):
    assert client.exec_shell(session, 'echo "$A:$B:$C"', env={"A": "1", "B": "2", "C": "3"})["stdout"] == "1:2:3\n"
    assert client.exec_shell(session, "echo $BASE/$SUBDIR", env={"BASE": "/workspace", "SUBDIR": "test"}, shell="bash")["stdout"] == "/workspace/test\n"


def test_8_nothing_expands_without_a_shell(client, session):
    assert client.exec(session, ["echo", "$TEST_VAR"], env={"TEST_VAR": "value"})["stdout"] == "$TEST_VAR\n"


def test_9_a_timeout_is_an_answer(client, session):
    began = time.monotonic()
    result = client.exec(session, ["sleep", "10"], timeout_seconds=2)
    assert result["exitCode"] == 124 and "timed out" in result["stderr"]
    assert time.monotonic() - began < fair(4)


def test_10_uploaded_files_are_listed(client, session):
    assert client.upload_files(session, {"file1.txt": "content", "data.bin": bytes(range(256))}) is True
    listed = client.exec(session, ["ls", "-la", "/workspace"])["stdout"]
    assert "file1.txt" in listed and "data.bin" in listed
    assert client.exec(session, ["python3", "-c", "print(open('/workspace/data.bin','rb').read() == bytes(range(256)))"])["stdout"] == "True\n"


def test_11_a_nested_upload_comes_back_in_an_archive(client, session):
    assert client.upload_files(session, {"file1.txt": "one", "subdir/file3.txt": "three"})
    data = client.download_files(session)
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        assert {"file1.txt", "subdir/file3.txt"} <= {name.removeprefix("./") for name in archive.getnames()}


def test_12_a_workspace_is_extracted(client, session, tmp_path):
    client.upload_files(session, {"a.txt": "content of a", "deep/er/b.txt": "content of b"})
    assert client.download_workspace(session, str(tmp_path / "out")) is True
    assert (tmp_path / "out" / "a.txt").read_text() == "content of a"
    assert (tmp_path / "out" / "deep" / "er" / "b.txt").read_text() == "content of b"


def test_12_an_empty_workspace_reads_as_false_and_is_an_archive(client, session, tmp_path):
    assert client.download_workspace(session, str(tmp_path)) is False
    with tarfile.open(fileobj=io.BytesIO(client.download_files(session)), mode="r:gz") as archive:
        assert not [info for info in archive.getmembers() if info.isfile()]


def test_13_touch_succeeds(client, session):
    assert client.touch(session) is True


def test_14_delete_succeeds_and_exec_after_it_does_not(client, session):
    assert client.delete_sandbox(session) is True
    with pytest.raises(NoxHTTPError) as raised:
        client.exec(session, ["echo", "x"])
    assert raised.value.status_code == 404 and "HTTP Error 404: Not Found" in str(raised.value)


def test_15_a_whole_workflow(client, tmp_path):
    name = new_id("workflow-test")
    client.create_sandbox(name, ttl_seconds=300)
    assert client.wait_for_pod_ready(name)
    assert client.upload_files(name, {"script.py": "print('from the script')\nopen('result.txt', 'w').write('42')\n"})
    assert client.exec(name, ["python3", "/workspace/script.py"])["stdout"] == "from the script\n"
    assert client.download_workspace(name, str(tmp_path)) and (tmp_path / "result.txt").read_text() == "42"
    assert client.touch(name)
    assert client.delete_sandbox(name)


def test_16_three_sessions_live_at_once(client):
    names = [new_id(f"concurrent-{number}") for number in range(3)]
    for name in names:
        client.create_sandbox(name)
    try:
        for name in names:
            assert client.exec(name, ["echo", name])["stdout"] == name + "\n"
    finally:
        for name in names:
            client.delete_sandbox(name)


def test_16_sessions_are_used_from_threads(client, session):
    results = {}

    def work(number):
        results[number] = client.exec(session, ["sh", "-c", f"sleep 0.2; echo {number}"])["stdout"]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == {number: f"{number}\n" for number in range(12)}


def test_17_a_redirection_persists_and_pipes_work(client, session):
    assert client.exec_shell(session, "echo persisted > file.txt")["exitCode"] == 0
    assert client.exec(session, ["cat", "file.txt"])["stdout"] == "persisted\n"
    assert client.exec_shell(session, "printf 'a\\nb\\nc\\n' | head -n 2 | cat")["stdout"] == "a\nb\n"


def test_17_variables_and_directories_of_one_exec_are_not_those_of_the_next(client, session):
    client.exec_shell(session, "export X=1; cd /tmp")
    assert client.exec_shell(session, 'echo "[$X]"; pwd')["stdout"] == "[]\n/workspace\n"


@pytest.mark.parametrize("program", "echo pwd mkdir printenv sleep ls cat head test sh bash python3 python tar gzip grep find sed curl".split())
def test_18_the_programs_are_there(client, session, program):
    assert client.exec_shell(session, f"command -v {program}", shell="bash")["exitCode"] == 0


def test_18_another_shell_is_refused_before_any_request(client, session):
    with pytest.raises(ValueError, match="shell must be 'sh' or 'bash'"):
        client.exec_shell(session, "true", shell="zsh")


def test_19_an_id_is_used_again_right_after_deletion(client):
    name = new_id("test-integration")
    pods = set()
    for turn in range(5):
        pods.add(client.create_sandbox(name, ttl_seconds=300)["podName"])
        assert client.exec(name, ["ls", "/workspace"])["stdout"] == ""
        client.upload_files(name, {"left": str(turn)})
        assert client.delete_sandbox(name)
    assert len(pods) == 5


def test_a_server_that_is_not_there_is_a_network_error():
    with pytest.raises(NoxError, match="Network error"):
        NoxClient("http://127.0.0.1:1").touch("x")
    assert NoxClient("http://127.0.0.1:1").health_check() is False


def test_a_key_may_stand_in_the_base_url_of_a_client_that_has_no_other_place_for_it(fresh_server):
    from conftest import cove
    running = fresh_server()
    made = cove("key", "create", "--tenant", "acme", "--json", "--state-dir", running.state_dir)
    assert made.status == 0, made.stderr
    key = made.result["key"]
    running.stop()
    running.start()
    client = NoxClient(f"http://127.0.0.1:{running.port}/{key}")
    assert client.health_check()
    client.create_sandbox("mine")
    assert client.exec("mine", ["echo", "hi"])["stdout"] == "hi\n"
    assert client.upload_files("mine", {"a": "b"}) and client.touch("mine") and client.delete_sandbox("mine")
    with pytest.raises(NoxHTTPError) as raised:
        NoxClient(f"http://127.0.0.1:{running.port}").touch("mine")
    assert raised.value.status_code == 401
