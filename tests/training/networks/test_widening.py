"""A wider network answers as the narrower one does, and its new units learn things of their own."""

import pytest
import torch
from octofold_training.errors import TrainingError
from octofold_training.networks.architectures import Architecture
from octofold_training.networks.build import build
from octofold_training.networks.widening import fit
from torch import nn
from torch.nn.functional import one_hot

NARROW = {"kind": "pairs", "patterns": ["lines", "squares"], "features": 3, "dense": [8, 5], "exponents": 16}
VALUE = {"head": "value", "value_scale": 100.0}


@pytest.fixture
def narrow() -> nn.Module:
    torch.manual_seed(1)
    return build(NARROW)


def _planes() -> torch.Tensor:
    boards = torch.randint(16, (64, 4, 4), generator=torch.Generator().manual_seed(2))
    return one_hot(boards, 16).permute(0, 3, 1, 2).float()


@pytest.mark.parametrize(
    ("features", "dense"), [(7, [8, 5]), (3, [20, 5]), (3, [8, 11]), (10, [16, 12])], ids=str
)
def test_a_widened_network_answers_as_before(narrow: nn.Module, features: int, dense: list[int]) -> None:
    wanted = {**NARROW, "features": features, "dense": dense}
    wide = fit(narrow, NARROW, wanted, "", seed=1)
    assert {name: each.shape for name, each in wide.state_dict().items()} == {
        name: each.shape for name, each in build(wanted).state_dict().items()
    }
    torch.testing.assert_close(wide(_planes()), narrow(_planes()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("outputs", [4, 1])
def test_copies_of_a_unit_come_to_differ(outputs: int) -> None:
    torch.manual_seed(1)
    found = NARROW if outputs == 4 else NARROW | VALUE
    wide = fit(build(found), found, {**found, "features": 6, "dense": [16, 10]}, "", seed=1)
    optimizer = torch.optim.AdamW(wide.parameters(), lr=1e-3)
    target = torch.randn(64, outputs, generator=torch.Generator().manual_seed(3))
    for _ in range(100):
        optimizer.zero_grad()
        (wide(_planes()) - target).square().sum().backward()
        optimizer.step()
    for name, weights in wide.state_dict().items():
        if name.startswith("tables") or (name.endswith("weight") and len(weights) != outputs):
            units = weights.T if name.startswith("tables") else weights
            apart = torch.pdist(units) / units.norm(dim=1).mean()
            assert apart.min() > 1e-3, name


def test_every_process_widens_a_network_alike(narrow: nn.Module) -> None:
    wanted = {**NARROW, "features": 4}
    once, again = (fit(narrow, NARROW, wanted, "", seed=1).state_dict() for _ in range(2))
    other = fit(narrow, NARROW, wanted, "", seed=2).state_dict()
    assert all(torch.equal(once[name], again[name]) for name in once)
    assert not all(torch.equal(once[name], other[name]) for name in once)


@pytest.mark.parametrize(
    "change",
    [{"features": 2}, {"dense": [9, 4]}, {"dense": [8, 5, 5]}, {"patterns": ["lines"]}, {"exponents": 18}],
    ids=str,
)
def test_a_network_that_is_no_wider_one_is_refused(narrow: nn.Module, change: Architecture) -> None:
    with pytest.raises(TrainingError) as refused:
        fit(narrow, NARROW, {**NARROW, **change}, "here: ", seed=1)
    ((key, value),) = change.items()
    assert str(refused.value) == f"here: has {key} = {NARROW[key]}, but the recipe has {key} = {value}"


@pytest.mark.parametrize("features", [3, 6])
def test_a_default_that_is_written_out_makes_no_other_network(narrow: nn.Module, features: int) -> None:
    wanted = {**NARROW, "head": "policy", "features": features}
    fits = fit(narrow, NARROW, wanted, "", seed=1)
    torch.testing.assert_close(fits(_planes()), narrow(_planes()), rtol=1e-4, atol=1e-5)
