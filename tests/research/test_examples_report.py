from research.examples_report import BUDGETED, EXACT, CostOfExamples, losses, markdown, page, plots


def test_what_was_measured_is_tabled_and_drawn():
    found = [
        CostOfExamples(EXACT, 5, 720, True, 0.5, 0.05, 0.0, 0.75, 4_000_000, 0, 0.5),
        CostOfExamples(BUDGETED, 5, 720, False, 0.25, 0.02, 0.0, 0.7, 3_000_000, 0, 0.495),
        CostOfExamples(BUDGETED, 50, 7200, True, 2.5, 0.02, 0.0, 0.7, 9_000_000, 0, 0.6),
    ]
    assert "| 5 | exact | yes | 0.50 | 0.050 | 0.000 | 0.75 | 4.0 | 0.0 | 50.0 |" in markdown(found)
    assert set(plots(found)) == {"examples-learning", "examples-query", "examples-memory", "examples-iou"}
    assert "| 5 | +0.50 | × 0.5 | × 0.4 | × 0.75 |" in losses(found)
    assert "| 50 |" not in losses(found)
    text = page(found, "dog", 30, {"device": "a machine"})
    assert "--counts 5,50 --most-exact 5" in text
    assert all(f"examples-{name}.png" in text for name in ("learning", "query", "memory", "iou"))
    assert markdown(found) in text
