"""Where servers listen, and how they stop."""

import signal
import subprocess
import sys
import time

import httpx
import pytest

from dgpnet.errors import Error
from dgpnet.serving import address, listen
from tests.children import environment

#: A server with a stream that never ends by itself.
PROGRAM = """
from fastapi import FastAPI, Request
from dgpnet.serving import *
app, hub, worker = FastAPI(), Hub(), Worker("model")
@app.get("/events")
async def events(request: Request):
    return hub.response(request)
place = listen("127.0.0.1", 0)
serve(Guard(app, Access.of("127.0.0.1")), place, ready=lambda: print(address(place), flush=True),
      stop=[hub.close, worker.close, lambda: print("closed", flush=True)])
print("ended", flush=True)
"""


def test_a_taken_port_is_told_with_the_next_free_one() -> None:
    with listen("127.0.0.1", 0) as place:
        port = place.getsockname()[1]
        with pytest.raises(Error, match=rf"Port {port} .* taken.*--port \d+"):
            listen("127.0.0.1", port)
        with listen("127.0.0.1", port, further=True) as other:
            assert port < other.getsockname()[1] <= port + 50


@pytest.mark.parametrize(("host", "port"), [("203.0.113.7", 0), ("no such host", 0), ("127.0.0.1", 70_000)])
def test_an_address_that_is_none_is_an_error(host: str, port: int) -> None:
    with pytest.raises(Error):
        listen(host, port)


def test_the_address_is_one_that_a_browser_opens() -> None:
    with listen("127.0.0.1", 0) as place:
        assert address(place) == f"http://localhost:{place.getsockname()[1]}/"
        assert address(place, "abc").endswith("/?token=abc")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_ends_in_good_order_though_somebody_listens(number: signal.Signals) -> None:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, env=environment())
    try:
        assert process.stdout is not None
        place = process.stdout.readline().strip()
        with httpx.stream("GET", f"{place}events", timeout=60) as stream:
            assert stream.status_code == 200
            start = time.monotonic()
            process.send_signal(number)
            for _ in stream.iter_lines():
                pass
            assert time.monotonic() - start < 4, "the stream is let go, not waited for"
        assert process.wait(60) == (0 if number == signal.SIGINT else -signal.SIGTERM)
        assert process.stdout.read().split()[0] == "closed"
    finally:
        process.kill()
        process.wait()
