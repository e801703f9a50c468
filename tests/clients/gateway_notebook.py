"""nbclient runs a notebook in kernels behind a gateway, as jupyter_server's own kernel manager reaches them. Prints the outputs as JSON.
gateway_notebook.py URL"""
import json
import sys

import nbformat
from jupyter_server.gateway.gateway_client import GatewayClient
from jupyter_server.gateway.managers import GatewayKernelManager
from nbclient import NotebookClient

GatewayClient.instance().url = sys.argv[1]
cells = ["print(6*7)", "x = 5", "x + 1", "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()", "for i in range(20000): print(i)", "1/0"]
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
client = NotebookClient(book, timeout=60, kernel_name="python3", kernel_manager_class=GatewayKernelManager, allow_errors=True)
client.execute()
print(json.dumps([cell["outputs"] for cell in book["cells"]]))
