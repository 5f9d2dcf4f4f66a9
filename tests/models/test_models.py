"""What must hold for every scorer: the paper's sizes, and scores that depend on nothing they may not depend on."""

import json

import pytest
import torch

from truesort import data, models
from truesort.models import CNN, MLP, Convolutions, Transformer

SHAPES = {"digits": (1, 28, 56), "svhn": (3, 54, 54), "fragments": (3, 10, 10), "small": (1, 8, 32)}
EVERY = [(name, family) for family in SHAPES for name in models.names(family)]
SEEING = [(name, family) for name, family in EVERY if "transformer" in name]

every_scorer = pytest.mark.parametrize(("name", "family"), EVERY)


def scorer_and_items(name, family, batch=3, length=4):
    torch.manual_seed(0)
    scorer = models.build(name, family, SHAPES[family]).double().eval()
    return scorer, torch.rand(batch, length, *SHAPES[family], dtype=torch.float64)


def printed(count, figure):
    """A count in the units and digits in which the paper prints its figure."""
    unit = {"K": 1e3, "M": 1e6}[figure[-1]]
    digits = len(figure.partition(".")[2]) - 1 if "." in figure else 0
    return f"{count / unit:.{digits}f}{figure[-1]}"


@pytest.mark.parametrize("row", models.rows(), ids=lambda row: f"{row.task}/{row.model}")
def test_sizes_are_those_of_the_paper(row):
    assert printed(row.parameters, row.paper_parameters) == row.paper_parameters
    assert printed(row.multiply_adds, row.paper_multiply_adds) == row.paper_multiply_adds


def test_transformers_have_as_many_parameters_as_the_published_code():
    counts = {(row.task, row.model): row.parameters for row in models.rows()}
    assert counts["mnist4", "transformer-s"] == 665_345
    assert counts["mnist4", "transformer-l"] == 3_104_257
    assert counts["svhn", "transformer-s"] == 1_223_041
    assert counts["svhn", "transformer-l"] == 3_474_881


@every_scorer
def test_a_score_does_not_depend_on_batch_mates(name, family):
    scorer, items = scorer_and_items(name, family)
    scores = scorer(items)
    alone = torch.cat([scorer(items[i : i + 1]) for i in range(len(items))])
    torch.testing.assert_close(scores, alone, rtol=0, atol=1e-12)
    others = items.clone()
    others[1:] = torch.rand_like(others[1:]) * 100
    torch.testing.assert_close(scorer(others)[0], scores[0], rtol=0, atol=1e-12)


@every_scorer
def test_permuting_a_sequence_permutes_its_scores(name, family):
    scorer, items = scorer_and_items(name, family)
    order = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(scorer(items[:, order]), scorer(items)[:, order], rtol=0, atol=1e-12)


@every_scorer
def test_padding_changes_no_score_and_no_gradient(name, family):
    scorer, items = scorer_and_items(name, family)
    mask = torch.tensor([[1, 1, 1, 1], [1, 0, 1, 1], [1, 0, 0, 1]], dtype=torch.bool)
    rubbish = torch.where(mask[..., None, None, None], items, 1e3 * torch.rand_like(items)).requires_grad_()
    scores = scorer(rubbish, mask)
    for row, real in enumerate(mask):
        bare = scorer(items[row : row + 1, real])[0]
        torch.testing.assert_close(scores[row, real], bare, rtol=0, atol=1e-12)
    scores[mask].square().sum().backward()
    assert (rubbish.grad[~mask] == 0).all()


@pytest.mark.parametrize(("name", "family"), SEEING)
def test_attention_sees_the_rest_of_the_sequence(name, family):
    scorer, items = scorer_and_items(name, family)
    other = items.clone()
    other[:, -1] += 1
    assert (scorer(other)[:, 0] != scorer(items)[:, 0]).all()


@pytest.mark.parametrize(("name", "family"), SEEING)
def test_a_wholly_masked_sequence_is_finite_and_harms_no_gradient(name, family):
    scorer, items = scorer_and_items(name, family)
    mask = torch.tensor([[False] * 4, [True] * 4, [True] * 4])
    scores = scorer(items, mask)
    assert scores.isfinite().all()
    scores[mask].sum().backward()
    assert all(weight.grad.isfinite().all() for weight in scorer.parameters())


@pytest.mark.parametrize("steps", [1, 2])
def test_attention_is_that_of_torch(steps):
    config = Transformer((1, 8, 8), Convolutions((4,), 3), width=16, layers=steps, heads=8, feedforward=32)
    ours = config.build().double().eval()
    for layer in ours.layers:
        layer.attention.project.bias.data.normal_()
    x = torch.randn(3, 5, 16, dtype=torch.float64)
    mine, theirs = x, x
    for layer in ours.layers:
        torch_layer = torch.nn.TransformerEncoderLayer(16, 8, 32, batch_first=True, dtype=torch.float64).eval()
        names = {"self_attn.in_proj_": "attention.project.", "self_attn.out_proj.": "attention.merge."}
        names |= {
            "linear1.": "widen.",
            "linear2.": "narrow.",
            "norm1.": "attention_norm.",
            "norm2.": "feedforward_norm.",
        }
        weights = layer.state_dict()
        torch_layer.load_state_dict({k + w: weights[v + w] for k, v in names.items() for w in ("weight", "bias")})
        mine, theirs = layer(mine, None), torch_layer(theirs)
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)


def test_dropout_acts_in_training_only():
    scorer, items = scorer_and_items("transformer-s", "digits")
    assert torch.equal(scorer(items), scorer(items))
    scorer.train()
    assert not torch.equal(scorer(items), scorer(items))


def test_pooling_before_relu_is_the_paper_order_in_result_and_gradient():
    features = CNN((1, 8, 8), Convolutions((4, 6), 3)).build().double().features
    items = torch.randn(2, 3, 1, 8, 8, dtype=torch.float64, requires_grad=True)
    x = items.flatten(0, 1)
    for convolution in features.convolutions:
        x = torch.nn.functional.max_pool2d(torch.relu(convolution(x)), 2)
    expected = x.permute(0, 2, 3, 1).reshape(2, 3, -1)
    above = torch.randn_like(expected)
    assert torch.equal(features(items), expected)
    gradients = [torch.autograd.grad(out, items, above)[0] for out in (features(items), expected)]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-14)


def test_drawing_and_scoring_are_one_graph_to_the_compiler():
    dataset = data.open("digits2")
    scorer = models.build("transformer", dataset.family, dataset.item_shape).eval()

    def score(choice, mask):
        return scorer(dataset.normalise(dataset.take("train", choice).items), mask)

    choice = dataset.choose("train", 3, 4, data.stream("train", 0))
    mask = torch.tensor([[True] * 4, [True, True, False, False], [True] * 4])
    compiled = torch.compile(score, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(choice, mask), score(choice, mask))


@pytest.mark.parametrize("config", [CNN(SHAPES["small"], Convolutions((4,), 3)), MLP(7, (5,))], ids=["cnn", "mlp"])
def test_multiply_adds_grow_with_the_sequence(config):
    assert models.multiply_adds(config, 6) == 3 * models.multiply_adds(config, 2) > 0


def test_multiply_adds_of_a_vector_scorer_by_hand():
    assert models.multiply_adds(MLP(7, (5, 3)), 2) == 2 * (7 * 5 + 5 * 3 + 3)
    assert models.parameters(MLP(7, (5, 3)).build()) == 7 * 5 + 5 + 5 * 3 + 3 + 3 + 1


def test_vector_scorer_scores_each_row():
    scorer, items = MLP(7).build(), torch.randn(2, 3, 7)
    assert scorer(items).shape == (2, 3)
    torch.testing.assert_close(scorer(items[:, 1:])[:, 0], scorer(items)[:, 1])


@every_scorer
def test_configs_survive_json(name, family):
    config = models.configure(name, family, SHAPES[family])
    restored = models.from_dict(json.loads(json.dumps(models.to_dict(config))))
    assert restored == config
    assert type(restored) is type(config)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: models.build("cnm", "svhn", SHAPES["svhn"]), "cnn, transformer-s, transformer-l"),
        (lambda: models.names("mnist"), "digits, svhn, fragments, small"),
        (lambda: models.from_dict({"kind": "tree"}), "cnn, transformer, mlp"),
        (lambda: models.from_dict({"kind": "mlp", "inputs": 3, "depth": 2}), "a mlp has no depth"),
        (lambda: models.from_dict({"kind": "mlp"}), "not a whole mlp"),
        (lambda: models.from_dict({"kind": "cnn", "item_shape": [1, 8, 8], "convolutions": 3}), "not a whole cnn"),
        (lambda: models.build("cnn", "digits", (1, 3, 3)), "too small"),
        (lambda: models.build("cnn", "digits", (28, 28)), "item_shape must be"),
        (lambda: Transformer((1, 8, 8), Convolutions((4,)), width=10), "width must be a multiple of heads"),
        (lambda: Convolutions((4,), kernel=4), "kernel must be odd"),
        (lambda: Convolutions(()), "channels"),
        (lambda: Transformer((1, 8, 8), Convolutions((4,)), layers=0), "layers must be between 1 and 100, got 0"),
        (lambda: Convolutions((4,) * 101), "channels must be 1 to 100 positive numbers"),
        (lambda: MLP(0), "inputs"),
        (lambda: MLP(3, (1,) * 101), "hidden must have at most 100 layers, got 101"),
    ],
)
def test_wrong_values_are_named_with_the_choices(call, words):
    with pytest.raises(ValueError, match=words):
        call()
