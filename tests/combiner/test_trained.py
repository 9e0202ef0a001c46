"""Networks on disk and from a seed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from worlds import observed

from knnmt.combiner import Combiner, Observation, Trained
from knnmt.methods import Adaptive, Robust

K = 8
COMBINERS: dict[str, Callable[[int], Trained]] = {
    "robust": lambda seed: Robust(K, 2.5, seed=seed),
    "robust, as printed": lambda seed: Robust(K, 2.5, top=3, dc=32, wp=4, temperature="paper", seed=seed),
    "robust without dc": lambda seed: Robust(K, 2.5, without=["dc"], seed=seed),
    "robust without both": lambda seed: Robust(K, 2.5, without=["wp", "dc"], seed=seed),
    "adaptive": lambda seed: Adaptive(K, 2.5, 12.5, hidden=6, seed=seed),
}


def observation(top: int) -> Observation:
    generator = torch.Generator().manual_seed(1)
    return observed(
        (torch.rand(5, K, generator=generator) * 30).sort(1).values,
        torch.randint(0, 9, (5, K), generator=generator),
        -torch.rand(5, K, generator=generator) * 4,
        -torch.rand(5, K, generator=generator) * 4,
        -torch.rand(5, top, generator=generator),
    )


def answers(combiner: Combiner) -> list[torch.Tensor]:
    with torch.inference_mode():
        answer = combiner.combine(observation(combiner.needs.top))
    return [answer.log_weights, answer.log_odds, answer.temperature, answer.c]


@pytest.mark.to_the_bit
@pytest.mark.parametrize("name", COMBINERS)
def test_saved_and_loaded_it_answers_the_same(name: str, tmp_path: Path) -> None:
    """Options and weights come from the files: the seed of loading is another than that of saving."""
    saved = COMBINERS[name](77)
    saved.record = {"nll": 1.25, "model": "abc", "note": "groß"}
    saved.save(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {"config.json", "model.safetensors"}
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert config == {"method": saved.method, "options": saved.options(), "record": saved.record}
    weights = load_file(tmp_path / "model.safetensors")
    assert weights.keys() == saved.network.state_dict().keys()
    for key, tensor in saved.network.state_dict().items():
        assert torch.equal(weights[key], tensor)
    loaded = type(saved).load(tmp_path, json.loads((tmp_path / "config.json").read_text()))
    assert (loaded.options(), loaded.record, loaded.needs.top) == (saved.options(), saved.record, saved.needs.top)
    for before, after in zip(answers(saved), answers(loaded), strict=True):
        assert torch.equal(before, after)


@pytest.mark.parametrize("name", COMBINERS)
def test_what_is_loaded_can_be_trained_on(name: str, tmp_path: Path) -> None:
    COMBINERS[name](1).save(tmp_path)
    combiner = COMBINERS[name](1)
    loaded = type(combiner).load(tmp_path, json.loads((tmp_path / "config.json").read_text()))
    loaded.combine(observation(loaded.needs.top)).log_odds.sum().backward()  # type: ignore[no-untyped-call]
    first = next(loaded.network.parameters())
    assert first.requires_grad
    assert first.grad is not None


@pytest.mark.parametrize("name", COMBINERS)
def test_first_weights_depend_on_the_seed_and_on_nothing_else(name: str) -> None:
    """Nor does making a combiner disturb the random numbers of whoever makes it."""
    torch.manual_seed(5)
    one = COMBINERS[name](3).network.state_dict()
    state = torch.get_rng_state()
    torch.manual_seed(6)
    same, other = (COMBINERS[name](seed).network.state_dict() for seed in (3, 4))
    drawn = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(6)
    assert torch.equal(drawn, torch.rand(3))
    for key, tensor in one.items():
        assert torch.equal(tensor, same[key])
        assert not torch.equal(tensor, other[key])


def test_the_signature_tells_networks_apart() -> None:
    """Two fits with the same options translate differently, and must not look the same in a report."""
    made = [make(seed) for make in COMBINERS.values() for seed in (1, 2)]
    assert len({combiner.signature for combiner in made}) == len(made)
    for combiner, again in zip(made, (make(seed) for make in COMBINERS.values() for seed in (1, 2)), strict=True):
        assert combiner.signature == again.signature
        assert combiner.signature.startswith("k:8|scale:2.5|")
