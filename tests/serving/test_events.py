"""Server-sent events."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator

import httpx
from fastapi import FastAPI, Request
from starlette.responses import StreamingResponse

from dgpnet.serving import Access, Guard, Hub, explain, serving
from dgpnet.serving import events as events_module


def parsed(text: bytes) -> list[tuple[str, dict[str, object]]]:
    """(id, event) of each in a stream."""
    found = []
    for block in text.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in fields:
            found.append((fields["id"], json.loads(fields["data"])))
    return found


async def heard(stream: AsyncIterator[bytes], count: int) -> list[tuple[str, dict[str, object]]]:
    found: list[tuple[str, dict[str, object]]] = []
    while len(found) < count:
        found += parsed(await asyncio.wait_for(anext(stream), 5))
    return found


def test_everybody_hears_what_is_sent_from_any_thread() -> None:
    async def listen() -> None:
        hub = Hub()
        streams = [hub.stream() for _ in range(3)]
        for one in streams:
            ((_, hello),) = await heard(one, 1)
            assert hello["type"] == "hello" and hello["boot"]
        threading.Thread(target=lambda: [hub.send({"type": "job", "n": n}) for n in range(5)]).start()
        for one in streams:
            assert [event["n"] for _, event in await heard(one, 5)] == list(range(5))
            await one.aclose()
        assert hub.listeners == 0

    asyncio.run(listen())


def test_who_was_away_hears_what_was_missed() -> None:
    async def listen() -> None:
        hub = Hub()
        first = hub.stream()
        await heard(first, 1)
        hub.send({"type": "a"})
        ((name, _),) = await heard(first, 1)
        await first.aclose()
        hub.send({"type": "b"})
        again = hub.stream(name)
        assert [event["type"] for _, event in await heard(again, 2)] == ["hello", "b"]
        await again.aclose()

    asyncio.run(listen())


def test_who_was_away_too_long_or_listened_to_another_run_is_told_to_reload() -> None:
    async def listen() -> None:
        hub = Hub(kept=3)
        for last in ("feedbeef-1", "nonsense", "-", "x" * 10_000):
            stream = hub.stream(last, revision=7)
            (_, hello), (_, event) = await heard(stream, 2)
            assert hello["revision"] == 7 and event["type"] == "reload"
            await stream.aclose()
        slow = hub.stream()
        await heard(slow, 1)
        for n in range(10):
            hub.send({"type": "job", "n": n})
        ((name, event),) = await heard(slow, 1)
        assert event["type"] == "reload" and len(hub._events) == 3
        hub.send({"type": "last"})
        assert (await heard(slow, 1))[0][1]["type"] == "last"
        await slow.aclose()
        back = hub.stream(name)
        assert [event["type"] for _, event in await heard(back, 2)] == ["hello", "last"]
        await back.aclose()

    asyncio.run(listen())


def test_it_is_told_when_a_listener_has_gone() -> None:
    async def listen() -> None:
        hub, gone = Hub(), []
        stream = hub.stream(gone=lambda: gone.append(1))
        await heard(stream, 1)
        assert not gone
        await stream.aclose()
        assert gone == [1]

    asyncio.run(listen())


def test_a_quiet_stream_is_kept_alive_and_ends_with_the_server(monkeypatch) -> None:
    monkeypatch.setattr(events_module, "HEARTBEAT", 0.05)

    async def listen() -> None:
        hub = Hub()
        stream = hub.stream()
        await heard(stream, 1)
        assert (await anext(stream)).startswith(b":")
        hub.close()
        assert [one async for one in stream] == []

    asyncio.run(listen())


def test_listeners_come_through_http_are_counted_and_let_go() -> None:
    hub, app = Hub(most=2), FastAPI(openapi_url=None)
    explain(app)

    @app.get("/events")
    async def events(request: Request) -> StreamingResponse:
        return hub.response(request)

    with (
        serving(Guard(app, Access.of("127.0.0.1")), stop=[hub.close]) as address,
        httpx.Client(base_url=address, timeout=10) as client,
        client.stream("GET", "/events") as one,
        client.stream("GET", "/events") as other,
    ):
        lines = [stream.iter_lines() for stream in (one, other)]
        for line in lines:
            assert any("hello" in next(line) for _ in range(4))
        assert client.get("/events").status_code == 503
        hub.send({"type": "job"})
        for line in lines:
            assert any("job" in next(line) for _ in range(4))
