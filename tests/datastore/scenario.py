"""Small builds that the tests of the datastore share, and a process that dies at a chosen moment of one.

Run as a script it forks a child for every moment at which a build touches the disk, and stops it there:

    scenario.py kill DIRECTORY ACTION     SIGKILL, just before the operation
    scenario.py full DIRECTORY ACTION     the disk is full from that operation on

ACTION is the name of a function of this file. DIRECTORY holds a store called "before"; "before.N" is what child N left.
Prints the children's exit codes.
"""

import errno
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from knnmt.corpus import Pair
from knnmt.datastore import Entries, ModelRecord, Store, StoreWriter, storage_errors
from knnmt.errors import StoreError

DIM = 5
MODEL = ModelRecord(
    id="toy",
    fingerprint="f" * 32,
    tokenizer="t" * 32,
    key_layer="output",
    dim=DIM,
    vocab_size=1000,
    engine="torch",
    precision="float32",
    source_prefix="",
    source_lang="de",
    target_lang="en",
    max_length=512,
)


@dataclass
class Block:
    keys: Any  # fp16 [tokens, DIM]
    values: Any  # int32 [tokens]
    confidence: Any  # float32 [tokens]
    lengths: list[int]
    pairs: list[Pair]


def make_block(seed: int, sentences: int = 7, longest: int = 9) -> Block:
    random = np.random.default_rng(seed)
    lengths = random.integers(1, longest + 1, sentences).tolist()
    tokens = sum(lengths)
    pairs = [
        Pair(f"Satz {seed}.{n} über ß", f"sentence {seed}.{n}", f"file{n % 3}.tsv", n + 1) for n in range(sentences)
    ]
    return Block(
        random.normal(size=(tokens, DIM)).astype(np.float16),
        random.integers(0, 1000, tokens).astype(np.int32),
        -random.exponential(size=tokens).astype(np.float32),
        lengths,
        pairs,
    )


def build(path: Path, key: str, blocks: Sequence[Block], index: bool = False) -> Store:
    """What `knnmt build` does, run again after a kill too."""
    with StoreWriter(path, MODEL) as writer:
        staged = writer.stage(key)
        if staged.blocks:
            assert staged.state == {"seen": staged.blocks}
        for number in range(staged.blocks, len(blocks)):
            block = blocks[number]
            staged.append(block.keys, block.values, block.confidence, block.lengths, block.pairs, {"seen": number + 1})
        plan = writer.plan(staged)
        directory = None
        if index:
            directory = writer.new_directory("index")
            names = [segment.name for segment in plan.segments]
            with storage_errors(directory):
                (directory / "config.json").write_text(json.dumps({"segments": names}), encoding="utf-8")
        return writer.commit(plan, index=directory)


FIRST = [make_block(1), make_block(2)]
SECOND = [make_block(3), make_block(4), make_block(5)]


def second_build(path: Path) -> Store:
    return build(path, "second", SECOND[:2], index=True)


def commit_view(path: Path) -> Store:
    """Every third row is left out, and the view has an index."""
    with StoreWriter(path, MODEL) as writer:
        segments = writer.opened.segments
        entries = Entries(segments, {segment.name: np.arange(len(segment)) % 3 > 0 for segment in segments})
        index = writer.new_directory("index")
        with storage_errors(index):
            (index / "config.json").write_text(json.dumps({"segments": entries.checksums}), encoding="utf-8")
        return writer.commit_view("pruned", entries, index)


def at_every_moment(interrupt: Callable[[str, tuple[Any, ...]], None], chosen: int) -> None:
    """From now on call `interrupt` at each operation that changes the disk, from the chosen one on."""
    watched = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate"}
    count = 0

    def touch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        reads = event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if event in watched and not reads and not str(arguments[0]).startswith(sys.prefix):
            count += 1
            if count >= chosen:
                interrupt(event, arguments)

    def watched_fsync(fd: object) -> None:
        nonlocal count
        count += 1
        if count >= chosen:
            interrupt("fsync", (fd,))

    os.fsync = watched_fsync  # nobody cuts the power here, and real ones take most of the time
    sys.addaudithook(touch)


def kill(event: str, arguments: tuple[Any, ...]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def full(event: str, arguments: tuple[Any, ...]) -> None:
    """Renaming, truncating and removing work on a full disk."""
    if event in {"open", "fsync", "os.mkdir"}:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def child(
    store: Path, interrupt: Callable[[str, tuple[Any, ...]], None], moment: int, action: Callable[[Path], Store]
) -> int:
    """Exit code: 0 the action went through, 3 a StoreError, 1 anything else."""
    at_every_moment(interrupt, moment)
    try:
        action(store)
    except StoreError as error:
        print(error, file=sys.stderr)
        return 3
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main(mode: str, directory: Path, action: str) -> None:
    interrupt = {"kill": kill, "full": full}[mode]
    codes: list[int] = []
    while not codes or codes[-1] != 0:
        store = directory / f"before.{len(codes)}"
        if (directory / "before").exists():
            shutil.copytree(directory / "before", store)
        process = os.fork()
        if process == 0:
            os._exit(child(store, interrupt, len(codes) + 1, globals()[action]))
        codes.append(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
    print(json.dumps(codes))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
