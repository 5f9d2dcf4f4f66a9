"""A run from its config to its result: steps, validations, checkpoints, and one look at the test set.

What survives a kill is the folder, and it is always whole: a checkpoint holds everything of one step, the best scorer
so far included, and a resumed run takes the steps the uninterrupted one would have taken, on a CPU bit by bit.
"""

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType

import torch
from torch import Tensor, nn

from truesort import data, models
from truesort.data import Dataset
from truesort.engine.checkpoint import put, read_tensors, under, write_tensors
from truesort.engine.config import Config, settled, to_facts
from truesort.engine.evaluate import Accuracy, evaluate
from truesort.engine.learner import LOOK_AWAY, Learner
from truesort.engine.machine import circumstances
from truesort.engine.parallel import Team, choose_device, team
from truesort.engine.progress import Quiet, Show
from truesort.engine.record import Diverged, Facts, RunError, RunFolder, read_json, write_json
from truesort.engine.together import Training, finish


class Interrupted(RunError):
    """Somebody asked the run to stop, and it did, with a checkpoint."""


@dataclass
class Progress:
    """What a run knows of itself beside its tensors; goes into the checkpoint as JSON."""

    step: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0
    loss_count: int = 0
    best_step: int = 0
    best: Accuracy = field(default_factory=dict)


def train(
    config: Config,
    folder: str | Path,
    *,
    dataset: Dataset | None = None,
    scorer: nn.Module | None = None,
    data_folder: str | Path | None = None,
    device: str = "auto",
    resume: bool = False,
    compiled: bool = False,
    checkpoint_seconds: float = 60.0,
    show: Show | None = None,
) -> Facts:
    """Run a config in a folder, and return what result.json holds.

    `dataset` and `scorer` stand in for those the config names. With `resume` a run goes on from its checkpoint, a
    finished one returns its result. `compiled` runs the scorer through torch.compile, and `checkpoint_seconds` is the
    most work a kill can cost.
    """
    run = training(
        config, folder, dataset=dataset, scorer=scorer, data_folder=data_folder, device=device, resume=resume,
        compiled=compiled, checkpoint_seconds=checkpoint_seconds, show=show,
    )  # fmt: skip
    return finish(run)


def training(
    config: Config,
    folder: str | Path,
    *,
    dataset: Dataset | None = None,
    scorer: nn.Module | None = None,
    data_folder: str | Path | None = None,
    device: str = "auto",
    resume: bool = False,
    compiled: bool = False,
    checkpoint_seconds: float = 60.0,
    show: Show | None = None,
    stop: threading.Event | None = None,
) -> Training:
    """What `train` does, by turns; setting `stop` asks it to stop, where otherwise Ctrl-C or a polite kill does."""
    place = choose_device(device) if dataset is None else dataset.device
    run_folder = RunFolder(Path(folder))
    with ExitStack() as stack:
        crew = stack.enter_context(team(place, config.batch))
        dataset = dataset or data.open(config.task, data_folder, place)
        config = settled(config, dataset, place)
        stack.enter_context(torch.random.fork_rng([place] if place.type == "cuda" else []))
        torch.manual_seed(config.seed)
        scorer = scorer or models.build(config.model, dataset.family, dataset.item_shape)
        if crew.leads:  # nothing is written before here, so that a misspelt setting leaves no folder behind
            stack.enter_context(run_folder.held())
            _claim(run_folder, config, resume)
        crew.wait()
        if run_folder.result.exists():
            return read_json(run_folder.result)
        run = _Run(config, run_folder, dataset, scorer, crew, compiled)
        shown = show if show and crew.leads else Quiet()
        with shown, nullcontext(stop) if stop else asked_to_stop() as asked:
            yield from run.turns(shown, asked, checkpoint_seconds)
        return run.conclude()


def _claim(folder: RunFolder, config: Config, resume: bool) -> None:
    """Write the config into a new folder, or see that the folder's run is the one to go on with."""
    if not folder.config.exists():
        write_json(folder.config, to_facts(config))
        return
    if not resume:
        raise RunError(f"{folder.path} already holds a run; go on with it by --resume, or choose another --folder")
    stored, wanted = read_json(folder.config), to_facts(config)
    different = [name for name in wanted if stored.get(name) != wanted[name]]
    if different:
        changes = "; ".join(f"{name} is {stored.get(name)} there, {wanted[name]} here" for name in different)
        raise RunError(f"{folder.path} holds another run: {changes}. Give the same settings, or another --folder")


class _Run:
    def __init__(
        self,
        config: Config,
        folder: RunFolder,
        dataset: Dataset,
        scorer: nn.Module,
        team: Team,
        compiled: bool,
    ) -> None:
        assert config.length is not None, "the config is settled"
        self.config, self.folder, self.dataset, self.team = config, folder, dataset, team
        self.learner = Learner(config, dataset, scorer, team, compiled)
        self.validation = dataset.fixed("validation", config.validation, config.length)
        self.progress = Progress()
        self.best: dict[str, Tensor] = {}
        if folder.checkpoint.exists():
            self._restore()
        if team.leads:
            folder.forget_after(self.progress.step)
        if team.rank:  # dropout must not be the same on every process
            torch.manual_seed(config.seed + 7919 * team.rank + self.progress.step)

    def turns(self, show: Show, stop: threading.Event, checkpoint_seconds: float) -> Iterator[None]:
        """All steps; after each turn's are asked for, others may go on before somebody waits for them."""
        saved = last = time.monotonic()
        while self.progress.step < self.config.steps:
            self._ask_for_steps()
            yield
            self._look(show)
            now = time.monotonic()
            self.progress.seconds += now - last
            last = now
            if self._all_agree(stop):
                self._save()
                done = f"{self.progress.step} of {self.config.steps}"
                raise Interrupted(f"stopped at step {done}; go on with --resume in {self.folder.path}")
            if now - saved >= checkpoint_seconds:
                self._save()
                saved = time.monotonic()
        self._save()

    def _all_agree(self, stop: threading.Event) -> bool:
        if self.team.size == 1:
            return stop.is_set()
        return bool(self.team.total(torch.tensor([float(stop.is_set())], device=self.learner.device)).item())

    def _ask_for_steps(self) -> None:
        """Steps until somebody wants to see something."""
        every = self.config.validate_every
        step = self.progress.step
        pause = 1 if self.learner.device.type == "cpu" else LOOK_AWAY
        goal = min(step + pause, (step // every + 1) * every, self.config.steps)
        while self.learner.step < goal:
            self.learner.advance()

    def _look(self, show: Show) -> None:
        """See what the steps were worth, and validate if it is time."""
        self._note(self.learner.look())
        step = self.progress.step
        show.steps(step, self.config.steps, self.progress.loss_sum / self.progress.loss_count)
        if step % self.config.validate_every == 0 or step == self.config.steps:
            self._validate(show)

    def _note(self, losses: list[float]) -> None:
        for step, loss in enumerate(losses, self.progress.step + 1):
            if not math.isfinite(loss):
                raise Diverged(
                    f"the loss became {loss} at step {step}; training has stopped, and the last checkpoint is intact. "
                    f"Try a lower --learning-rate than {self.config.learning_rate:g}, or --clip 1, in another --folder"
                )
        self.progress.loss_sum += sum(losses)
        self.progress.loss_count += len(losses)
        self.progress.step = self.learner.step

    def _validate(self, show: Show) -> None:
        found = evaluate(self.learner.scorer, self.validation, self.config.precision, self.team)
        progress = self.progress
        better = not progress.best or _quality(found) > _quality(progress.best)
        if better:
            progress.best, progress.best_step = found, progress.step
            self.best = {name: tensor.detach().clone() for name, tensor in self.learner.scorer.state_dict().items()}
        if self.team.leads:
            loss = progress.loss_sum / progress.loss_count
            self.folder.append({"step": progress.step, "loss": loss, "seconds": round(progress.seconds, 3), **found})
        progress.loss_sum, progress.loss_count = 0.0, 0
        show.accuracy(progress.step, found["exact_match"], better)

    def _save(self) -> None:
        """Write the checkpoint, then the best scorer, which a resumed run writes again if this is cut short."""
        if not self.team.leads:
            return
        state = self.learner.state() | put("best", self.best)
        write_tensors(self.folder.checkpoint, state, asdict(self.progress))
        if self.best:
            write_tensors(self.folder.model, self.best, self._description())

    def _restore(self) -> None:
        state, facts = read_tensors(self.folder.checkpoint)
        self.progress = Progress(**facts)
        self.best = {name: tensor.to(self.learner.device) for name, tensor in under("best", state).items()}
        self.learner.restore(state, self.progress.step)

    def _description(self) -> Facts:
        """What `load` needs to know to build the scorer again, and what a person may want to know of it."""
        scorer = getattr(self.learner.scorer, "config", None)
        return {
            "scorer": models.to_dict(scorer) if isinstance(scorer, models.Config) else None,
            "item_shape": list(self.dataset.item_shape),
            "mean": self.dataset.mean,
            "std": self.dataset.std,
            "config": to_facts(self.config),
            "step": self.progress.best_step,
            "validation": self.progress.best,
        }

    def conclude(self) -> Facts:
        """Look at the test set, once, with the best scorer."""
        assert self.config.length is not None, "the config is settled"
        scorer, progress = self.learner.scorer, self.progress
        scorer.load_state_dict(self.best)
        test_set = self.dataset.fixed("test", self.config.test, self.config.length)
        test = evaluate(scorer, test_set, self.config.precision, self.team)
        result = {
            "config": to_facts(self.config),
            "best_step": progress.best_step,
            "validation": progress.best,
            "test": test,
            "seconds": round(progress.seconds, 3),
            "processes": self.team.size,
            **circumstances(self.learner.device),
            "curve": self.folder.curve(),
        }
        if self.team.leads:
            write_json(self.folder.result, result)
        return result


def _quality(found: Accuracy) -> tuple[float, float]:
    return found["exact_match"], found["element_wise"]


@contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """An event that Ctrl-C or a polite kill sets; a second Ctrl-C does what it always does."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def answer(number: int, frame: FrameType | None) -> None:
        asked.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    try:
        for number in kept:
            signal.signal(number, answer)
        yield asked
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
