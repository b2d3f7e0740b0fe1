"""A Hugging Face Hub on this machine: as much of its protocol as downloading and uploading a model takes."""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """repositories: files by "owner/name" and path; gated: names that nobody may read; sizes: what is told of files."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.revisions = {"main", "v1", COMMIT}
        self.gated: set[str] = set()
        self.sizes: dict[str, int] = {}
        self.stored: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.made: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def running() -> Iterator[Hub]:
    hub = Hub()
    thread = threading.Thread(target=hub.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        thread.join()
        hub.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        self.server.requests.append(f"{self.command} {self.path}")

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        match = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.path)
        if match is None:
            return self._refuse(404, "")
        repository, revision, path = match.groups()
        if repository in self.server.gated:
            return self._refuse(403, "GatedRepo")
        if repository not in self.server.repositories:
            return self._refuse(401, "RepoNotFound")
        if revision not in self.server.revisions:
            return self._refuse(404, "RevisionNotFound")
        content = self.server.repositories[repository].get(path)
        if content is None:
            return self._refuse(404, "EntryNotFound")
        return self._answer(content, size=self.server.sizes.get(path, len(content)))

    def do_PUT(self) -> None:
        self.server.stored[self.path.rpartition("/")[2]] = self._body()
        self._answer(b"")

    def do_POST(self) -> None:
        body = self._body()
        if self.path.endswith("/commit/main"):
            return self._commit(self.path.split("/")[3:5], [json.loads(line) for line in body.splitlines()])
        asked = json.loads(body)
        if self.path == "/api/repos/create":
            self.server.made.append(asked)
            name = f"{asked['organization']}/{asked['name']}"
            self.server.repositories.setdefault(name, {})
            return self._tell({"url": f"{self.server.url}/{name}"})
        if self.path == "/api/validate-yaml":
            return self._tell({"warnings": [], "errors": []})
        if self.path.endswith("/preupload/main"):
            modes = [
                ("lfs" if file["path"].endswith(".safetensors") else "regular", file["path"]) for file in asked["files"]
            ]
            return self._tell({"files": [{"path": p, "uploadMode": m, "shouldIgnore": False} for m, p in modes]})
        assert self.path.endswith(".git/info/lfs/objects/batch"), self.path
        objects = [
            {**one, "actions": {"upload": {"href": f"{self.server.url}/lfs/{one['oid']}"}}} for one in asked["objects"]
        ]
        return self._tell({"transfer": "basic", "objects": objects})

    def _commit(self, repository: list[str], lines: list[dict[str, Any]]) -> None:
        files = self.server.repositories["/".join(repository)]
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            if line["key"] == "lfsFile":
                files[value["path"]] = self.server.stored[value["oid"]]
        self._tell({"commitUrl": f"{self.server.url}/{'/'.join(repository)}/commit/{COMMIT}", "commitOid": COMMIT})

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _tell(self, answer: dict[str, Any]) -> None:
        self._answer(json.dumps(answer).encode())

    def _refuse(self, status: int, code: str) -> None:
        self._answer(b"", status=status, **{"X-Error-Code": code})

    def _answer(self, content: bytes, *, status: int = 200, size: int | None = None, **headers: str) -> None:
        self.send_response(status)
        etag = hashlib.sha256(content).hexdigest()
        told = {
            "X-Repo-Commit": COMMIT,
            "ETag": f'"{etag}"',
            "Content-Length": str(len(content) if size is None else size),
        }
        for key, value in (told | headers).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
