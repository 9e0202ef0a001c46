"""States and log p of every family against the plain model, one sentence at a time, dense."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from families import FAMILIES, LANGUAGES
from sentences import SENTENCES
from tolerances import LOG_P, STATES

from knnmt.model import KEY_LAYERS, TorchEngine, TranslationModel

PAIRS = SENTENCES[:5] + SENTENCES[-5:]  # the models have seen the first, not the last


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def load(family_directory: Callable[[str], Path]) -> Callable[..., TranslationModel]:
    def loaded(family: str, **options: Any) -> TranslationModel:
        source_lang, target_lang = LANGUAGES[family]
        return TranslationModel.load(
            str(family_directory(family)), source_lang=source_lang, target_lang=target_lang, device="cpu", **options
        )

    return loaded


def encoded(model: TranslationModel) -> tuple[list[list[int]], list[list[int]]]:
    sources = model.codec.encode_sources([source for source, _ in PAIRS])
    return sources, model.codec.encode_targets([target for _, target in PAIRS])


def one_by_one(model: TranslationModel, source: list[int], target: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and states of the plain model, growing the target token by token: nothing can leak from the future."""
    logits, states = [], []
    prefix = list(model.codec.prefix)
    hook = model.tap.projection.register_forward_pre_hook(lambda _, inputs: states.append(inputs[0][0, -1]))
    with torch.inference_mode():
        for t in range(len(target)):
            output = model.hf(
                input_ids=torch.tensor([source]),
                attention_mask=torch.ones(1, len(source), dtype=torch.long),
                decoder_input_ids=torch.tensor([prefix + target[:t]]),
                use_cache=False,
            )
            logits.append(output.logits[0, -1])
    hook.remove()
    return torch.stack(logits), torch.stack(states)


def test_states_and_log_p_agree_with_the_plain_model(family: str, load: Callable[..., TranslationModel]) -> None:
    model = load(family)
    sources, targets = encoded(model)
    assert {len(target) for target in targets} != {len(targets[0])}, "without padding the test would show little"
    states = TorchEngine(model).teacher_forced(sources, targets)
    log_p = TorchEngine(model).log_p(states)
    start = 0
    for source, target in zip(sources, targets, strict=True):
        rows = slice(start, start + len(target))
        logits, hidden = one_by_one(model, source, target)
        expected = torch.log_softmax(logits.double(), 1)[range(len(target)), target]
        torch.testing.assert_close(states.keys[rows], hidden, **STATES)
        torch.testing.assert_close(log_p[rows].double(), expected, rtol=0, atol=LOG_P)
        assert states.tokens[rows].tolist() == target
        start += len(target)
    assert start == len(states.keys) == len(log_p)
    assert log_p.std() > 0.1


@pytest.mark.parametrize("key_layer", KEY_LAYERS)
def test_a_key_does_not_depend_on_later_tokens(
    family: str, key_layer: str, load: Callable[..., TranslationModel]
) -> None:
    model = load(family, key_layer=key_layer)
    sources, targets = encoded(model)
    keep = 3
    changed = [target[:keep] + other[keep:] for target, other in zip(targets, targets[1:] + targets[:1], strict=True)]
    before = TorchEngine(model).teacher_forced(sources, targets)
    after = TorchEngine(model).teacher_forced(sources, changed)
    starts = np.cumsum([0, *map(len, targets)]), np.cumsum([0, *map(len, changed)])
    for i in range(len(PAIRS)):
        # the key of position `keep` is the first that sees the first changed token only as what it must predict
        one = before.keys[starts[0][i] : starts[0][i] + keep + 1]
        two = after.keys[starts[1][i] : starts[1][i] + keep + 1]
        torch.testing.assert_close(one, two, **STATES)
    assert before.keys.std() > 0.01
    assert not torch.allclose(before.keys[0], before.keys[1], atol=1e-2)


def test_fsmt_would_leak_the_future_with_its_default_cache(load: Callable[..., TranslationModel]) -> None:
    """The trap that `use_cache=False` avoids is really there; if this fails, transformers has fixed it."""
    model = load("fsmt")
    sources, targets = encoded(model)
    target = targets[0]
    states = []
    hook = model.tap.projection.register_forward_pre_hook(lambda _, inputs: states.append(inputs[0][0, 0]))
    with torch.inference_mode():
        for last in (target[-2], target[0]):
            decoder_input = torch.tensor([[*model.codec.prefix, *target[:-2], last]])
            model.hf(input_ids=torch.tensor([sources[0]]), decoder_input_ids=decoder_input)
    hook.remove()
    assert not torch.allclose(states[0], states[1], atol=1e-3)


@pytest.mark.parametrize("key_layer", KEY_LAYERS)
def test_decoding_sees_the_keys_that_building_stores(
    family: str, key_layer: str, load: Callable[..., TranslationModel]
) -> None:
    model = load(family, key_layer=key_layer)
    source = encoded(model)[0][2]
    prefix = model.codec.prefix
    seen = []
    with model.tap.listening() as heard:
        hook = model.hf.register_forward_hook(lambda *_: seen.append(heard.keys[0, -1]))
        output = model.hf.generate(
            input_ids=torch.tensor([source]),
            num_beams=1,
            max_length=14,
            decoder_start_token_id=prefix[0],
            forced_bos_token_id=prefix[1] if len(prefix) > 1 else None,
        )
    hook.remove()
    target = output[0, len(prefix) :].tolist()
    stored = TorchEngine(model).teacher_forced([source], [target]).keys
    assert len(target) > 3
    torch.testing.assert_close(torch.stack(seen)[len(prefix) - 1 :], stored, **STATES)


def test_ffn_input_is_another_key_of_the_same_size(family: str, load: Callable[..., TranslationModel]) -> None:
    output, ffn = load(family), load(family, key_layer="ffn_input")
    sources, targets = encoded(output)
    one, two = TorchEngine(output).teacher_forced(sources, targets), TorchEngine(ffn).teacher_forced(sources, targets)
    assert one.keys.shape == two.keys.shape == (sum(map(len, targets)), output.dim)
    assert not torch.allclose(one.keys, two.keys, atol=1e-2)
    torch.testing.assert_close(one.hidden, two.hidden, **STATES)
    torch.testing.assert_close(TorchEngine(output).log_p(one), TorchEngine(ffn).log_p(two), rtol=0, atol=LOG_P)


def test_ffn_input_is_what_enters_the_last_feed_forward(load: Callable[..., TranslationModel]) -> None:
    """For a post-norm model the output is norm(x + ffn(x)) of it: computed here from the key by hand."""
    model = load("bart", key_layer="ffn_input")
    sources, targets = encoded(model)
    states = TorchEngine(model).teacher_forced(sources, targets)
    last = model.hf.get_decoder().layers[-1]
    with torch.inference_mode():
        fed = last.fc2(last.activation_fn(last.fc1(states.keys)))
        expected = last.final_layer_norm(states.keys + fed)
    torch.testing.assert_close(states.hidden, expected, **STATES)


def test_batches_hold_every_sentence_once(load: Callable[..., TranslationModel]) -> None:
    model = load("marian")
    sources, targets = encoded(model)
    whole = TorchEngine(model).teacher_forced(sources, targets)
    starts = np.cumsum([0, *map(len, targets)])
    seen = []
    for states in TorchEngine(model).batches(sources, targets, budget=60):
        begin = 0
        for sentence, length in zip(states.sentences, states.lengths, strict=True):
            expected = whole.keys[starts[sentence] : starts[sentence] + length]
            torch.testing.assert_close(states.keys[begin : begin + length], expected, **STATES)
            begin += length
            seen.append(int(sentence))
    assert sorted(seen) == list(range(len(PAIRS)))


def test_the_pass_itself_does_not_touch_the_vocabulary(family: str, load: Callable[..., TranslationModel]) -> None:
    """Logits are made once, in `log_p`, for the positions that count; the model's own projection gets no row."""
    model = load(family)
    sources, targets = encoded(model)
    projected = []
    hook = model.tap.projection.register_forward_hook(lambda _, inputs, output: projected.append(output.numel()))
    TorchEngine(model).teacher_forced(sources, targets)
    hook.remove()
    assert projected == [0]
