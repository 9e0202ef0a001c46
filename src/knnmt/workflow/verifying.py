"""Whether a store is whole: every byte, and whether its indexes, views and combiners can be used."""

from pathlib import Path

from knnmt.datastore import Store, verify_files
from knnmt.errors import KnnmtError
from knnmt.methods import BASE, load_combiner
from knnmt.search import Searcher


def verify(store: Store | str | Path) -> list[str]:
    """A sentence for each problem of the store as it is on disk now; none if it is sound. Reads every byte.

    Example:
        problems = knnmt.verify("memory")
    """
    path = store.path if isinstance(store, Store) else Path(store)
    problems = verify_files(path)
    if problems:
        return problems
    opened = Store.open(path)  # which is damaged, if at all, in a way that the files do not show
    for view in (None, *sorted(opened.manifest.views)):
        try:
            Searcher(opened if view is None else opened.view(view), in_memory=False)
        except KnnmtError as error:
            problems.append(str(error))
    chosen = opened.manifest.default
    if chosen not in (None, BASE, *opened.combiners):
        problems.append(f"{opened.path} is to be used with {chosen}, which it does not have; choose with `knnmt use`")
    for name in sorted(opened.combiners):
        try:
            load_combiner(opened, name)
        except KnnmtError as error:
            problems.append(str(error))
    return problems
