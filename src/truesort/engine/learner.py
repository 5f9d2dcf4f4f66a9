"""A scorer that learns: one step draws, scores, sorts, measures the loss, goes backward and updates.

Nothing in a step asks the CPU for anything, so that a GPU can replay it as one graph; losses gather on the device until
somebody looks.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from truesort.data import Dataset, stream
from truesort.engine import checkpoint
from truesort.engine.checkpoint import put, under
from truesort.engine.config import Config, Pairwise
from truesort.engine.graph import Replayed
from truesort.engine.objective import objective
from truesort.engine.parallel import Team
from truesort.ops import Sinkhorn
from truesort.ops.adamw import AdamW

LOOK_AWAY = 100
"""Most steps between two looks at the losses."""


def number_format(precision: str) -> torch.dtype:
    """The data type inside the scorer."""
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


def score(scorer: Callable[[Tensor], Tensor], items: Tensor, dtype: torch.dtype) -> Tensor:
    """float32 scores of normalised items."""
    with torch.autocast(items.device.type, dtype, enabled=dtype != torch.float32):
        return scorer(items).float()


def _asks_the_cpu(config: Config) -> bool:
    """Whether a step waits for an answer, here to whether it has converged, which no graph can do."""
    return isinstance(config.method, Sinkhorn) and not isinstance(config.loss, Pairwise)


class Learner:
    """Scorer, optimiser and stream of batches of one process."""

    def __init__(self, config: Config, dataset: Dataset, scorer: nn.Module, team: Team, compiled: bool = False) -> None:
        self.config, self.dataset, self.scorer, self.team = config, dataset, scorer.to(dataset.device), team
        self.device = dataset.device
        self.draws = stream("train", config.seed, self.device)
        self.step = 0
        self._measured = torch.compile(self._measure, dynamic=False) if compiled else self._measure
        self._dtype = number_format(config.precision)
        self._objective = objective(config)
        self._parameters = [parameter for parameter in scorer.parameters() if parameter.requires_grad]
        self.optimizer = self._adamw()
        self._losses = torch.zeros(LOOK_AWAY, device=self.device)
        self._place = torch.zeros(1, dtype=torch.int64, device=self.device)
        self.unseen = 0
        captured = self.device.type == "cuda" and team.size == 1 and not _asks_the_cpu(config)
        self._run = Replayed(self._one_step, self.draws) if captured else self._one_step

    def _adamw(self) -> AdamW:
        on_gpu = self.device.type == "cuda"
        rate = torch.tensor(self.config.learning_rate, device=self.device) if on_gpu else self.config.learning_rate
        return AdamW(self._parameters, lr=rate, weight_decay=self.config.weight_decay, fused=True, capturable=on_gpu)

    def advance(self) -> None:
        """Take one step; on a GPU, only ask for it."""
        self._set_learning_rate(self.config.learning_rate * self.config.schedule.factor(self.step, self.config.steps))
        self._run()
        self.step += 1
        self.unseen += 1

    def _set_learning_rate(self, rate: float) -> None:
        (group,) = self.optimizer.param_groups
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate

    def _one_step(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        choice = self.dataset.choose("train", self.config.batch, self._length, self.draws)
        batch = self.dataset.take("train", self.team.share(choice))
        loss = self._measured(batch.items, batch.values)
        loss.backward()  # type: ignore[no-untyped-call]
        self.team.average([p.grad for p in self._parameters if p.grad is not None])
        if self.config.clip is not None:
            nn.utils.clip_grad_norm_(self._parameters, self.config.clip)
        self.optimizer.step()
        self._losses.index_copy_(0, self._place, loss.detach().float().reshape(1))
        self._place.add_(1)

    def _measure(self, items: Tensor, values: Tensor) -> Tensor:
        """The loss of a batch of bytes."""
        normal = self.dataset.normalise(items)
        return self._objective(score(self.scorer, normal, self._dtype), values, normal)

    @property
    def _length(self) -> int:
        assert self.config.length is not None, "the config is settled"
        return self.config.length

    def look(self) -> list[float]:
        """The mean loss over the processes of every step since the last look, at most the last LOOK_AWAY."""
        losses = self._losses[: self.unseen].clone()
        self.team.average([losses])
        self._place.zero_()
        self.unseen = 0
        return losses.tolist()

    def state(self) -> dict[str, Tensor]:
        """All that the next step depends on."""
        return {
            **put("model", self.scorer.state_dict()),
            **put("optimizer", checkpoint.moments(self.optimizer)),
            **put("random", checkpoint.random_states(self.draws, self.device)),
        }

    def restore(self, state: dict[str, Tensor], step: int) -> None:
        """Go back to a state; only before the first step."""
        self.scorer.load_state_dict(under("model", state))
        checkpoint.restore_moments(self.optimizer, under("optimizer", state))
        checkpoint.restore_random_states(under("random", state), self.draws, self.device)
        self.step = step
