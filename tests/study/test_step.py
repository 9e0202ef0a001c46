"""Keys of steps: they depend on everything that determines a result, and on nothing else."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tiny_study import HALVED, PLAIN, QUICK, closure, fake_model, pairs_of, setup_of, write_pairs

from knnmt.decoding import Settings
from knnmt.study import STUDIES
from knnmt.study.benchmark import Split
from knnmt.study.lab import BaseModel
from knnmt.study.setup import VANILLA_K, Setup
from knnmt.study.step import Estimate, Step
from knnmt.study.steps import (
    Build,
    Collect,
    CollectContext,
    Comet,
    Compare,
    Finetune,
    Fit,
    Judge,
    Mix,
    System,
    Translate,
    View,
)
from knnmt.study.studies import main

TWO = (HALVED, PLAIN)


@pytest.fixture(autouse=True)
def comet_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "_has_comet", lambda: True)


def wanted(setup: Setup) -> Iterator[Step]:
    """What all studies ask for."""
    return (step for study in STUDIES.values() for step in study.steps(setup))


@pytest.fixture(scope="module")
def setup(benchmark: Path) -> Setup:
    return setup_of(benchmark, TWO)


def changed_by(setup: Setup, other: Setup) -> list[tuple[Step, bool]]:
    """Every step and all inputs, and whether its key is another one with the other setup."""
    pairs: dict[str, tuple[Step, Step]] = {}

    def walk(one: Step, two: Step) -> None:
        if one.key in pairs:
            assert pairs[one.key][1].key == two.key, "one step became two"
            return
        assert type(one) is type(two)
        pairs[one.key] = one, two
        for below in zip(one.inputs(), two.inputs(), strict=True):
            walk(*below)

    for steps in zip(wanted(setup), wanted(other), strict=True):
        walk(*steps)
    return [(one, one.key != two.key) for one, two in pairs.values()]


def check(setup: Setup, other: Setup, touched: Callable[[Step], bool]) -> None:
    """Exactly the touched steps, and what depends on them, have other keys."""
    known: dict[str, bool] = {}

    def expected(step: Step) -> bool:
        if step.key not in known:
            known[step.key] = touched(step) or any(expected(each) for each in step.inputs())
        return known[step.key]

    steps = changed_by(setup, other)
    wrong = {step.title for step, changed in steps if changed != expected(step)}
    assert not wrong
    assert {changed for _, changed in steps} == {True, False}


def test_every_kind_of_step_is_looked_at(setup: Setup) -> None:
    kinds = {type(step) for step in closure(wanted(setup)).values()}
    assert kinds == {Build, Collect, CollectContext, Comet, Compare, Finetune, Fit, Judge, Mix, Translate, View}
    assert len({each.kind for each in kinds}) == len(kinds), "each has a directory of its own"


def test_nothing_but_the_content_matters(setup: Setup, benchmark: Path, tmp_path: Path) -> None:
    """Not the directory, not the name of the model, not its size."""
    copied = shutil.copytree(benchmark, tmp_path / "elsewhere")
    model = replace(fake_model("/another/place"), dim=64, parameters=7)
    other = setup_of(copied, TWO, model=model)
    assert not any(changed for _, changed in changed_by(setup, other))


def test_settings_that_do_not_change_translations(setup: Setup) -> None:
    signature = Settings(batch_size=7, in_memory=True).signature
    assert replace(setup, decoding=signature) == setup


@pytest.mark.parametrize("name", ["train", "dev", "test"])
def test_texts(setup: Setup, benchmark: Path, tmp_path: Path, name: str) -> None:
    copied = shutil.copytree(benchmark, tmp_path / "other")
    write_pairs(copied / PLAIN, name, pairs_of(PLAIN)[:4])
    other = setup_of(copied, TWO)

    def touched(step: Step) -> bool:
        splits = [getattr(step, each.name) for each in fields(step)]
        return any(isinstance(each, Split) and each.name == f"{PLAIN} {name}" for each in splits)

    check(setup, other, touched)


def test_a_shorter_test_set(setup: Setup) -> None:
    domains = setup.benchmark.domains
    shorter = domains | {PLAIN: domains[PLAIN].limited(2)}
    other = replace(setup, benchmark=replace(setup.benchmark, domains=shorter))
    check(setup, other, lambda step: getattr(step, "split", None) == domains[PLAIN].test)


def test_the_model(setup: Setup) -> None:
    """Everything depends on everything about it."""
    for about, _ in fake_model().about:
        other = replace(setup, model=fake_model(**{about: "another"}))
        assert setup.store(setup.domains[0]).key != other.store(other.domains[0]).key
    assert all(changed for _, changed in changed_by(setup, other))


def test_decoding(setup: Setup) -> None:
    other = replace(setup, decoding=Settings(beam=5).signature)
    check(setup, other, lambda step: isinstance(step, Translate))


def test_the_kind_of_index(setup: Setup) -> None:
    other = replace(setup, preset=replace(QUICK, index="ivf"))
    check(setup, other, lambda step: isinstance(step, Build))


def test_beta_of_a_domain(setup: Setup) -> None:
    other = replace(setup, preset=replace(QUICK, beta={PLAIN: 20.0}))
    check(setup, other, lambda step: isinstance(step, Fit) and step.method == "robust" and on(step, PLAIN))


def test_temperature_of_a_domain(setup: Setup) -> None:
    given, other = (replace(setup, preset=replace(QUICK, temperature={PLAIN: value})) for value in (50.0, 100.0))
    check(given, other, lambda step: isinstance(step, Fit) and step.method == "adaptive" and on(step, PLAIN))
    for domain in setup.domains:
        assert (given.fit(domain, "adaptive").vanilla is None) == (domain.name == PLAIN), "given, or that of vanilla"


def test_given_values_of_vanilla(setup: Setup) -> None:
    given = {PLAIN: {"k": VANILLA_K, "lambda": 0.5, "temperature": 10.0}}
    other = replace(setup, preset=replace(QUICK, vanilla=given))
    check(setup, other, lambda step: isinstance(step, Fit) and step.method == "vanilla" and on(step, PLAIN))


def test_options_of_a_method(setup: Setup) -> None:
    more = {**QUICK.options, "adaptive": {**QUICK.options["adaptive"], "updates": 11}}
    other = replace(setup, preset=replace(QUICK, options=more))
    check(setup, other, lambda step: isinstance(step, Fit) and step.method == "adaptive")


def test_the_name_of_a_preset(setup: Setup) -> None:
    other = replace(setup, preset=replace(QUICK, name="another"))
    assert not any(changed for _, changed in changed_by(setup, other))


def on(step: Fit, domain: str) -> bool:
    return step.memory.domain == domain


def test_more_seeds_and_more_domains_add_steps(setup: Setup, benchmark: Path) -> None:
    """What was computed for fewer is used again, except where all domains meet."""
    for fewer in (replace(setup, seeds=dict.fromkeys(TWO, 1)), setup_of(benchmark, [HALVED])):
        for study in STUDIES.values():
            few, many = (closure(study.steps(each)) for each in (fewer, setup))
            gone = {type(step) for step in few.values() if step.key not in many}
            assert gone <= ({Compare} if study.name in ("ablation", "offdomain", "evidence-limits") else set()), (
                study.name
            )


ANOTHER: dict[str, Any] = {"str": "other", "int": 7, "float": 0.5}


def changes(step: Step, name: str, others: list[Step]) -> list[Any]:
    """Other values for a field of a step."""
    value = getattr(step, name)
    if isinstance(value, Split):
        return [replace(value, digest="0"), replace(value, start=value.start + 1), replace(value, stop=value.stop - 1)]
    if isinstance(value, BaseModel):
        return [fake_model(fingerprint="another")]
    if isinstance(value, Step):
        return [each for each in others if type(each) is type(value) and each.key != value.key][:2]
    if isinstance(value, tuple):
        if value and isinstance(value[0], System):
            renamed = replace(value[0], name="other")
            return [value[1:], value[::-1], (renamed, *value[1:]), (replace(value[0], blocks=()), *value[1:])]
        return [value[1:], value[::-1]] if len(value) > 1 else [(*value, ("more", 1))]
    if value is None:
        return ["something"]
    return [ANOTHER.get(type(value).__name__)]


def test_each_field_matters(setup: Setup) -> None:
    steps = list(closure(wanted(setup)).values())
    seen = set()
    for step in steps:
        for each in fields(step):
            if (kind := (type(step), each.name, type(getattr(step, each.name)))) in seen:
                continue
            seen.add(kind)
            keys = {replace(step, **{each.name: value}).key for value in changes(step, each.name, steps)}
            assert keys, f"{kind} was not tried"
            assert step.key not in keys, f"{kind} does not matter"
    assert {(kind, name) for kind, name, _ in seen} == {
        (type(step), each.name) for step in steps for each in fields(step)
    }


def test_what_does_not_matter_in_a_split(setup: Setup) -> None:
    step = setup.store(setup.domains[0])
    moved = replace(step.train, name="x", files=(Path("a"), Path("b")), languages=None, line_tokens=3.0)
    assert replace(step, train=moved).key == step.key


@dataclass(frozen=True)
class Dream(Step):
    kind: ClassVar[str] = "dream"
    of: Any = None

    @property
    def title(self) -> str:
        return "A dream"

    def run(self, lab: Any) -> dict[str, Any]:
        return {}

    def estimate(self) -> Estimate:
        return Estimate(1.0)


@dataclass(frozen=True)
class Again(Dream):
    version: ClassVar[int] = 2


@dataclass(frozen=True)
class Nightmare(Dream):
    kind: ClassVar[str] = "nightmare"


def test_kind_and_version_matter() -> None:
    assert len({Dream(1).key, Again(1).key, Nightmare(1).key, Dream(2).key, Dream((1,)).key, Dream("1").key}) == 6


def test_inputs_are_steps_in_any_field() -> None:
    one, two, three = Dream(1), Dream(2), Dream(3)
    assert list(Dream((one, (two, "x"), None)).inputs()) == [one, two]
    assert list(Dream(three).inputs()) == [three]
    assert list(Dream({"x": 1}).inputs()) == []
