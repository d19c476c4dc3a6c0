"""What the package promises to programs: all of it named, all of it there, nothing by accident."""

from importlib import resources
from types import ModuleType

import octofold_client
from octofold_client import errors


def test_all_names_every_public_member_and_nothing_else() -> None:
    public = {
        name
        for name, member in vars(octofold_client).items()
        if not name.startswith("_") and not isinstance(member, ModuleType)
    }
    assert public == set(octofold_client.__all__)


def test_all_is_sorted_and_names_nothing_twice() -> None:
    assert octofold_client.__all__ == sorted(set(octofold_client.__all__))


def test_every_error_is_exported_from_the_top() -> None:
    kinds = {name for name in errors.__all__ if isinstance(getattr(errors, name), type)}
    assert kinds <= set(octofold_client.__all__)


def test_the_package_says_that_it_is_typed() -> None:
    assert resources.files(octofold_client).joinpath("py.typed").is_file()
