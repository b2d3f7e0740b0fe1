"""What some tests need of the machine."""

import pytest

from dgpnet import processor

#: For every test that computes in bfloat16 on the CPU: there are processors on which that ends the process.
needs_half = pytest.mark.skipif(not processor.half_works(), reason="bfloat16 ends the process on this processor")
