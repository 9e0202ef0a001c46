import faiss
import pytest

from knnmt.search.threads import one_thread


@pytest.fixture(autouse=True)
def _two_threads():
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(2)
    yield
    faiss.omp_set_num_threads(before)


def test_one_thread_within_and_as_before_after():
    with one_thread():
        assert faiss.omp_get_max_threads() == 1
    assert faiss.omp_get_max_threads() == 2
    with one_thread(False):
        assert faiss.omp_get_max_threads() == 2
    with pytest.raises(RuntimeError), one_thread():
        raise RuntimeError
    assert faiss.omp_get_max_threads() == 2
