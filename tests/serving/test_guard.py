"""The door, through real connections."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI, Request
from pydantic import BaseModel

from dgpnet.errors import Error
from dgpnet.serving import Access, Guard, Limits, Problem, explain, serving
from dgpnet.serving import running as running_module

TOKEN = "open-sesame-123"


class Stroke(BaseModel):
    x: int


def application() -> FastAPI:
    app = FastAPI(openapi_url=None)
    explain(app)

    @app.get("/")
    def home() -> dict[str, str]:
        return {"hello": "there"}

    @app.get("/health")
    def health() -> dict[str, str]:
        return {"status": "up"}

    @app.get("/wrong")
    def wrong() -> None:
        raise Error("The photograph is upside down; turn it.")

    @app.get("/conflict")
    def conflict() -> None:
        raise Problem(409, "It is there already.", place=3)

    @app.get("/broken")
    def broken() -> None:
        raise RuntimeError("secret of the house")

    @app.post("/stroke")
    def stroke(stroke: Stroke) -> dict[str, int]:
        return {"x": stroke.x}

    @app.post("/upload")
    async def upload(request: Request) -> dict[str, int]:
        size = 0
        async for part in request.stream():
            size += len(part)
        return {"size": size}

    return app


@contextmanager
def guarded(access: Access | None = None, limits: Limits | None = None) -> Iterator[httpx.Client]:
    guard = Guard(application(), access or Access.of("127.0.0.1"), limits, public=["/health"])
    with serving(guard) as address, httpx.Client(base_url=address, timeout=20) as client:
        yield client


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with guarded(limits=Limits(body=lambda method, path: 100_000)) as client:
        yield client


def problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert body["status"] == status and body["title"] and body["detail"].endswith(".") and body["type"]
    return body


def raw(client: httpx.Client, *lines: str, body: bytes = b"") -> socket.socket:
    """A connection on which this much of a request was sent."""
    place = urlsplit(str(client.base_url))
    connection = socket.create_connection((place.hostname or "", place.port or 0), timeout=10)
    connection.sendall("".join(f"{line}\r\n" for line in lines).encode() + body)
    return connection


def test_every_answer_says_what_a_page_may_do(client: httpx.Client) -> None:
    for path in ("/", "/nowhere", "/wrong", "/broken"):
        headers = client.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers and "server" not in headers
        assert headers["server-timing"].startswith("total;dur=")


def test_errors_are_problem_json(client: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    assert problem(client.get("/wrong"), 400)["detail"] == "The photograph is upside down; turn it."
    assert problem(client.get("/conflict"), 409)["place"] == 3
    assert problem(client.get("/nowhere"), 404)
    assert problem(client.delete("/"), 405)
    assert "body.x" in problem(client.post("/stroke", json={"x": "one"}), 422)["detail"]
    problem(client.post("/stroke", content=b"{", headers={"content-type": "application/json"}), 422)
    broken = client.get("/broken")
    assert "secret" not in broken.text
    problem(broken, 500)
    assert client.get("/").status_code == 200, "one request's crash harms no other"


def test_rebinding_is_refused(client: httpx.Client) -> None:
    problem(client.get("/", headers={"host": "evil.example"}), 403)
    problem(client.post("/stroke", json={"x": 1}, headers={"origin": "http://evil.example"}), 403)
    page = client.get("/", headers={"host": "evil.example", "accept": "text/html"})
    assert page.status_code == 403 and page.text.startswith("<!doctype html>")


def test_a_body_that_says_it_is_too_large_is_not_read(client: httpx.Client) -> None:
    with raw(client, "POST /upload HTTP/1.1", "Host: localhost", "Content-Length: 100001", "") as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 413")
    assert problem(client.post("/upload", content=b"x" * 100_001), 413)["limit"] == 100_000
    assert client.post("/upload", content=b"x" * 100_000).json() == {"size": 100_000}


def test_a_body_without_length_is_cut_off_where_it_is_too_large(client: httpx.Client) -> None:
    sent = []

    def endless() -> Iterator[bytes]:
        for _ in range(1000):
            sent.append(1)
            yield b"x" * 10_000

    with suppress(httpx.TransportError):  # cut off before the answer was read
        problem(client.post("/upload", content=endless()), 413)
    assert client.get("/").status_code == 200


def test_a_body_that_breaks_off_harms_nobody(client: httpx.Client) -> None:
    for _ in range(3):
        raw(client, "POST /upload HTTP/1.1", "Host: localhost", "Content-Length: 9", "", body=b"abc").close()
        raw(
            client, "POST /upload HTTP/1.1", "Host: localhost", "Transfer-Encoding: chunked", "", body=b"5\r\nab"
        ).close()
    with raw(client, "nonsense", "") as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 400")
    assert client.get("/").status_code == 200


def test_a_slow_body_is_given_up() -> None:
    with guarded(limits=Limits(patience=0.5, pace=1000)) as client:
        with raw(client, "POST /upload HTTP/1.1", "Host: localhost", "Content-Length: 900", "") as connection:
            start = time.monotonic()
            answer = b""
            while not answer and time.monotonic() - start < 5:
                connection.sendall(b"x")
                connection.settimeout(0.1)
                with suppress(TimeoutError):
                    answer = connection.recv(1000)
            assert answer.startswith(b"HTTP/1.1 408")
            assert time.monotonic() - start < 3
        assert client.get("/").status_code == 200


def test_a_head_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_module, "HEAD", 0.5)
    with guarded() as client, raw(client, "GET / HTTP/1.1", "Host: localhost") as connection:
        connection.settimeout(10)
        with suppress(ConnectionError):  # closed while another line was on its way
            for _ in range(3):
                time.sleep(0.1)
                connection.sendall(b"X-More: 1\r\n")
            assert connection.recv(100) == b"", "closed without an answer"


def test_too_many_requests_at_once_are_told_to_come_again() -> None:
    with guarded(limits=Limits(open=1)) as client:
        with raw(client, "POST /upload HTTP/1.1", "Host: localhost", "Content-Length: 9", "", body=b"a") as slow:
            end = time.monotonic() + 10
            while (answer := client.get("/")).status_code == 200 and time.monotonic() < end:
                pass  # the slow one has not arrived yet
            problem(answer, 503)
            assert answer.headers["retry-after"] == "1"
            slow.sendall(b"b" * 8)
            assert slow.recv(100).startswith(b"HTTP/1.1 200")
        assert client.get("/").status_code == 200


def test_a_token_in_the_address_becomes_a_cookie() -> None:
    access = Access.of("0.0.0.0", TOKEN)
    with guarded(access) as client:
        assert problem(client.get("/"), 401)
        assert client.get("/health").status_code == 200
        assert client.get("/?token=wrong-wrong-wrong").status_code == 401
        answer = client.get(f"//evil.example/..?token={TOKEN}&a=b%20c")
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/") and not answer.headers["location"].startswith("//")
        assert answer.headers["location"].endswith("?a=b+c")
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie and "samesite=lax" in cookie
        assert client.get("/").json() == {"hello": "there"}
        client.cookies.clear()
        assert client.get("/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
        assert client.post(f"/stroke?token={TOKEN}", json={"x": 1}).status_code == 401, "an address is no password"


def test_validation_repeats_nothing_that_was_sent(client: httpx.Client) -> None:
    answer = client.post("/stroke", json={"x": "<script>" * 1000})
    assert "<script>" not in answer.text and len(json.dumps(answer.json())) < 1000
