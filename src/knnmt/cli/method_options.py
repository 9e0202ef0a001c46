"""Options of `knnmt fit`, made from the options that the methods declare."""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from knnmt.methods import Method
from knnmt.options import AUTO, Option, options_of

_METAVARS = {int: "INTEGER", float: "NUMBER", str: "WORD"}


def with_method_options(run: Callable[..., None], methods: Mapping[str, type[Method]]) -> Callable[..., None]:
    """A function like `run` that also takes the options of every method.

    `run` has a parameter `given`: a dict of the options that the user gave, by name, as text.
    """
    declared: dict[str, dict[str, Option]] = {}  # by option, by method
    for method, kind in methods.items():
        for name, option in options_of(kind).items():
            declared.setdefault(name, {})[method] = option

    def command(**values: Any) -> None:
        given = {name: values.pop(name) for name in declared}
        run(**values, given={name: value for name, value in given.items() if value is not None})

    own = [each for each in inspect.signature(run).parameters.values() if each.name != "given"]
    more = [_parameter(name, of_methods, len(methods)) for name, of_methods in declared.items()]
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *more)]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.__doc__ = run.__doc__
    return command


def parsed(method: type[Method], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of options given as text; options that the method does not have stay text."""
    declared = options_of(method)
    return {
        name: declared[name].parse(value) if name in declared and isinstance(value, str) else value
        for name, value in given.items()
    }


def _parameter(name: str, of_methods: dict[str, Option], methods: int) -> inspect.Parameter:
    first = next(iter(of_methods.values()))
    help = _help(of_methods, everybody=len(of_methods) == methods)
    settings: dict[str, Any] = {"help": help, "rich_help_panel": first.declared.group, "show_default": False}
    kind: Any
    if first.kind is bool:
        kind = Annotated[bool | None, typer.Option(first.flag, **settings)]
    else:
        kind = Annotated[str | None, typer.Option(first.flag, metavar=_metavar(of_methods), **settings)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def _help(of_methods: dict[str, Option], everybody: bool) -> str:
    """The help text; what is the same for all methods is written once."""
    texts = {method: f"{option.declared.help}{_default(option)}" for method, option in of_methods.items()}
    methods = {text: [method for method in texts if texts[method] == text] for text in texts.values()}
    if len(methods) > 1:
        return " ".join(f"{', '.join(names)}: {text}" for text, names in methods.items())
    (text,) = methods
    return text if everybody else f"{text} ({', '.join(texts)})"


def _default(option: Option) -> str:
    if option.default is None or option.default is False or option.default == ():
        return ""
    value = option.default
    return f" [{','.join(map(str, value)) if isinstance(value, tuple) else value}]"


def _metavar(of_methods: dict[str, Option]) -> str:
    kinds = dict.fromkeys(_METAVARS[option.kind] for option in of_methods.values())
    return "|".join([*kinds, *([AUTO] if any(option.optional for option in of_methods.values()) else [])])
