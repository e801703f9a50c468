"""`cove run` with a way out: an egress process of its own for as long as the run."""
import pathlib

import pytest
from conftest import cove, wait_until
from names import NameServer
from web import Web


@pytest.fixture(scope="module")
def web():
    with Web() as web:
        yield web


@pytest.fixture(scope="module")
def names():
    with NameServer(ok_test=["127.0.0.1"], other_test=["127.0.0.1"]) as names:
        yield names


def egress_processes():
    def name(process):
        try:
            return (process / "comm").read_text().strip()
        except OSError:
            return ""
    return {process.name for process in pathlib.Path("/proc").glob("[0-9]*") if name(process) == "cove-egress"}


def test_what_is_allowed_is_reached_and_nothing_stays(web, names):
    before = egress_processes()
    run = cove("run", "--resolver", names.address, "--net", "allow", "--allow", f"ok.test:{web.port}", "--allow", "127.0.0.1", "--", "curl", "-sS", f"http://ok.test:{web.port}/")
    assert (run.status, run.out) == (0, "hello"), run.err
    assert wait_until(lambda: egress_processes() <= before)


def test_what_is_not_is_refused_at_once_and_named(web, names):
    run = cove("run", "--resolver", names.address, "--allow", f"ok.test:{web.port}", "-c", f"import socket; socket.create_connection(('other.test', {web.port}))")
    assert run.status == 1 and "Network is unreachable" in run.err, run.err
    assert "cove: the network policy (mode allow) refused other.test" in run.err and "--allow" in run.err
    assert names.asked.count("other.test") == 0


def test_json_tells_the_mode_and_what_was_refused(names):
    run = cove("run", "--json", "--resolver", names.address, "--net", "public", "--deny", "other.test", "--", "curl", "-s", "http://other.test/")
    assert run.result["isolation"]["network"] == "public" and run.result["refused"] == ["other.test"], run.result
    plain = cove("run", "--json", "--", "true").result
    assert plain["isolation"]["network"] == "none" and "refused" not in plain


def test_private_addresses_must_be_listed(web, names):
    run = cove("run", "--json", "--resolver", names.address, "--net", "public", "--", "curl", "-s", "-m", "10", f"http://ok.test:{web.port}/")
    assert run.result["exit_code"] != 0 and run.result["refused"] == [f"ok.test:{web.port}"], run.result


@pytest.mark.parametrize("arguments, words", [
    (["--net", "host"], "must be none, allow or public"),
    (["--allow", "*"], "--allow *"),
    (["--net", "none", "--allow", "ok.test"], "contradicts"),
    (["--allow", "ok.test", "--resolver", "nonsense"], "--resolver"),
])
def test_what_is_wrong_is_named(arguments, words):
    run = cove("run", *arguments, "--", "true")
    assert run.status == 125 and words in run.err, run.err
