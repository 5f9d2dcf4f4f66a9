"""The command line: parse, call, print.

Each command imports what it needs when it runs, so that `truesort --help` answers at once, and takes its options from
the dataclass it fills, so that no option can be missing, stale or without effect.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from truesort.engine import Config

FAILED, MISUSED, STOPPED = 1, 2, 130
"""Exit codes: something went wrong; the command was not understood; Ctrl-C."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name; the exit code."""
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        code = _answer(name, rest)
        sys.stdout.flush()
    except OSError as error:
        code = FAILED if isinstance(error, BrokenPipeError) else _say(str(error), FAILED)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python tries once more when it ends
    return code


def _answer(name: str, arguments: list[str]) -> int:
    if name in ("-h", "--help"):
        print(_help())
        return 0
    if name == "--version":
        print(_version())
        return 0
    if name not in COMMANDS:
        return _say(f"unknown command {name!r}; choices: {', '.join(COMMANDS)}", MISUSED)
    return _run(COMMANDS[name], arguments)


def _run(command: Callable[[list[str]], None], arguments: list[str]) -> int:
    from truesort.data import DataError
    from truesort.engine import Interrupted, RunError

    try:
        command(arguments)
    except (Interrupted, KeyboardInterrupt) as stop:
        return _say(str(stop) or "stopped", STOPPED)
    except (RunError, DataError) as error:
        return _say(str(error), FAILED)
    except ValueError as error:
        return _say(str(error), MISUSED)
    return 0


def _say(message: str, code: int) -> int:
    print(f"truesort: {message}", file=sys.stderr)
    return code


def _help() -> str:
    lines = [f"  {name:<9} {(command.__doc__ or '').splitlines()[0]}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: truesort COMMAND [options]      truesort COMMAND --help for the options of one",
            "",
            "Exact sorting with a gradient: teach a network to sort, from nothing but the right order.",
            "",
            *lines,
        ]
    )


def _version() -> str:
    from importlib.metadata import version

    return f"truesort {version('truesort')}"


Kind = dict[str, Callable[[], Any]]


def _kinds() -> dict[str, Kind]:
    """The alternatives of each part of a config that has alternatives, by the name a user types."""
    from truesort import engine, ops

    return {
        "method": {
            "network": ops.Network,
            "neural-sort": ops.NeuralSort,
            "soft-sort": ops.SoftSort,
            "sinkhorn": ops.Sinkhorn,
            "permutahedron": ops.Permutahedron,
        },
        "loss": {"permutation": engine.Permutation, "ranks": engine.Ranks, "pairwise": engine.Pairwise},
        "schedule": {"cosine": engine.Cosine, "halving": engine.Halving, "constant": engine.Constant},
    }


@dataclass(frozen=True)
class Alternatives:
    """Each has options of its own: add --help behind to see those of your choice."""

    method: Literal["network", "neural-sort", "soft-sort", "sinkhorn", "permutahedron"] = "network"
    """How to sort with a gradient."""
    loss: Literal["permutation", "ranks", "pairwise"] = "permutation"
    """What is made small."""
    schedule: Literal["cosine", "halving", "constant"] = "cosine"
    """How the learning rate goes over the steps."""


@dataclass(frozen=True)
class Where:
    """Where a run happens; nothing here changes its result."""

    folder: Path | None = None
    """Folder of the run; if not given, runs/ and a name made of task, length, model and seed."""
    data: Path | None = None
    """Folder of the dataset's files; if not given, they are downloaded once."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:<number>."""
    resume: bool = False
    """Go on with the run in the folder."""
    compile: bool = False
    """Compile the scorer and the loss first: slower to start, faster to run."""
    tensorboard: bool = False
    """Also write the curve for TensorBoard, which must be installed."""


def _train(arguments: list[str]) -> None:
    """Teach a scorer to sort a task: truesort train mnist4 --length 9 --model transformer-s"""
    import tyro

    from truesort import engine
    from truesort.engine.events import Events
    from truesort.engine.parallel import leads
    from truesort.engine.progress import show_on

    config, where = _parsed_run(arguments, tyro)
    folder = where.folder or Path("runs") / engine.name(config)
    show = show_on(sys.stderr, config.task)
    result = engine.train(
        config,
        folder,
        data_folder=where.data,
        device=where.device,
        resume=where.resume,
        compiled=where.compile,
        show=Events(show, folder / "events") if where.tensorboard else show,
    )
    if leads():
        title = f"best of step {result['best_step']}"
        _print_accuracies({"validation": result["validation"], "test": result["test"]}, title)
        print(f"in {folder}")


def _parsed_run(arguments: list[str], tyro: Any) -> "tuple[Config, Where]":
    """The kinds first, since they decide which options there are; then everything."""
    from truesort.engine import Config

    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for part in (kinds := _kinds()):
        first.add_argument(f"--{part}")
    chosen = {part: kind for part, kind in vars(first.parse_known_args(arguments)[0]).items() if kind in kinds[part]}
    parts = {part: kinds[part][kind]() for part, kind in chosen.items()}
    start = Config(task=tyro.MISSING, **parts)

    def run(config: Config = start, alternatives: Alternatives = Alternatives(), where: Where = Where()) -> Any:
        return config, where

    conf = tyro.conf
    marks = (conf.OmitArgPrefixes, conf.PositionalRequiredArgs, conf.AvoidSubcommands, conf.FlagCreatePairsOff)
    result: tuple[Config, Where] = tyro.cli(
        run, args=arguments, prog="truesort train", description=_train.__doc__, config=marks
    )
    return result


@dataclass(frozen=True)
class Evaluation:
    """Which run to evaluate, on what."""

    run: Path
    """Folder of the run."""
    split: Literal["test", "validation"] = "test"
    """Set of sequences."""
    length: int | None = None
    """Items of a sequence; if not given, as in training."""
    sequences: int | None = None
    """Size of the set; if not given, as in training."""
    data: Path | None = None
    """Folder of the dataset's files."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:<number>."""


def _eval(arguments: list[str]) -> None:
    """Measure the best scorer of a run again, also at another length: truesort eval RUN --length 15"""
    import tyro

    from truesort.engine import evaluate_run

    marks = (tyro.conf.PositionalRequiredArgs,)
    asked = tyro.cli(Evaluation, args=arguments, prog="truesort eval", description=_eval.__doc__, config=marks)
    accuracy = evaluate_run(asked.run, asked.split, asked.length, asked.sequences, asked.data, asked.device)
    _print_accuracies({asked.split: accuracy}, str(asked.run))


def _print_accuracies(sets: dict[str, dict[str, float]], title: str) -> None:
    from truesort.engine.tables import Sheet

    columns = ["", "exact match", "by element", "exact match*", "by element*", "right picture"]
    Sheet(columns, [[name, *(f"{value:.2%}" for value in found.values())] for name, found in sets.items()]).show(title)
    print("* any order of items of equal value counts as right")


def _teach(arguments: list[str]) -> None:
    """Teach a model to sort your own things: truesort teach photos orders.csv -o photos.truesort"""
    import tyro

    from truesort.teaching import Recipe
    from truesort.teaching.commands import Teach, run_teach

    def ask(what: Teach, recipe: Recipe = Recipe()) -> None:  # noqa: B008
        run_teach(what, recipe)

    marks = (tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff)
    tyro.cli(ask, args=arguments, prog="truesort teach", description=_teach.__doc__, config=marks)


def _sort(arguments: list[str]) -> None:
    """Sort things by a taught model: truesort sort photos.truesort more-photos --sheet sheet.png"""
    import tyro

    from truesort.teaching.commands import Sort, run_sort

    marks = (tyro.conf.FlagCreatePairsOff,)
    run_sort(tyro.cli(Sort, args=arguments, prog="truesort sort", description=_sort.__doc__, config=marks))


def _check(arguments: list[str]) -> None:
    """Measure a taught model on new orders: truesort check photos.truesort photos new-orders.csv"""
    import tyro

    from truesort.teaching.commands import Check, run_check

    run_check(tyro.cli(Check, args=arguments, prog="truesort check", description=_check.__doc__))


def _reproduce(arguments: list[str]) -> None:
    """Run a table of the paper: truesort reproduce fragments --rows error_free/transformer --seeds 42"""
    import tyro

    from truesort.paper.commands import Reproduce, run_reproduce

    marks = (tyro.conf.FlagCreatePairsOff,)
    asked = tyro.cli(Reproduce, args=arguments, prog="truesort reproduce", description=_reproduce.__doc__, config=marks)
    run_reproduce(asked)


def _report(arguments: list[str]) -> None:
    """The paper's tables with our numbers beside its own: truesort report mnist4 --details"""
    import tyro

    from truesort.paper.commands import Report, run_report

    marks = (tyro.conf.FlagCreatePairsOff,)
    run_report(tyro.cli(Report, args=arguments, prog="truesort report", description=_report.__doc__, config=marks))


def _figures(arguments: list[str]) -> None:
    """Draw the figures of the paper, PNG and SVG: truesort figures swap-once --folder figures"""
    import tyro

    from truesort.paper.commands import Figures, run_figures

    run_figures(tyro.cli(Figures, args=arguments, prog="truesort figures", description=_figures.__doc__))


def _models(arguments: list[str]) -> None:
    """The paper's scorers: parameters and multiply-adds of one sequence, beside the paper's figures"""
    import tyro

    from truesort import models
    from truesort.engine.tables import Sheet

    tyro.cli(_nothing, args=arguments, prog="truesort models", description=_models.__doc__)
    sheet = Sheet(["task", "model", "n", "parameters", "paper", "multiply-adds", "paper"])
    for row in models.rows():
        sheet.rows.append([
            row.task, row.model, str(row.length), f"{row.parameters:,}", row.paper_parameters,
            f"{row.multiply_adds:,}", row.paper_multiply_adds,
        ])  # fmt: skip
    sheet.show()


def _info(arguments: list[str]) -> None:
    """Versions, devices and backends"""
    import torch
    import tyro

    from truesort.engine import machine
    from truesort.engine.tables import Sheet
    from truesort.ops import missing_for

    tyro.cli(_nothing, args=arguments, prog="truesort info", description=_info.__doc__)
    found = {**machine.versions(), "cpu": machine.hardware(torch.device("cpu"))}
    for number in range(torch.cuda.device_count()):
        found[f"cuda:{number}"] = machine.hardware(torch.device("cuda", number))
    found["backend reference"] = "ready"
    for backend in ("cpu", "cuda"):
        found[f"backend {backend}"] = missing_for(backend) or "ready"
    Sheet(["", ""], [list(fact) for fact in found.items()]).show()


def _bench(arguments: list[str]) -> None:
    """How fast it is: truesort bench ops, truesort bench train"""
    name, *rest = arguments or ["--help"]
    if name in ("-h", "--help"):
        lines = [f"  {name:<9} {(bench.__doc__ or '').splitlines()[0]}" for name, bench in BENCHES.items()]
        usage = "usage: truesort bench WHAT [options]      truesort bench WHAT --help for the options of one"
        print("\n".join([usage, "", *lines]))
        return
    if name not in BENCHES:
        raise ValueError(f"unknown benchmark {name!r}; choices: {', '.join(BENCHES)}")
    BENCHES[name](rest)


def _bench_ops(arguments: list[str]) -> None:
    """Time and memory of every function, forward and backward, beside other packages where they are installed"""
    import tyro

    from truesort.engine import bench_ops, bench_report

    marks = (tyro.conf.FlagCreatePairsOff,)
    asked = tyro.cli(
        bench_ops.OpsBench, args=arguments, prog="truesort bench ops", description=_bench_ops.__doc__, config=marks
    )
    facts = bench_ops.run(asked, lambda line: print(line, file=sys.stderr, flush=True))
    for title, sheet in bench_report.sheets(facts, asked.targets).items():
        sheet.show(title)
    if asked.plot:
        bench_report.draw(facts["results"], facts["hardware"], asked.plot)


def _bench_train(arguments: list[str]) -> None:
    """Training steps per second, and the part of a step spent inside the scorer"""
    import tyro

    from truesort.engine.bench import Bench, rows
    from truesort.engine.tables import Sheet

    asked = tyro.cli(Bench, args=arguments, prog="truesort bench train", description=_bench_train.__doc__)
    sheet = Sheet(["task", "model", "n", "steps/s", "ms a step", "inside the scorer"])
    for row in rows(asked):
        sheet.rows.append([
            row.task, row.model, str(row.length),
            f"{row.steps_per_second:,.1f}", f"{row.milliseconds:.3f}", f"{row.inside:.0%}",
        ])  # fmt: skip
    sheet.show()


BENCHES = {"ops": _bench_ops, "train": _bench_train}


def _demo(arguments: list[str]) -> None:
    """Sort with every method, then teach a small scorer to sort pictures of numbers; about a minute on two cores"""
    import tyro

    from truesort.engine.demo import Demo, run

    run(tyro.cli(Demo, args=arguments, prog="truesort demo", description=_demo.__doc__))


def _nothing() -> None:
    pass


COMMANDS: dict[str, Callable[[list[str]], None]] = {
    "demo": _demo,
    "train": _train,
    "eval": _eval,
    "teach": _teach,
    "sort": _sort,
    "check": _check,
    "reproduce": _reproduce,
    "report": _report,
    "figures": _figures,
    "models": _models,
    "info": _info,
    "bench": _bench,
}

if __name__ == "__main__":
    sys.exit(main())
