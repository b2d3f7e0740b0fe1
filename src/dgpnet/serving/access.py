"""Who may ask: only pages of our own on this machine, or whoever has the token."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from dgpnet.checks import shown
from dgpnet.errors import Error
from dgpnet.serving.problems import Problem

#: Names of this machine that no other can have.
LOOPBACK = ("localhost", "127.0.0.1", "::1")
#: What a token is made of, so that it can stand in an address and in a cookie.
TOKEN = re.compile(r"[A-Za-z0-9._~-]{12,200}")
#: The token that asks for one to be made up.
RANDOM = "random"
#: What browsers say of requests that another site's page makes.
ELSEWHERE = ("cross-site", "same-site")


@dataclass(frozen=True)
class Access:
    """What a request needs to be heard.

    hosts: names by which the server may be called, so that no page elsewhere reaches it by a name that it points here
    (DNS rebinding); None where the token is enough · token: what must come with every request, or None
    """

    hosts: frozenset[str] | None
    token: str | None = None

    @staticmethod
    def of(address: str, token: str | None = None, hosts: Iterable[str] = ()) -> Access:
        """For a server that listens at `address`: on this machine's own, anybody here; on others, with a token.

        token: "random" makes one up. hosts: further names by which the server may be called.
        """
        if token == RANDOM:
            token = secrets.token_urlsafe(24)
        if token is not None and not TOKEN.fullmatch(token):
            raise Error("A token has 12 to 200 letters, digits and . _ ~ -; choose another, or take `random`.")
        names = frozenset(name.lower() for name in hosts)
        if is_loopback(address):
            return Access(names | {*LOOPBACK, address.lower()}, token)
        if token is None:
            raise Error(
                f"At {shown(address)} others could reach this server; add --token (`random` makes one up), "
                "or leave it at 127.0.0.1."
            )
        return Access(names or None, token)

    @property
    def cookie(self) -> str:
        """What the cookie is called: another for each token, since cookies do not tell ports apart."""
        return f"dgpnet_{hashlib.sha256((self.token or '').encode()).hexdigest()[:12]}"

    def check_source(self, headers: Mapping[str, str]) -> None:
        """A Problem where the request goes to another name, or comes from another site's page."""
        host = headers.get("host", "")
        if self.hosts is not None and _name(host) not in self.hosts:
            raise Problem(
                403, f"This server is not called {shown(host)}; open it at the address that it printed when it started."
            )
        origin = headers.get("origin")
        if origin is not None and _place(origin) != host.lower():
            raise Problem(403, "This request comes from a page of another site, and is not heard.")
        if headers.get("sec-fetch-site") in ELSEWHERE and headers.get("sec-fetch-mode") != "navigate":
            raise Problem(403, "This request comes from a page of another site, and is not heard.")

    def admits(self, headers: Mapping[str, str]) -> bool:
        """Whether the request has the token: as a bearer's, as a password, or in the cookie."""
        if self.token is None:
            return True
        return any(self.is_token(given) for given in _given(headers, self.cookie))

    def is_token(self, given: str) -> bool:
        """Whether this is the token, in a time that does not tell how much of it is right."""
        return hmac.compare_digest(given.encode(), (self.token or "").encode())


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches this address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address.lower() == "localhost"


def _name(host: str) -> str:
    """The name in a Host header, without port and brackets; "" where it is none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower() if "/" not in host and "@" not in host else ""
    except ValueError:
        return ""


def _place(origin: str) -> str | None:
    """Name and port in an Origin header; None where it is none ("null")."""
    try:
        parts = urlsplit(origin)
        return parts.netloc.lower() if parts.scheme in ("http", "https") else None
    except ValueError:
        return None


def _given(headers: Mapping[str, str], cookie: str) -> Iterable[str]:
    scheme, _, rest = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        yield rest.strip()
    if scheme.lower() == "basic":
        yield _password(rest)
    try:
        held = SimpleCookie(headers.get("cookie", "")).get(cookie)
    except CookieError:
        held = None
    if held is not None:
        yield held.value


def _password(basic: str) -> str:
    """The password that HTTP's basic authentication sends; "" where it is none."""
    try:
        return base64.b64decode(basic, validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return ""
