"""One small network, for tests to which the kind of network does not matter."""

import pytest

ONE_KIND = {"kind": "cnn", "layers": 1, "channels": 16, "exponents": 16}
of_one_kind = pytest.mark.parametrize("architecture", [ONE_KIND], indirect=True, scope="session")
