"""Play by hand in a window: keys make moves, begin a new game, and leave."""

import numpy as np
import pygame
import pytest
from octofold_game.environments.rendering import Window
from octofold_game.environments.single import Game2048Env
from octofold_papers.dqn_notebook import by_hand


@pytest.fixture(autouse=True)
def _without_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


def _press(*keys: int) -> None:
    for key in keys:
        pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=key))


def test_keys_play_in_a_window_until_a_key_closes_it() -> None:
    twin = Game2048Env(render_mode="rgb_array")
    twin.reset(seed=5)
    for move in (3, 2, 3, 0):
        *_, info = twin.step(move)
    window = Window("2048")
    window.show(np.zeros(16, np.uint8))  # opens the window, so that it receives keys
    _press(pygame.K_LEFT, pygame.K_s, pygame.K_x, pygame.K_a, pygame.K_UP, pygame.K_ESCAPE)
    by_hand.play(window, 5)
    surface = pygame.display.get_surface()
    assert surface is not None
    assert (pygame.surfarray.array3d(surface).swapaxes(0, 1) == twin.render()).all()
    assert pygame.display.get_caption()[0] == f"2048: {info['score']:,}"
    _press(pygame.K_LEFT, pygame.K_n)
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    by_hand.play(window, 5)
    twin.reset(seed=5)
    twin.reset()
    assert (pygame.surfarray.array3d(surface).swapaxes(0, 1) == twin.render()).all()
    window.close()
