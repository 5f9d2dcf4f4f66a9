"""The command line as a shell user meets it: what it prints, where, and its exit codes."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from truesort import cli, data, engine
from truesort.models._registry import SCORERS

OPTIONS = "digits1 --length 3 --steps 4 --batch 4 --validate-every 2 --validation 8 --test 8 --device cpu"
TINY = OPTIONS.split(" ")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "truesort.cli", *arguments], capture_output=True, text=True)


def test_help_needs_nothing_heavy() -> None:
    code = "import sys; from truesort import cli; cli.main(['--help']); print(*sys.modules, file=sys.stderr)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name in cli.COMMANDS:
        assert f"  {name}" in found.stdout
    assert not {"tyro", "rich", "matplotlib", "sklearn", "numba", "truesort.engine"} & set(found.stderr.split())


def test_version_and_unknown_commands() -> None:
    assert run("--version").stdout.startswith("truesort ")
    wrong = run("sing")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("truesort: unknown command 'sing'; choices: demo, train, ")
    assert not wrong.stdout


def test_help_of_training_names_every_task_and_scorer(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["train", "--help"])
    shown = "".join(capsys.readouterr().out.replace("│", "").split())
    scorers = {name for family in SCORERS.values() for name in family}
    assert {name for name in {*data.names(), *scorers} if name not in shown} == set()


def test_train_eval_and_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "run")
    assert cli.main(["train", *TINY, "--folder", folder, "--steepness", "20", "--swap", "cauchy"]) == 0
    shown = capsys.readouterr()
    assert "exact match" in shown.out
    assert folder in shown.out
    assert "digits1: step 4" in shown.err
    method = engine.load(folder).facts["config"]["method"]
    assert (method["steepness"], method["swap"]) == (20.0, "cauchy")
    assert cli.main(["train", *TINY, "--folder", folder]) == 1
    assert "already holds a run; go on with it by --resume" in capsys.readouterr().err
    assert cli.main(["eval", folder, "--length", "4", "--sequences", "5"]) == 0
    assert "test" in capsys.readouterr().out


def test_kinds_have_options_of_their_own(tmp_path: Path) -> None:
    kinds = "--method neural-sort --temperature 2.5 --loss permutation --reduction sum --schedule halving --every 3"
    assert cli.main(["train", *TINY, *kinds.split(), "--folder", str(tmp_path)]) == 0
    config = engine.from_facts(engine.load(tmp_path).facts["config"])
    assert config.schedule == engine.Halving(every=3)
    assert config.loss == engine.Permutation(reduction="sum")
    assert config.method.temperature == 2.5


def test_the_folder_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", *TINY, "--model", "transformer", "--seed", "7"]) == 0
    assert (tmp_path / "runs" / "digits1-3-transformer-7" / "result.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train chess", "unknown dataset 'chess'; choices: digits<d>, mnist<d>"),
        ("train digits1 --model rnn", "unknown model 'rnn' for small; choices: cnn, transformer"),
        ("train digits1 --method quick", "--method"),
        ("train digits1 --method permutahedron", "loss must be Ranks or Pairwise"),
        ("train digits1 --swap linear", "'cauchy'"),
        ("train digits1 --steps 0", "steps must be at least 1"),
        ("train digits1 --steps many", "--steps"),
        ("train digits1 --device tpu", "device must be auto, cpu, cuda"),
        ("train", "required"),
        ("eval x --split train", "--split"),
    ],
)
def test_what_is_not_understood(
    arguments: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        code = cli.main(arguments.split())
    except SystemExit as end:  # tyro's way
        code = end.code
    shown = capsys.readouterr()
    assert code == 2
    assert message in " ".join(shown.err.split())
    assert not list(tmp_path.rglob("config.json"))


def test_what_goes_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli.main(["eval", str(tmp_path / "nowhere")]) == 1
    assert "does not exist" in capsys.readouterr().err
    assert cli.main(["train", "mnist4", "--data", str(tmp_path / "nowhere")]) == 1
    assert "does not exist" in capsys.readouterr().err

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(data, "open", stop)
    assert cli.main(["train", *TINY, "--folder", str(tmp_path / "run")]) == 130
    assert capsys.readouterr().err == "truesort: stopped\n"


def test_ctrl_c(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "truesort.cli", "train", *TINY, "--steps", "100000", "--folder", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("digits1: step 2 ")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1].endswith(f"of 100000; go on with --resume in {tmp_path}")


@pytest.mark.parametrize("arguments", ["--help", "models", "info"])
def test_nobody_reads_on(arguments: str) -> None:
    command = [sys.executable, "-m", "truesort.cli", arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_no_room_for_the_answer() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "truesort.cli", "--help"]
        run = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert run.returncode == 1
    assert run.stderr == "truesort: [Errno 28] No space left on device\n"


def test_models_and_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models"]) == 0
    assert "3.475M" in capsys.readouterr().out
    assert cli.main(["info"]) == 0
    shown = capsys.readouterr().out
    assert "torch" in shown
    assert "backend cuda" in shown


@pytest.mark.parametrize(
    ("arguments", "code", "shown"),
    [
        ("train --task digits1 --lengths 3 --batch 4 --steps 4 --blocks 2 --device cpu", 0, "digits1"),
        ("", 0, "truesort bench WHAT"),
        ("sorting", 2, "unknown benchmark 'sorting'; choices: ops, train"),
    ],
)
def test_bench(arguments: str, code: int, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", *arguments.split()]) == code
    assert shown in "".join(capsys.readouterr())


def test_steps_of_training_are_timed_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "train.json"
    options = f"--task digits1 --lengths 2 3 --batch 4 --steps 4 --blocks 2 --device cpu --save {file}"
    assert cli.main(["bench", "train", *options.split()]) == 0
    assert "steps/s" in capsys.readouterr().out
    facts = json.loads(file.read_text())
    assert [row["length"] for row in facts["results"]] == [2, 3]
    assert all(row["steps_per_second"] > 0 and row["inside"] > 0 for row in facts["results"])
    assert facts["versions"]["torch"] == torch.__version__


def test_tensorboard_is_an_extra(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    try:
        import tensorboard  # noqa: F401
    except ImportError:
        assert cli.main(["train", *TINY, "--folder", str(tmp_path), "--tensorboard"]) == 1
        assert "pip install 'truesort[tensorboard]'" in capsys.readouterr().err
    else:
        assert cli.main(["train", *TINY, "--folder", str(tmp_path), "--tensorboard"]) == 0
        assert list((tmp_path / "events").iterdir())


def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # again in the same folder
        assert cli.main(["demo", "--steps", "6", "--folder", str(tmp_path)]) == 0
        shown = capsys.readouterr().out
        assert shown.count("0, exactly") == 1
        assert "all 5 in the right order" in shown
        assert (tmp_path / "sorted.png").read_bytes().startswith(b"\x89PNG")
