"""The table of methods, and the rule for which one is used when none is named."""

from knnmt.combiner.adaptive import Adaptive
from knnmt.combiner.base import Combiner, damaged, read_config
from knnmt.combiner.robust import Robust
from knnmt.combiner.vanilla import Vanilla
from knnmt.datastore import Store
from knnmt.errors import MethodError
from knnmt.shell import command

METHODS: dict[str, type[Combiner]] = {each.method: each for each in (Vanilla, Adaptive, Robust)}

BASE = "base"  # the model alone; a reserved name
_PREFERENCE = ("robust", "adaptive", "vanilla")


def default_name(store: Store) -> str:
    """robust, else adaptive, else vanilla, whichever was fitted, under its own name or any; else the base model."""
    fitted = {name: read_config(directory)["method"] for name, directory in sorted(store.combiners.items())}
    rank = {method: place for place, method in enumerate(_PREFERENCE)}
    return min(fitted, key=lambda name: (rank.get(fitted[name], len(rank)), name != fitted[name]), default=BASE)


def load_combiner(store: Store, name: str) -> Combiner | None:
    """The fitted combiner of that name; None for the base model."""
    if name == BASE:
        return None
    if name not in store.combiners:
        fitted = ", ".join(sorted(store.combiners)) or "none"
        raise MethodError(
            f"Nothing named {name} was fitted for the store {store.path} (fitted: {fitted}); "
            f"run `{command('fit', store.path, 'DEV', '--method', 'METHOD')}` first."
        )
    directory = store.combiners[name]
    config = read_config(directory)
    if config["method"] not in METHODS:
        raise MethodError(f"The combiner {name} is of the method {config['method']}, unknown here; upgrade knnmt.")
    try:
        combiner = METHODS[config["method"]].load(directory, config)
        fitted_to = combiner.record.get("model", store.model.fingerprint)
    except (KeyError, TypeError, AttributeError) as error:
        raise damaged(directory) from error
    if fitted_to != store.model.fingerprint:
        raise MethodError(f"The combiner {name} was fitted to another model than the store {store.path}; fit it again.")
    return combiner
