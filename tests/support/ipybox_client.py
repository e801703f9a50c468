"""ExecutionClient as ipybox has it, from the contract: the same requests and frames, and the same rules for what came of them."""
import asyncio
import base64
import io
import uuid

import aiohttp


class ExecutionError(Exception):
    def __init__(self, message, trace):
        super().__init__(message)
        self.trace = trace


class ExecutionClient:
    def __init__(self, port, host="127.0.0.1"):
        self.base, self.sockets = f"http://{host}:{port}/api/kernels", f"ws://{host}:{port}/api/kernels"

    async def __aenter__(self):
        self.http = aiohttp.ClientSession()
        async with self.http.post(self.base, json={"name": "python"}) as answer:
            self.kernel = (await answer.json())["id"]
        self.socket = await self.http.ws_connect(f"{self.sockets}/{self.kernel}/channels", max_msg_size=10 << 20, heartbeat=10)
        await self.execute("\n            import sys\n            sys.path.append('/app')\n            ")
        return self

    async def __aexit__(self, *_):
        await self.socket.close()
        async with self.http.delete(f"{self.base}/{self.kernel}"):
            pass
        await self.http.close()

    async def execute(self, code, timeout=120):
        """(text or None, images)"""
        request = uuid.uuid4().hex
        await self.socket.send_json({
            "header": {"username": "", "version": "5.0", "session": "", "msg_id": request, "msg_type": "execute_request"}, "parent_header": {}, "channel": "shell",
            "content": {"code": code, "silent": False, "store_history": False, "user_expressions": {}, "allow_stdin": False}, "metadata": {}, "buffers": {}})
        try:
            return await asyncio.wait_for(self._collect(request), timeout)
        except asyncio.TimeoutError:
            async with self.http.post(f"{self.base}/{self.kernel}/interrupt", json={"kernel_id": self.kernel}):
                pass
            await asyncio.sleep(0.2)
            raise

    async def _collect(self, request):
        chunks, images, error = [], [], None
        while True:
            message = await self.socket.receive_json()
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                chunks.append(content["text"])
            elif kind in ("execute_result", "display_data"):
                chunks.append(content["data"]["text/plain"])
                if "image/png" in content["data"]:
                    from PIL import Image
                    images.append(Image.open(io.BytesIO(base64.b64decode(content["data"]["image/png"]))))
            elif kind == "error":
                error = content
            elif kind == "execute_reply":
                if content["status"] == "error":
                    failed = error or content
                    raise ExecutionError(f"{failed['ename']}: {failed['evalue']}", "\n".join(failed["traceback"]))
                return ("".join(chunks).strip() if chunks else None), images
