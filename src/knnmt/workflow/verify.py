"""Whether a store is whole: every byte, and whether its index and combiners can be used."""

from pathlib import Path

from knnmt.combiner import load_combiner
from knnmt.datastore import Store, verify_files
from knnmt.errors import KnnmtError
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
    try:
        Searcher(opened, in_memory=False)
    except KnnmtError as error:
        problems.append(str(error))
    for name in sorted(opened.combiners):
        try:
            load_combiner(opened, name)
        except KnnmtError as error:
            problems.append(str(error))
    return problems
