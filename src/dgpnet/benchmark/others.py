"""Milliseconds that others need: as the paper prints them, and of the authors' program on one H200."""

from dgpnet.benchmark import naive

_COLUMNS = ((1, 1), (1, 5), (20, 1), (20, 5))
_LINES = {
    naive.ENCODE_SUPPORT: (15.5, 23.4, 48.5, 197.5),
    naive.ENCODE_MASKS: (2.1, 2.1, 1.6, 6.6),
    naive.PREPARE: (8.3, 13.9, 7.2, 113.5),
    naive.ENCODE_QUERY: (9.7, 13.6, 39.8, 39.9),
    naive.INFER: (7.9, 9.4, 12.1, 38.1),
    naive.DECODE: (6.2, 6.9, 40.0, 40.5),
    naive.TOTAL: (49.7, 69.3, 149.2, 436.1),
}
#: The paper's run-time table (tab:runtimes; one V100, 512²), by part and then by (batch, shots).
PAPER = {part: dict(zip(_COLUMNS, line, strict=True)) for part, line in _LINES.items()}
#: Totals of the authors' program on one H200, by (batch, shots): measured, not printed in the paper.
AUTHORS_ON_H200 = {(1, 1): 13.6, (1, 5): 16.0, (20, 1): 48.4, (20, 5): 117.6}
#: Its training step there: 8 one-shot episodes at 384².
AUTHORS_STEP_ON_H200 = 83.0
