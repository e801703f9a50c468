"""What the reference's own tests check (section 13), as its clients do it: time limits are theirs, and given to the server."""
import json
import uuid

import pytest
from interpreter import ask, fetch, keep, run


def needs(*modules):
    import subprocess
    for module in modules:
        if subprocess.run(["/usr/bin/python3", "-c", f"import {module}"], capture_output=True).returncode != 0:
            pytest.skip(f"this host's Python has no {module}")


def test_health(server):
    assert server.get("/health").json == {"status": "ok"}


def test_printing(server):
    answer = server.post("/v1/execute", {"code": "print('hello')", "stdin": None, "timeout_ms": 1000})
    result = answer.json
    assert (answer.status, result["stdout"], result["stderr"], result["exit_code"], result["timed_out"]) == (200, "hello\n", "", 0, False)
    assert isinstance(result["duration_ms"], int) and result["duration_ms"] >= 0 and isinstance(result["files"], list)


def test_an_uploaded_file_is_edited(server):
    file_id = keep(server, "first\n", "notes.txt")
    result = run(server, "with open('notes.txt', 'a') as f:\n    f.write('second\\n')", timeout_ms=2000, files=[{"path": "notes.txt", "file_id": file_id}])
    [entry] = result["files"]
    assert (entry["path"], entry["kind"]) == ("notes.txt", "file") and isinstance(entry["file_id"], str) and entry["file_id"] != file_id
    assert fetch(server, entry["file_id"]) == b"first\nsecond\n"


def test_a_plot(server):
    needs("matplotlib", "numpy")
    code = "import matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt\nimport numpy as np\nx = np.linspace(0, 6.28, 200)\nplt.plot(x, np.sin(x))\nplt.savefig('sine.png')\nprint('saved')"
    result = run(server, code, timeout_ms=60000)
    assert (result["stdout"], result["stderr"], result["exit_code"]) == ("saved\n", "", 0), result
    [entry] = result["files"]
    image = fetch(server, entry["file_id"])
    assert entry["path"] == "sine.png" and image.startswith(b"\x89PNG\r\n\x1a\n") and len(image) > 1000


def test_three_files(server):
    result = run(server, "for n in 'abc':\n    open(f'{n}.txt', 'w').write(n * 3)")
    assert {entry["path"]: fetch(server, entry["file_id"]) for entry in result["files"]} == {"a.txt": b"aaa", "b.txt": b"bbb", "c.txt": b"ccc"}


def test_a_subdirectory_that_is_read_and_not_changed(server):
    result = run(server, "print(open('data/in.csv').read())", files=[{"path": "data/in.csv", "file_id": keep(server, "a,b")}])
    assert (result["stdout"], result["files"]) == ("a,b\n", [])


def test_a_new_file_in_a_new_directory(server):
    result = run(server, "import os\nos.makedirs('outputs')\nwith open('outputs/r.txt', 'w') as f:\n    f.write('ok')")
    [entry] = result["files"]
    assert entry["path"] == "outputs/r.txt" and fetch(server, entry["file_id"]) == b"ok"


def test_two_staged_files(server):
    result = run(server, "print(open('a').read() + open('b').read())", files=[{"path": "a", "file_id": keep(server, "1")}, {"path": "b", "file_id": keep(server, "2")}])
    assert result["stdout"] == "12\n"


def test_an_unknown_file(server):
    answer = ask(server, "1", files=[{"path": "a", "file_id": str(uuid.uuid4())}])
    assert answer.status == 404 and "not found" in answer.json["detail"]


def test_a_path_that_leads_out(server):
    answer = ask(server, "1", files=[{"path": "../escape.txt", "file_id": keep(server, "x")}])
    assert answer.status == 422 and isinstance(answer.json["detail"], str) and "File paths" in answer.json["detail"]


def test_a_workbook(server, tmp_path):
    needs("openpyxl")
    make = "import openpyxl, sys\nbook = openpyxl.Workbook()\nsheet = book.active\nsheet.append([f'c{n}' for n in range(16)])\nfor row in range(700): sheet.append([row * n for n in range(16)])\nbook.save(sys.argv[1])"
    import subprocess
    file = tmp_path / "book.xlsx"
    subprocess.run(["/usr/bin/python3", "-c", make, str(file)], check=True)
    code = "import openpyxl\nsheet = openpyxl.load_workbook('book.xlsx').active\nprint(sheet.max_row, sheet.max_column, sum(v for row in sheet.iter_rows(min_row=2, values_only=True) for v in row))"
    result = run(server, code, timeout_ms=60000, files=[{"path": "book.xlsx", "file_id": keep(server, file.read_bytes(), "book.xlsx")}])
    assert (result["stdout"], result["stderr"]) == (f"701 16 {sum(row * n for row in range(700) for n in range(16))}\n", "")


def test_numbers_and_a_plot_together(server):
    needs("numpy", "pandas", "matplotlib")
    code = "import json, numpy as np, pandas as pd, matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt\nf = pd.DataFrame({'x': np.arange(5), 'y': np.arange(5) ** 2})\nf.plot(x='x', y='y')\nplt.savefig('p.png')\nprint(json.dumps({'sum': int(f.y.sum()), 'mean': float(f.x.mean())}))"
    result = run(server, code, timeout_ms=60000)
    assert (json.loads(result["stdout"]), result["stderr"], [entry["path"] for entry in result["files"]]) == ({"sum": 30, "mean": 2.0}, "", ["p.png"])
