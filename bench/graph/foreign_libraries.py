"""A network of Keras and one of Stable-Baselines3, trained as their users would.

    python foreign_libraries.py keras train DIR        # in an environment with tensorflow
    python foreign_libraries.py sb3 train DIR          # in one with stable-baselines3

`train` reads boards [N, 4, 4] and moves (up, down, left, right) from DIR/lesson.npz. `answer` reads boards
from DIR/asked.npy and writes the network's answers [N, 4] to DIR/answers.npy. Nothing of Octofold is
imported.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FILES = {"keras": "network.keras", "sb3": "network.zip"}


def planes(boards: NDArray[Any]) -> NDArray[np.float32]:
    """Exponents `[N, 4, 4]` to channels-last planes `[N, 4, 4, 16]`."""
    one_hot: NDArray[np.float32] = np.eye(16, dtype=np.float32)[np.minimum(boards, 15)]
    return one_hot


def keras_train(boards: NDArray[Any], moves: NDArray[Any], file: Path) -> None:
    """Two convolutions and a dense layer imitate the teacher."""
    import keras

    network = keras.Sequential(
        [
            keras.layers.Input((4, 4, 16)),
            keras.layers.Conv2D(48, 2, activation="relu"),
            keras.layers.Conv2D(48, 2, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(4),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    network.compile(keras.optimizers.Adam(2e-3), loss)
    network.fit(planes(boards), moves, batch_size=256, epochs=3, verbose=0)
    network.save(file)


def keras_answer(boards: NDArray[Any], file: Path) -> Any:
    """The logits of all boards."""
    import keras

    return keras.saving.load_model(file, compile=False).predict(planes(boards), verbose=0, batch_size=512)


def sb3_train(boards: NDArray[Any], moves: NDArray[Any], file: Path) -> None:
    """The policy of a PPO agent imitates the teacher, as people start from imitation."""
    import gymnasium
    import torch
    from stable_baselines3 import PPO

    class Still(gymnasium.Env[Any, Any]):
        """An environment for its spaces alone."""

        observation_space = gymnasium.spaces.Box(0.0, 1.0, (256,), np.float32)
        action_space = gymnasium.spaces.Discrete(4)

        def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
            return np.zeros(256, np.float32), {}

        def step(self, _: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            return np.zeros(256, np.float32), 0.0, True, False, {}

    agent = PPO("MlpPolicy", Still(), policy_kwargs={"net_arch": [128, 128]}, seed=1, device="cpu")
    inputs, labels = torch.from_numpy(planes(boards).reshape(-1, 256)), torch.from_numpy(moves)
    optimizer = torch.optim.Adam(agent.policy.parameters(), 2e-3)
    for _ in range(1_500):
        rows = torch.randint(len(inputs), (256,))
        loss = -agent.policy.get_distribution(inputs[rows]).log_prob(labels[rows]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    agent.save(file)


def sb3_answer(boards: NDArray[Any], file: Path) -> Any:
    """The logits of all boards."""
    import torch
    from stable_baselines3 import PPO

    policy = PPO.load(file, device="cpu").policy
    with torch.no_grad():
        asked = torch.from_numpy(planes(boards).reshape(-1, 256))
        return policy.get_distribution(asked).distribution.logits.numpy()


def main() -> None:
    """Train or answer."""
    kind, task, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    file = folder / FILES[kind]
    if task == "train":
        lesson = np.load(folder / "lesson.npz")
        globals()[f"{kind}_train"](lesson["boards"], lesson["moves"], file)
    else:
        np.save(folder / "answers.npy", globals()[f"{kind}_answer"](np.load(folder / "asked.npy"), file))


if __name__ == "__main__":
    main()
