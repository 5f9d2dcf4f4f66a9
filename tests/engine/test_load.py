"""A trained scorer given back for use, and files that are not one, whoever made them."""

import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

import truesort as ts
from runs import TINY
from truesort import data, engine
from truesort.engine import RunError, evaluate
from truesort.engine.checkpoint import NOTE, read_tensors, write_tensors

LIE = json.dumps({"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}).encode()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    engine.train(TINY, folder)
    return folder


@pytest.fixture
def items() -> torch.Tensor:
    return data.open("digits1").batch(4, 6, data.stream("train", 0)).items


@pytest.mark.parametrize("file", ["", "model.safetensors"])
def test_a_scorer_comes_back(run: Path, file: str) -> None:
    model = ts.load(run / file)
    dataset = data.open("digits1")
    found = evaluate(model.network, dataset.fixed("test", TINY.test, 3), "float32")
    assert found == json.loads((run / "result.json").read_text())["test"]


def test_scores_orders_and_sorts(run: Path, items: torch.Tensor) -> None:
    model = ts.load(run)
    scores, order = model.score(items), model.order(items)
    assert torch.equal(order, scores.argsort(stable=True))
    assert torch.equal(model.order(items, descending=True), scores.argsort(stable=True, descending=True))
    for row in range(4):
        assert torch.equal(model.sort(items)[row], items[row][order[row]])
        torch.testing.assert_close(model.score(items[row]), scores[row])
    torch.testing.assert_close(model.score(data.open("digits1").normalise(items)), scores)
    assert not scores.requires_grad


def test_what_it_cannot_read_is_said(run: Path, items: torch.Tensor) -> None:
    model = ts.load(run)
    with pytest.raises(ValueError, match=r"items must have shape \(n, 1, 8, 8\) or \(B, n, 1, 8, 8\), got \(6, 8, 8\)"):
        model.score(items[0, :, 0])
    with pytest.raises(TypeError, match=r"items must be bytes \(torch.uint8\) or floats, got torch.int64"):
        model.score(items.long())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello" * 100,
        pickle.dumps({"a": 1}),
        struct.pack("<Q", 2**60) + b"{}",
        struct.pack("<Q", len(LIE)) + LIE,
        save({"a": torch.zeros(1)}),
        save({"a": torch.zeros(1)}, {NOTE: "[]"}),
        save({"a": torch.zeros(1)}, {NOTE: "[" * 100_000}),
    ],
    ids=["empty", "text", "pickle", "header", "size", "no description", "a list", "deep"],
)
def test_what_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "made").write_bytes(content)
    with pytest.raises(RunError, match="made is not a safetensors file of truesort, or is damaged"):
        ts.load(tmp_path / "made")


def in_scorer(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda facts: facts["scorer"].update(changes)


def in_convolutions(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda facts: facts["scorer"]["convolutions"].update(changes)


HUGE = {"kind": "transformer", "item_shape": [1, 8, 8], "convolutions": {"channels": [4]}, "layers": 10**9}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (in_scorer(hidden=10**9), "does not hold the tensors of the scorer it describes"),
        (in_convolutions(channels=[10**6, 10**6]), "does not hold the tensors"),
        (in_scorer(item_shape=[1, 10**6, 10**6]), "does not hold the tensors"),
        (lambda facts: facts.update(item_shape=[1, 9, 9]), "does not hold the tensors"),
        (lambda facts: facts.update(scorer=HUGE), "layers must be between 1 and 100, got 1000000000"),
        (in_convolutions(channels=[1] * 101), "channels must be 1 to 100 positive numbers"),
        (in_scorer(kind="mlp", hidden=[1] * 101), "a mlp has no convolutions"),
        (in_scorer(hidden=-1), "describes a scorer this version cannot build"),
        (in_scorer(hidden="os.system"), "describes a scorer this version cannot build"),
        (in_scorer(kind="os"), "kind must be one of cnn, transformer, mlp"),
        (lambda facts: facts.update(scorer=[1]), "describes a scorer this version cannot build"),
        (lambda facts: facts.pop("mean"), "is not the scorer of a training run: KeyError 'mean'"),
        (lambda facts: facts.update(std=0), "is not the scorer of a training run: mean 0.0, std 0.0"),
        (lambda facts: facts.update(item_shape="abc"), "is not the scorer of a training run"),
        (lambda facts: facts.update(config=[]), "is not the scorer of a training run"),
    ],
)
def test_a_hostile_description_takes_no_memory_and_is_refused(
    run: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    tensors, facts = read_tensors(run / "model.safetensors")
    change(facts)
    write_tensors(tmp_path / "made", tensors, facts)
    with pytest.raises(RunError, match=words):
        ts.load(tmp_path / "made")
