"""Networks of tests are tiny: threads cost them more than they bring, most of all on a busy machine."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)
