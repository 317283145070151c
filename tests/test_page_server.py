"""The live page over HTTP, the command that starts it, and the page as files."""

from __future__ import annotations

import asyncio
import base64
import errno
import gzip
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import psutil
import pytest

from assocmem.cli import run
from assocmem.contract.errors import InputError
from assocmem.page import STATIC, data, export, server
from assocmem.page.declare import FILE
from assocmem.report.export import make_bundle
from browsing import live_page

pytest.importorskip("httpx2", reason="starlette's test client needs httpx2")
testclient = pytest.importorskip("starlette.testclient")

FEW = ("head", "glyphs", "bars/outer/64/1/0", "bars/softmax/64/1/0/8", "hand/softmax/1", "streams/mamba-2/0.9/1")


@pytest.fixture(scope="module")
def client():
    return testclient.TestClient(server.application(), base_url="http://localhost")


@pytest.mark.parametrize("path", [*FEW, "offer", "stores", "mlp", "curves/64/8"])
def test_an_answer_is_the_document_at_its_path(client, path):
    answer = client.get(f"/data/{path}.json")
    assert answer.status_code == 200
    assert answer.text == data.document(path)
    assert answer.headers["content-type"].startswith("application/json")
    again = client.get(f"/data/{path}.json", headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304
    assert not again.content


def test_every_answer_carries_a_strict_policy(client):
    for path in ("/", "/js/app.js", "/vendor/micropython.wasm", "/data/head.json", "/data/nothing.json", "/nothing"):
        headers = client.get(path).headers
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == "'self' 'wasm-unsafe-eval'"
        assert "unsafe-eval" not in policy["script-src"].replace("wasm-unsafe-eval", "")
        assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/", "text/html"), ("/js/app.js", "text/javascript"), ("/vendor/micropython.mjs", "text/javascript"),
     ("/vendor/micropython.wasm", "application/wasm"), ("/style.css", "text/css")],
)  # fmt: skip
def test_files_have_their_types(client, path, kind):
    assert client.get(path).headers["content-type"].startswith(kind)


@pytest.mark.parametrize(
    "path", ["nothing", "bars/outer/64/1/100", "bars/softmax/64/1/0", "hand/relu/0", "bars/<b>/64/1/0"]
)
def test_nonsense_gets_404_and_a_sentence(client, path):
    answer = client.get(f"/data/{path}.json")
    assert answer.status_code == 404
    assert answer.json()["error"].endswith(".")


@pytest.mark.parametrize(
    "path", ["/../pyproject.toml", "/..%2f..%2fdata.py", "/js/../../data.py", "/%2e%2e/server.py", "/data/../offer"]
)
def test_nothing_beside_the_page_is_served(client, path):
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1"])
def test_a_foreign_host_gets_400(client, host):
    assert client.get("/", headers={"Host": host}).status_code == 400
    assert client.get("/data/head.json", headers={"Host": host}).status_code == 400


@pytest.mark.parametrize("host", ["localhost:8765", "127.0.0.1:1234"])
def test_this_machine_is_answered(client, host):
    assert client.get("/data/head.json", headers={"Host": host}).status_code == 200


def test_only_reading_is_allowed(client):
    for path in ("/", "/data/head.json", "/js/app.js"):
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert client.request(method, path, content="import os").status_code == 405
    assert client.head("/data/head.json").status_code == 200


def test_the_page_names_no_other_host():
    for file in [STATIC / "index.html", STATIC / "style.css", *(STATIC / "js").glob("*.js")]:
        assert not re.search(r"(?:https?:)?//[\w-]+\.\w", file.read_text(encoding="utf-8").replace("// ", "")), (
            file.name
        )


def test_what_is_shipped_has_its_licence_and_is_what_vl_convert_makes():
    vendor = STATIC / "vendor"
    for name, word in (("katex", "MIT"), ("micropython", "MIT"), ("vega", "University of Washington")):
        assert word in (vendor / f"{name}.LICENSE").read_text(encoding="utf-8")
    bundle = (vendor / "vega.js").read_text(encoding="utf-8")
    assert "vegaEmbed" in bundle
    assert len(bundle) < 1_500_000
    import vl_convert

    if vl_convert.__version__.startswith("1.9.0"):
        assert bundle == make_bundle()


@pytest.fixture(scope="module")
def process():
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "assocmem", "explore", "--no-browser", "--port", "0"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=settings)
    yield running
    running.kill()
    running.communicate()


def test_the_command_prints_its_address_answers_and_stops_on_ctrl_c(process):
    line = process.stdout.readline()
    port = int(re.search(r"http://localhost:(\d+)/", line)[1])
    request = f"GET /data/mlp.json HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n"
    deadline, answer = time.monotonic() + 20, b""
    while not answer and time.monotonic() < deadline:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as wire:
            wire.sendall(request.encode())
            while part := wire.recv(65536):
                answer += part
    assert b"200 OK" in answer
    assert data.document("mlp").encode() in answer
    with socket.create_connection(("127.0.0.1", port), timeout=10) as wire:  # a long answer, still on its way
        wire.sendall(request.replace("mlp", "optimal/128").encode())
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=15)
    assert process.returncode in (0, 130)
    assert "stopped" in out
    assert err == ""


def test_a_taken_port_is_a_sentence(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert run(["explore", "--no-browser", "--port", str(taken.getsockname()[1])]) == 2
    error = capsys.readouterr().err
    assert "is not free" in error
    assert "--port 0" in error


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_a_port_out_of_range_is_a_sentence(capsys, port):
    assert run(["explore", "--no-browser", "--port", port]) == 2
    assert "0..65535" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # multi-threaded process forks: not ours to judge
def test_the_static_site_holds_the_servers_answers(tmp_path, client, capsys):
    site = export.export_site(tmp_path / "new" / "site", FEW, 1)
    assert "index.html" in capsys.readouterr().out
    for path in FEW:
        assert (site / "data" / f"{path}.json").read_text(encoding="utf-8") == client.get(f"/data/{path}.json").text
    offer = json.loads((site / "data" / "offer.json").read_text(encoding="utf-8"))
    assert offer["controls"]["draw"]["values"] == [0, 1]
    assert "in place of 2" in offer["note"]
    for file in STATIC.rglob("*.*"):
        assert (site / file.relative_to(STATIC)).read_bytes() == file.read_bytes()
    with pytest.raises(InputError, match="holds something already"):
        export.export_site(site, FEW, 1)


def test_an_export_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(InputError):
        export.export_site(tmp_path / "site", chosen=["head", "nothing"], workers=1)
    assert list(tmp_path.iterdir()) == []


def test_an_export_needs_a_place(tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    assert run(["explore", "--export", str(tmp_path / "file")]) == 2
    assert run(["explore", "--export", str(tmp_path / "no" / "page.html")]) == 2
    assert capsys.readouterr().err.count("assocmem: ") == 2


def test_the_single_file_holds_the_same_documents_and_names_no_file(tmp_path):
    path = export.export_file(tmp_path / "page.html", chosen=FEW, workers=1)
    page = path.read_text(encoding="utf-8")
    packed = re.search(r'<script type="text/plain" id="assocmem-data">([^<]*)</script>', page)[1]
    inside = json.loads(gzip.decompress(base64.b64decode(packed)))
    assert set(inside["data"]) == {"offer", *FEW}
    for name in FEW:
        assert inside["data"][name] == json.loads(data.document(name))
    assert base64.b64decode(inside["assets"]["vendor/micropython.wasm"])[:4] == b"\0asm"
    assert not re.search(r'(?:src|href)="(?!#|data:)[^"]+"', page.split("<script", 1)[0])
    assert inside["data"]["offer"]["controls"]["width"]["values"] == [32, 64]


@pytest.mark.slow
def test_the_whole_single_file_is_small_enough(tmp_path):
    """From every eighth document: shared gzip makes that 3 to 8 % more than the whole file."""
    whole = list(data.paths(FILE))
    part = export.export_file(tmp_path / "page.html", whole[::8], workers=1).stat().st_size
    bare = export.export_file(tmp_path / "bare.html", [], workers=1).stat().st_size
    assert bare < part
    assert bare + (part - bare) * len(whole) / len(whole[::8]) < 8e6


class Site:
    """A live page whose answers are counted, and asked for from many threads."""

    def __init__(self, where):
        self.port = int(re.search(r":(\d+)/", where)[1])

    def get(self, path):
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as wire:
            wire.request("GET", f"/data/{path}.json", headers={"Host": "localhost"})
            answer = wire.getresponse()
            return answer.status, answer.read()


def test_an_answer_is_computed_once_and_one_that_is_kept_waits_for_none(monkeypatch):
    computed, going = [], threading.Event()
    real = data.document

    def document(path):
        computed.append(path)
        if path == "optimal/128":
            assert going.wait(30)
        return real(path)

    monkeypatch.setattr(server, "document", document)
    with live_page() as where, ThreadPoolExecutor(24) as many:
        site = Site(where)
        assert site.get("mlp")[0] == 200
        slow = [many.submit(site.get, "optimal/128") for _ in range(20)]
        while "optimal/128" not in computed:
            time.sleep(0.01)
        assert site.get("mlp") == (200, real("mlp").encode())  # while twenty wait for another
        assert not any(answer.done() for answer in slow)
        going.set()
        assert {answer.result() for answer in slow} == {(200, real("optimal/128").encode())}
        assert site.get("hand/nothing/0")[0] == site.get("hand/nothing/0")[0] == 404
    assert [computed.count(path) for path in ("mlp", "optimal/128", "hand/nothing/0")] == [1, 1, 2]


def test_no_more_answers_are_kept_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(server, "KEPT", 2)
    answers = server.Answers()
    for path in ("head", "mlp", "hand/softmax/0"):
        answers.keep(server.Answer(path))
    assert list(answers.kept) == ["mlp", "hand/softmax/0"]
    assert gzip.decompress(answers.kept["mlp"].packed) == answers.kept["mlp"].plain
    asyncio.run(answers.at("mlp"))  # asked for again, it is not the one that goes
    answers.keep(server.Answer("head"))
    assert list(answers.kept) == ["mlp", "head"]


def refused(target, capsys, monkeypatch):
    """Return the sentence with which `explore --export` refuses a target, nothing being computed."""
    monkeypatch.setattr(export, "document", lambda path: pytest.fail(f"{path} was computed"))
    assert run(["explore", "--export", str(target)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


@pytest.mark.parametrize("name", ["site", "page.html"])
def test_a_target_that_cannot_be_written_is_refused_before_anything_is_computed(name, tmp_path, capsys, monkeypatch):
    say = partial(refused, capsys=capsys, monkeypatch=monkeypatch)
    link, loop = tmp_path / f"link-{name}", tmp_path / f"loop-{name}"
    link.symlink_to(tmp_path / "nowhere" / name)
    loop.symlink_to(loop)
    for target in (link, loop):
        assert "it is a link that leads nowhere; choose another place." in say(target)
    (tmp_path / "file").write_text("x")
    assert "cannot write" in say(tmp_path / "file" / name)
    assert "cannot write" in say(tmp_path / ("x" * 300 + name))
    assert "cannot write" in say(Path("/proc") / "nowhere" / name)
    full = namedtuple("full", "free")(1e6)
    monkeypatch.setattr(export.shutil, "disk_usage", lambda _place: full)
    assert "MB, and 1 MB are free there; choose another place." in say(tmp_path / name)
    assert not list(tmp_path.glob(".*"))


def test_a_folder_is_not_called_like_another_kind_of_file(tmp_path, capsys, monkeypatch):
    told = refused(tmp_path / "page.txt", capsys, monkeypatch)
    assert told == f"assocmem: --export writes a folder, or one file that ends in .html; got {tmp_path / 'page.txt'}."


@pytest.mark.parametrize("name", ["site", "page.html"])
def test_a_disk_that_fills_up_is_one_sentence_and_leaves_nothing(name, tmp_path, capsys, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(export, "_put", full)
    monkeypatch.setattr(export, "write_whole", full)
    monkeypatch.setattr(export, "paths", lambda _copy: ["mlp"])
    assert run(["explore", "--export", str(tmp_path / name)]) == 2
    told = f"assocmem: cannot write {tmp_path / name}: No space left on device; choose another place."
    assert capsys.readouterr().err.splitlines()[-1] == told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["site", "page.html"])
def test_ctrl_c_stops_an_export_within_a_second_in_one_sentence(name, tmp_path):
    command = [sys.executable, "-m", "assocmem", "explore", "--export", str(tmp_path / name)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not psutil.Process(running.pid).children():  # until others compute
        assert running.poll() is None and time.monotonic() < deadline  # noqa: PT018
        time.sleep(0.05)
    time.sleep(1)
    began = time.monotonic()
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=30)
    took = time.monotonic() - began
    assert running.returncode == 130
    assert len(err.splitlines()) == 1, err
    assert list(tmp_path.iterdir()) == []
    assert took < 5  # seconds on a busy machine; one where it has a core to itself
