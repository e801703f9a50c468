"""A client that speaks to the workspace API as its Python SDK does: the same requests on the wire, the same demands on answers."""
import ast
import json
import pathlib

import aiohttp

SE = "/workspace/se"


class SandboxError(Exception):
    def __init__(self, message, original_error=None, context=None):
        super().__init__(message)
        self.message, self.original_error, self.context = message, original_error, context or {}

    def to_dict(self):
        return {"message": self.message, "original_error": str(self.original_error), "context": self.context}

    def __str__(self):
        return json.dumps(self.to_dict(), indent=2)


class SharedEnvSandbox:
    """One session. Every method asks /healthy first when that was never asked."""

    def __init__(self, session_id, servers):
        if not session_id:
            raise ValueError("session_id is required")
        self.session_id, self.servers, self.healthy = session_id, servers, None

    async def _server(self):
        if self.healthy is None:
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
                for url in self.servers:
                    try:
                        async with session.get(f"{url}{SE}/healthy") as response:
                            if response.status == 200:
                                self.healthy = url
                    except aiohttp.ClientError:
                        continue
        if self.healthy is None:
            raise SandboxError("No available server found")
        return self.healthy

    async def _request(self, method, path, **options):
        url = (await self._server()).rstrip("/") + path
        try:
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=300, connect=10, sock_read=300)) as session:
                async with session.request(method, url, **options) as response:
                    body = await response.json()  # demands application/json, on errors as well
                    if response.status >= 400:
                        raise SandboxError(f"HTTP request failed: {method} {url} - Status: {response.status}, Message: {body}", context={"method": method, "url": url, "status": response.status, "err_msg": body})
                    return body
        except aiohttp.ClientError as error:
            raise SandboxError(f"Network request failed: {method} {url} - {error}", error, {"method": method, "url": url}) from error

    async def _result(self, method, what, **options):
        return (await self._request(method, f"{SE}/{what}", **options))["result"]

    async def create_session(self, size="50M"):
        return await self._result("POST", f"session/{self.session_id}", json={"size": size})

    async def delete_session(self):
        await self._request("DELETE", f"{SE}/session/{self.session_id}")
        return True

    async def upload_file(self, file_path, target_filename=None):
        path = pathlib.Path(file_path)
        if not path.exists():
            raise SandboxError(f"File not found: {path}")
        with open(path, "rb") as file:
            form = aiohttp.FormData()
            form.add_field("file", file, filename=target_filename or path.name)  # which percent-encodes it
            return await self._result("POST", f"upload/{self.session_id}", data=form)

    async def download_file(self, filename, target_path):
        url = f"{await self._server()}{SE}/download/{self.session_id}/{filename}"
        try:
            async with aiohttp.ClientSession() as session, session.get(url) as response:
                response.raise_for_status()
                pathlib.Path(target_path).parent.mkdir(parents=True, exist_ok=True)
                pathlib.Path(target_path).write_bytes(await response.read())
        except aiohttp.ClientError as error:
            raise SandboxError(f"Failed to download file: {error}", error) from error
        return True

    async def create_file(self, content, filename, mode=0o644):
        return await self._result("POST", f"create/{self.session_id}", json={"content": content, "filename": filename, "mode": mode})

    async def execute(self, command, *args):
        result = await self._result("POST", f"execute/{self.session_id}", json={"command": command, "args": list(args)})
        result.get("returncode", "unknown"), result.get("stdout", "")[:200]  # what the SDK logs
        return result

    async def execute_code(self, code, filename=None, args=None, script_type="python", output_params=None):
        body = {"code": unescaped(code), "filename": filename, "args": args or [], "script_type": script_type, "output_params": output_params or []}
        return await self._result("POST", f"execute_code/{self.session_id}", json=body)

    async def list_files(self, directory="", recursive=False):
        files = (await self._result("GET", f"files/{self.session_id}" + (f"/{directory}" if directory else ""), params={"recursive": "false"} if recursive else {}))["files"]
        [one["filename"] for one in files]  # what the SDK logs
        return files

    async def read_file(self, filename, offset=0, buffer_size=4096):
        return await self._result("GET", f"readfile/{self.session_id}/{filename}", params={"offset": offset, "buffer_size": buffer_size})

    async def download_from_efast(self, file_params, save_path="", efast_url="", token="", timeout=300):
        body = {"file_params": file_params, "save_path": save_path, "efast_url": efast_url, "token": token, "timeout": timeout}
        return await self._result("POST", f"download_from_efast/{self.session_id}", json=body)

    async def get_status(self):
        return await self._result("GET", f"status/{self.session_id}")

    async def close(self):
        try:
            await self.delete_session()
        except SandboxError:
            pass


def unescaped(code):
    """The SDK reads code as the inside of a string literal first, where that can be."""
    try:
        return ast.literal_eval(f'"{code}"')
    except (SyntaxError, ValueError):
        return code
