"""The workspace API as its Python SDK uses it (contract sandbox-runtime, sections 10 and 13)."""
import asyncio

import pytest
from server import new_id
from workspace_sdk import SandboxError, SharedEnvSandbox


@pytest.fixture
def sdk(server):
    """sdk(work): runs work(sandbox) with a session of its own."""
    def run(work, **options):
        async def main():
            sandbox = SharedEnvSandbox(new_id("sdk"), servers=[f"http://127.0.0.1:{server.port}"])
            try:
                return await work(sandbox)
            finally:
                await sandbox.close()
        return asyncio.run(main())
    return run


def test_a_whole_life(sdk, workdir):
    async def work(box):
        assert await box.create_session() == {"session_id": box.session_id}
        assert (await box.get_status())["exists"] is True
        assert await box.create_file("print('hello')", "hello.py") == {"filename": "hello.py", "size": 14}
        said = await box.execute("python3", "hello.py")
        assert said["stdout"] == "hello" and said["returncode"] == said["exit_code"] == 0
        assert [one["filename"] for one in await box.list_files()] == [one["name"] for one in await box.list_files()] == ["hello.py"]
        assert (await box.read_file("hello.py"))["content"] == "print('hello')"
        assert await box.download_file("hello.py", workdir / "down" / "h.py") is True
        assert (workdir / "down" / "h.py").read_text() == "print('hello')"
        assert await box.delete_session() is True
        assert (await box.get_status())["exists"] is False
    sdk(work)


def test_uploads_to_a_path_and_under_any_name(sdk, workdir):
    (workdir / "f").write_bytes(b"\x00\xff data")

    async def work(box):
        assert await box.upload_file(workdir / "f", "n/新 up.txt") == {"filename": "n/新 up.txt", "size": 7}
        assert await box.download_file("n/新 up.txt", workdir / "g") and (workdir / "g").read_bytes() == b"\x00\xff data"
        assert (await box.list_files("n"))[0]["filename"] == "n/新 up.txt"
        with pytest.raises(SandboxError, match="File not found"):
            await box.upload_file(workdir / "none")
    sdk(work)


def test_code_with_variables(sdk):
    async def work(box):
        said = await box.execute_code("a = 6\\nb = a * 7\\nprint(b)", output_params=["a", "b"])
        assert said["stdout"] == "42" and said["output_variables"] == {"a": 6, "b": 42}
        said = await box.execute_code("import sys\nprint(sys.argv[1:])", filename="args", args=["x y"])
        assert said["stdout"] == "['x y']"
        assert (await box.execute_code("echo shell", script_type="shell"))["stdout"] == "shell"
        assert [one["filename"] for one in await box.list_files("", recursive=True)]
    sdk(work)


def test_errors_are_json_and_say_what_is_wrong(sdk, workdir):
    async def work(box):
        await box.create_session()
        for attempt, words in ((box.create_session(), "Session already exists"), (box.create_file("x", "../x"), "Invalid file path"), (box.read_file("none.txt"), "File not found"), (box.list_files("none"), "Failed to list files"),
                               (box.execute_code("1", script_type="perl"), "Unsupported script type"), (box.read_file("x.txt", offset="no"), "valid integer"), (box.download_from_efast([]), "No file parameters provided")):
            with pytest.raises(SandboxError) as raised:
                await attempt
            assert raised.value.message.startswith("HTTP request failed: ") and words in raised.value.message, raised.value
            assert raised.value.context["status"] >= 400 and raised.value.context["err_msg"]["detail"]
        with pytest.raises(SandboxError, match="Failed to download file: 404"):
            await box.download_file("none", workdir / "x")
    sdk(work)


def test_no_server_is_said_so():
    async def work():
        with pytest.raises(SandboxError, match="No available server found"):
            await SharedEnvSandbox("x", servers=["http://127.0.0.1:9"]).get_status()
    asyncio.run(work())
    with pytest.raises(ValueError):
        SharedEnvSandbox("", servers=[])
