"""One small network, for tests that do not depend on the kind of network."""

import pytest

ONE_KIND = {"kind": "cnn", "layers": 1, "channels": 16, "exponents": 16}
of_one_kind = pytest.mark.parametrize("architecture", [ONE_KIND], indirect=True, scope="session")
