"""A client that asks and judges exactly as the NoxRunner reference client does, written from its contract: the same requests, the same rules of success."""
import io
import json
import os
import tarfile
import time
import urllib.error
import urllib.parse
import urllib.request


class NoxError(Exception):
    pass


class NoxHTTPError(NoxError):
    def __init__(self, status_code, message, response_body=""):
        self.status_code = status_code
        self.message = message
        self.response_body = response_body
        super().__init__(f"HTTP {status_code}: {message}" + (f"\nResponse: {response_body}" if response_body else ""))


class NoxClient:
    def __init__(self, base_url="http://127.0.0.1:8080", timeout=30):
        self.base_url = base_url.rstrip("/")
        self.timeout = timeout

    def _ask(self, method, path, body=None, content_type=None):
        """(status, bytes) of any 2xx."""
        headers = {"Content-Type": content_type} if content_type else {}
        request = urllib.request.Request(self.base_url + path, data=body, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            raise NoxHTTPError(error.code, str(error), error.read().decode("utf-8", errors="replace")) from error
        except urllib.error.URLError as error:
            raise NoxError(f"Network error: {error.reason}") from error
        except Exception as error:
            raise NoxError(f"Unexpected error: {error}") from error

    def _ask_json(self, method, path, body):
        _, answer = self._ask(method, path, json.dumps(body).encode("ascii"), "application/json")
        if not answer:
            return {}
        try:
            return json.loads(answer.decode("utf-8"))
        except json.JSONDecodeError as error:
            raise NoxError(f"Invalid JSON response: {error}") from error

    def health_check(self):
        try:
            status, body = self._ask("GET", "/healthz")
        except NoxError:
            return False
        return status == 200 and b"OK" in body

    def create_sandbox(self, session_id, ttl_seconds=900, image=None, cpu_limit=None, memory_limit=None, ephemeral_storage_limit=None):
        body = {"ttlSeconds": ttl_seconds}
        for name, value in (("image", image), ("cpuLimit", cpu_limit), ("memoryLimit", memory_limit), ("ephemeralStorageLimit", ephemeral_storage_limit)):
            if value:
                body[name] = value
        return self._ask_json("PUT", f"/v1/sandboxes/{session_id}", body)

    def touch(self, session_id):
        return self._ask("POST", f"/v1/sandboxes/{session_id}/touch", b"")[0] == 200

    def exec(self, session_id, cmd, workdir="/workspace", env=None, timeout_seconds=30):
        body = {"cmd": cmd, "workdir": workdir, "timeoutSeconds": timeout_seconds}
        if env:
            body["env"] = env
        return self._ask_json("POST", f"/v1/sandboxes/{session_id}/exec", body)

    def exec_shell(self, session_id, command, workdir="/workspace", env=None, timeout_seconds=30, shell="sh"):
        if shell not in ("sh", "bash"):
            raise ValueError("shell must be 'sh' or 'bash'")
        return self.exec(session_id, [shell, "-c", command], workdir, env, timeout_seconds)

    @staticmethod
    def create_tar(files):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
            for name, content in files.items():
                content = content.encode("utf-8") if isinstance(content, str) else content
                info = tarfile.TarInfo(name=name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        return buffer.getvalue()

    def upload_files(self, session_id, files, dest="/workspace"):
        query = urllib.parse.urlencode({"dest": dest})
        return self._ask("POST", f"/v1/sandboxes/{session_id}/files/upload?{query}", self.create_tar(files), "application/x-tar")[0] == 200

    def download_files(self, session_id, src="/workspace"):
        return self._ask("GET", f"/v1/sandboxes/{session_id}/files/download?{urllib.parse.urlencode({'src': src})}")[1]

    def download_workspace(self, session_id, local_dir, src="/workspace"):
        data = self.download_files(session_id, src)
        os.makedirs(local_dir, exist_ok=True)
        if not data:
            return False
        written = 0
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:*") as archive:
            for info in archive.getmembers():
                if info.isdir() or info.name.startswith("/") or ".." in info.name.split("/"):
                    continue
                if (info.issym() or info.islnk()) and (info.linkname.startswith("/") or ".." in info.linkname.split("/")):
                    continue
                archive.extract(info, local_dir)
                written += 1
        return written > 0

    def delete_sandbox(self, session_id):
        return self._ask("DELETE", f"/v1/sandboxes/{session_id}")[0] in (200, 204)

    def wait_for_pod_ready(self, session_id, timeout=30, interval=2):
        deadline = time.time() + timeout
        self.probes = 0
        while time.time() < deadline:
            self.probes += 1
            try:
                if self.exec(session_id, ["echo", "ready"], timeout_seconds=5).get("stdout", "").strip() == "ready":
                    return True
            except Exception:
                pass
            time.sleep(interval)
        return False
