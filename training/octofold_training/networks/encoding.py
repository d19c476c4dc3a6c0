"""Encodes boards as one-hot planes, and finds the floating-point type that a device multiplies fastest."""

from __future__ import annotations

import time
from functools import cache

import torch
from torch import Tensor


class OneHot:
    """An encoder of boards as one-hot planes. `exponents` is the number of exponents, each with a plane."""

    def __init__(self, exponents: int, dtype: torch.dtype, device: torch.device | None = None) -> None:
        self._planes = torch.eye(exponents, dtype=dtype, device=device)

    def __call__(self, boards: Tensor) -> Tensor:
        """Encode exponents `[N, 16]` as planes `[N, exponents, 4, 4]` in the format `torch.channels_last`."""
        one_hot = self._planes[boards.long()]
        return one_hot.view(-1, 4, 4, self._planes.shape[0]).permute(0, 3, 1, 2)


def fastest_type(device: torch.device | None = None) -> torch.dtype:
    """Return bfloat16 for a GPU; for a CPU, the faster of bfloat16 and float32, measured once."""
    return torch.bfloat16 if device is not None and device.type != "cpu" else _fastest_of_cpu()


@cache
def _fastest_of_cpu() -> torch.dtype:
    def seconds(dtype: torch.dtype, enough: float = float("inf")) -> float:
        """Time eight matrix products and return the shortest time. Stop after one that exceeds `enough`."""
        left, right = torch.ones(128, 1024, dtype=dtype), torch.ones(1024, 256, dtype=dtype)
        times = []
        for _ in range(8):
            start = time.perf_counter()
            torch.mm(left, right)
            times.append(time.perf_counter() - start)
            if len(times) > 1 and times[-1] > enough:  # the first product includes initialization
                break
        return min(times)

    single = seconds(torch.float32)
    # A CPU without bfloat16 instructions takes 50 times as long: two measurements are enough.
    return torch.bfloat16 if seconds(torch.bfloat16, 8 * single) <= single else torch.float32
