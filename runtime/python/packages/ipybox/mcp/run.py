"""run_sync and run_async, as modules that ipybox generated call them."""
from cove.tools import arun_text, run_text


def run_sync(tool_name, params, server_params, connect_timeout=5):
    """The text of the result. A failure is an exception."""
    return run_text(tool_name, params, server_params)


async def run_async(tool_name, params, server_params, connect_timeout=5):
    return await arun_text(tool_name, params, server_params)
