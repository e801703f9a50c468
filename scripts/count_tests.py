"""Adds up JUnit files and prints the closing line. A test that is in several counts once, as the last of them has it."""
import sys
import xml.etree.ElementTree as ET

results = {}
for path in sys.argv[1:]:
    for case in ET.parse(path).getroot().iter("testcase"):
        # The leak check is part of every suite; tests of ctest have no file.
        own = path if "leaks" in case.get("classname", "") or not case.get("classname") else ""
        test = (own, case.get("classname"), case.get("name"))
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            results[test] = "failed"
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            results[test] = "skipped"
        else:
            results[test] = "passed"
counts = {result: list(results.values()).count(result) for result in ("passed", "failed", "skipped")}
print(f"{counts['passed']} passed, {counts['failed']} failed" + (f", {counts['skipped']} skipped" if counts["skipped"] else ""))
sys.exit(1 if counts["failed"] or not counts["passed"] else 0)
