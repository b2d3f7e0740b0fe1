"""Who may ask."""

import base64

import pytest

from dgpnet.errors import Error
from dgpnet.serving import Access, Problem

HERE = Access.of("127.0.0.1")
ANYWHERE = Access.of("0.0.0.0", "open-sesame-123")


@pytest.mark.parametrize("host", ["localhost", "localhost:8765", "127.0.0.1:1", "[::1]:8765", "LOCALHOST:9"])
def test_this_machine_may_be_called_by_its_own_names(host: str) -> None:
    HERE.check_source({"host": host})


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8765", "localhost.evil.example", "127.0.0.1.nip.io", "", "a@localhost", "[::1"],
)
def test_a_name_that_points_here_is_refused(host: str) -> None:
    with pytest.raises(Problem) as caught:
        HERE.check_source({"host": host})
    assert caught.value.status_code == 403


def test_the_own_page_may_ask() -> None:
    HERE.check_source({"host": "localhost:8765", "origin": "http://localhost:8765", "sec-fetch-site": "same-origin"})
    HERE.check_source({"host": "localhost:8765", "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"})


@pytest.mark.parametrize("origin", ["http://evil.example", "http://localhost:9999", "null", "file://", "http://["])
def test_a_page_of_another_site_may_not(origin: str) -> None:
    with pytest.raises(Problem):
        HERE.check_source({"host": "localhost:8765", "origin": origin})


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_picture_may_not_be_shown_by_another_site(site: str) -> None:
    with pytest.raises(Problem):
        HERE.check_source({"host": "localhost:8765", "sec-fetch-site": site, "sec-fetch-mode": "no-cors"})


def test_another_address_needs_a_token() -> None:
    with pytest.raises(Error, match="--token"):
        Access.of("0.0.0.0")
    for address in ("127.0.0.1", "127.3.2.1", "::1", "localhost"):
        assert Access.of(address).token is None


@pytest.mark.parametrize("token", ["short", "has spaces in it", "semi;colon-in-it", "é" * 20, "x" * 201])
def test_a_token_can_stand_in_an_address_and_is_long(token: str) -> None:
    with pytest.raises(Error, match="12 to 200"):
        Access.of("0.0.0.0", token)


def test_a_random_token_is_another_each_time() -> None:
    one, other = (Access.of("0.0.0.0", "random").token for _ in range(2))
    assert one and other and one != other and len(one) > 20


def test_the_token_opens_as_bearer_password_and_cookie() -> None:
    token = ANYWHERE.token or ""
    basic = base64.b64encode(f"anybody:{token}".encode()).decode()
    for headers in (
        {"authorization": f"Bearer {token}"},
        {"authorization": f"basic {basic}"},
        {"cookie": f"other=1; {ANYWHERE.cookie}={token}"},
    ):
        assert ANYWHERE.admits(headers)
    for headers in (
        {},
        {"authorization": f"Bearer {token}x"},
        {"authorization": "Basic ####"},
        {"authorization": token},
        {"cookie": f"dgpnet={token}"},
        {"cookie": "=;;=é"},
        {"authorization": "Bearer é"},
    ):
        assert not ANYWHERE.admits(headers)


def test_with_a_token_the_name_does_not_matter() -> None:
    ANYWHERE.check_source({"host": "studio.example:80", "origin": "https://studio.example:80"})
    with pytest.raises(Problem):
        ANYWHERE.check_source({"host": "studio.example", "origin": "https://evil.example"})
