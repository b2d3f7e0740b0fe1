"""What the studio refuses: names that lead elsewhere, other sites' pages, too much, and who has no token."""

import socket
import time

import httpx
import pytest
from PIL import Image

from dgpnet.serving import Access, Guard, Limits, serving
from dgpnet.studio.api import application, limits


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/project.py",
        "/js/%2e%2e/%2e%2e/project.py",
        "/..%5c..%5cproject.py",
        "/api/v1/photographs/..%2f..%2f0.png/image",
        "/api/v1/photographs/%2e%2e/image",
        "/api/v1/photographs/0.png/image",
        "/api/v1/exports/%2e%2e%2fjournal/archive",
        "/%00",
    ],
)
def test_no_path_leads_out(client, path):
    host, port = client.base_url.host, client.base_url.port
    with socket.create_connection((host, port), 10) as one:
        one.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while part := one.recv(65536):
            answer += part
    assert answer.split(b" ", 2)[1] in (b"404", b"400", b"405"), answer[:200]
    assert b"root:" not in answer and b"class Project" not in answer


def test_a_link_out_of_the_folder_shows_nothing(client, folder, tmp_path):
    Image.new("RGB", (20, 20)).save(tmp_path / "secret.png")
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    client.post("scan", json={})
    one = next(each for each in client.get("photographs").json()["items"] if each["name"] == "link.png")
    assert one["state"] == "broken" and "outside" in one["problem"]
    for part in ("image", "thumbnail"):
        answer = client.get(f"photographs/{one['id']}/{part}")
        assert answer.status_code == 409 and answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"},
    ],
)
def test_pages_of_other_sites_are_not_heard(client, headers):
    for method, path in (("GET", "project"), ("POST", "classes")):
        assert client.request(method, path, headers=headers, json={"name": "x"}).status_code == 403
    assert client.get("classes").json() == []


def test_every_answer_says_what_the_page_may_do(client):
    page = client.get(str(client.base_url).removesuffix("/api/v1/") + "/")
    assert page.status_code == 200 and "text/html" in page.headers["content-type"]
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert "access-control-allow-origin" not in client.get("project", headers={"origin": "null"}).headers


def test_too_large_a_body_is_cut_off(client, ids):
    assert client.post("classes", content=b"x" * (2 << 20)).status_code == 413
    answer = client.post("classes", content=(b"x" * 65536 for _ in range(40)))  # without saying how long it is
    assert answer.status_code == 413
    assert client.get("project").status_code == 200


def test_a_body_that_never_ends_is_not_waited_for(studio):
    guard = Guard(application(studio), Access.of("127.0.0.1"), Limits(patience=0.3))
    with serving(guard, stop=[studio.hub.close]) as address:
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), 10) as one:
            head = f"POST /api/v1/classes HTTP/1.1\r\nHost: {host}:{port}\r\ncontent-type: application/json\r\n"
            one.sendall(f"{head}content-length: 50\r\n\r\n{{".encode())
            start = time.monotonic()
            assert b" 408 " in one.recv(4096)
            assert time.monotonic() - start < 5
        with socket.create_connection((host, int(port)), 10) as one:
            one.sendall(f"{head}content-length: 50\r\n\r\n{{".encode())  # and gone
        assert httpx.get(f"{address}/api/v1/classes").json() == []


def test_with_a_token_nobody_else_gets_in(studio):
    guard = Guard(application(studio), Access.of("127.0.0.1", "a-long-enough-token"), limits())
    with serving(guard, stop=[studio.hub.close]) as address, httpx.Client(base_url=address) as one:
        assert one.get("/api/v1/project").status_code == 401
        assert one.get("/").status_code == 401
        headers = {"authorization": "Bearer a-long-enough-token"}
        assert one.get("/api/v1/project", headers=headers).status_code == 200
        assert one.get("/?token=a-long-enough-token").status_code == 303
        assert one.get("/").status_code == 200, "the cookie is enough from now on"


def test_a_crash_harms_no_other_request(client, studio, monkeypatch):
    monkeypatch.setattr(studio.project, "scan", lambda: 1 / 0)
    answer = client.post("scan", json={})
    assert answer.status_code == 500 and "division" not in answer.text
    assert client.get("project").status_code == 200


def test_what_the_document_says_is_so(client):
    document = client.get("openapi.json").json()
    assert document["info"]["title"] == "dgpnet studio"
    paths = {path.removeprefix("/api/v1/") for path in document["paths"]}
    assert {"project", "photographs", "photographs/{id}/mask", "classes", "concept", "jobs", "exports"} <= paths
    described = [one for path in document["paths"].values() for one in path.values()]
    assert all(one.get("description") or one.get("summary") for one in described)
