"""Check every byte of a store, and that its indexes, views and combiners can be used."""

from pathlib import Path

from knnmt.datastore import Store, verify_files
from knnmt.errors import KnnmtError
from knnmt.methods import BASE, load_combiner
from knnmt.search import Searcher


def verify(store: Store | str | Path) -> list[str]:
    """One sentence per problem of the store on disk; none if it is sound. Reads every byte.

    Example:
        problems = knnmt.verify("memory")
    """
    path = store.path if isinstance(store, Store) else Path(store)
    problems = verify_files(path)
    if problems:
        return problems
    opened = Store.open(path)  # its files are sound by now, but their content may still be wrong
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
