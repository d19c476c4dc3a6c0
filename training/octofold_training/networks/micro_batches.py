"""Runs a network on micro-batches, each in one thread from the first layer to the last and back.

Threads that share every product of a large batch wait for each other between the layers, and for memory,
because the activations of a layer are larger than the cache of a core. The activations of a few hundred
positions stay in the cache of one thread. For `cnn5` on two cores, this is 1.2 times as fast
(`EXPERIMENTS.md`).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class MicroBatches:
    """Calls a network that answers each position of a batch independently."""

    def __init__(self, network: nn.Module, size: int, threads: int | None = None) -> None:
        """`size` is the number of boards that a thread takes at once; torch decides the number of threads."""
        self._network = network
        self._size = size
        self._pool = ThreadPoolExecutor(
            threads or torch.get_num_threads(),
            thread_name_prefix="micro-batch",
            initializer=torch.set_num_threads,
            initargs=(1,),
        )

    def __call__(self, one_hot: Tensor) -> Tensor:
        """The network's answer `[N, ...]` to `[N, ...]`; gradients reach its weights, not `one_hot`.

        They are the same in every run, because the gradients of the micro-batches are added in order.
        """
        if len(one_hot) <= self._size:
            answer: Tensor = self._network(one_hot)
            return answer
        weights = [each for each in self._network.parameters() if each.requires_grad]
        return _Passes.apply(self._network, self._pool, one_hot.split(self._size), *weights)  # type: ignore[no-untyped-call, no-any-return]


class _Passes(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, network: nn.Module, pool: ThreadPoolExecutor, parts: Sequence[Tensor], *weights: Tensor
    ) -> Tensor:
        ctx.pool, ctx.weights = pool, weights
        ctx.answers = list(pool.map(network, parts))  # in threads of the pool, gradients are recorded
        return torch.cat([each.detach() for each in ctx.answers])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        def through(answer: Tensor, of_answer: Tensor) -> tuple[Tensor, ...]:
            gradients: tuple[Tensor, ...] = torch.autograd.grad(answer, ctx.weights, of_answer)
            return gradients

        of_answers = torch.split(gradient, [len(each) for each in ctx.answers])
        total, *others = ctx.pool.map(through, ctx.answers, of_answers)
        for of_part in others:
            for of_weights, more in zip(total, of_part, strict=True):
                of_weights += more
        ctx.answers = None
        return (None, None, None, *total)
