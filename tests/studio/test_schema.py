"""The API is as its OpenAPI document says: Schemathesis asks, by `make schema`; skipped where that is not installed."""

import pytest

from dgpnet.serving import Access, Guard, serving
from dgpnet.studio.api import application, limits

schemathesis = pytest.importorskip("schemathesis", reason="Schemathesis is not installed: `make schema`")

pytestmark = pytest.mark.slow


def test_no_request_breaks_the_server_and_answers_are_as_described(studio):
    from hypothesis import HealthCheck, Phase, given, settings

    guard = Guard(application(studio), Access.of("127.0.0.1"), limits())
    with serving(guard, stop=[studio.hub.close]) as address:
        schema = schemathesis.openapi.from_url(f"{address}/api/v1/openapi.json")
        checks = [
            schemathesis.checks.not_a_server_error,
            schemathesis.specs.openapi.checks.status_code_conformance,
            schemathesis.specs.openapi.checks.content_type_conformance,
            schemathesis.specs.openapi.checks.response_schema_conformance,
        ]
        asked = 0
        for result in schema.get_all_operations():
            operation = result.ok()
            if operation.path.endswith("/events"):
                continue  # never ends

            @settings(
                max_examples=40,
                deadline=None,
                database=None,
                phases=[Phase.explicit, Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy())
            def each(case):
                case.call_and_validate(base_url=address, checks=checks, timeout=60)

            each()
            asked += 1
    assert asked > 20
