"""Convert text to token ids and back, for each family: language tokens, forced tokens, two vocabularies."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from knnmt.errors import ModelError
from knnmt.model.sharing import lock_of

_UNLIMITED = 1024  # if neither the model nor the tokenizer has a limit


class Codec:
    """A tokenizer bound to one direction of translation. Other objects and threads may share the tokenizer.

    Attributes:
        source_lang, target_lang: as the model writes them, or None if it does not say
        prefix: the first inputs of the decoder, which are never predicted: the start token and the forced language
            token, if the model has one
        eos: the id of the end of sentence
        max_length: the longest source or target, in tokens
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        source_lang: str | None = None,
        target_lang: str | None = None,
        source_prefix: str = "",
    ) -> None:
        self.tokenizer = tokenizer
        self.source_prefix = source_prefix
        self.eos = _end_of_sentence(model, tokenizer)
        self.pad = int(tokenizer.pad_token_id)
        self.two_vocabularies = model.config.model_type == "fsmt"
        self.multilingual = hasattr(tokenizer, "set_src_lang_special_tokens")
        self.source_lang: str | None
        self.target_lang: str | None
        if self.multilingual:
            self.source_lang, self.target_lang = self._checked_languages(source_lang, target_lang)
        else:
            self.source_lang = _agree("source", _first_attribute(tokenizer, "source_lang", "src_lang"), source_lang)
            self.target_lang = _agree("target", _first_attribute(tokenizer, "target_lang", "tgt_lang"), target_lang)
        self.prefix = self._prefix(model)
        # a forced token takes a position of the decoder
        self.max_length = _max_length(model.config, tokenizer) - (len(self.prefix) - 1)

    @property
    def languages(self) -> tuple[str, str] | None:
        """Source and target language, if both are known."""
        return (self.source_lang, self.target_lang) if self.source_lang and self.target_lang else None

    def encode_sources(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each source, not truncated: the caller skips or truncates long ones."""
        if not texts:
            return []
        texts = [self.source_prefix + text for text in texts]
        with self.bound() as tokenizer:
            return list(tokenizer(texts, verbose=False)["input_ids"])

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each target as the model should predict it: no forced prefix, but the end of sentence."""
        if not texts:
            return []
        with self.bound() as tokenizer, self._as_target():
            rows = tokenizer(text_target=list(texts), verbose=False)["input_ids"]
        return [self._predicted(row) for row in rows]

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row of target ids, without special tokens."""
        with lock_of(self.tokenizer):
            return list(self.tokenizer.batch_decode(list(rows), skip_special_tokens=True))

    def piece(self, token: int) -> str:
        """A token of the target vocabulary as the tokenizer writes it."""
        with lock_of(self.tokenizer):
            return str(self.tokenizer.convert_ids_to_tokens(token))

    def truncate_source(self, ids: list[int]) -> list[int]:
        """The first `max_length` tokens, including the special tokens at the end."""
        if len(ids) <= self.max_length:
            return ids
        closing = ids[::-1].index(self.eos) + 1 if self.eos in ids else 0
        return ids[: self.max_length - closing] + ids[len(ids) - closing :]

    def _predicted(self, row: list[int]) -> list[int]:
        if len(self.prefix) > 1 and row[:1] == [self.prefix[1]]:
            row = row[1:]
        # mBART-cc25 writes its language after the end of sentence; what follows the end is never predicted.
        content = row[: row.index(self.eos)] if self.eos in row else row
        return [*content, self.eos]

    def _checked_languages(self, source_lang: str | None, target_lang: str | None) -> tuple[str, str]:
        if source_lang is None or target_lang is None:
            raise ModelError(
                "This model translates between many languages; say which with --source-lang and --target-lang "
                f"(it writes them like {_example(self.tokenizer)})."
            )
        for code in (source_lang, target_lang):
            self._language_id(code)
        return source_lang, target_lang

    def _language_id(self, code: str) -> int:
        # "de" may be an ordinary token: M2M100 writes its codes as __de__, other families have special tokens.
        tokenizer = self.tokenizer
        if hasattr(tokenizer, "get_lang_id"):
            index = tokenizer.get_lang_id(code) if code in tokenizer.lang_code_to_token else None
        else:
            index = tokenizer.convert_tokens_to_ids(code) if code in tokenizer.all_special_tokens else None
        if index is None:
            raise ModelError(
                f"The model does not know the language {code}; it writes them like {_example(self.tokenizer)}."
            )
        return int(index)

    def _prefix(self, model: Any) -> tuple[int, ...]:
        generation = model.generation_config
        start = generation.decoder_start_token_id
        start = start if start is not None else model.config.decoder_start_token_id
        forced = generation.forced_bos_token_id
        if self.target_lang is not None and self.multilingual:
            language = self._language_id(self.target_lang)
            with self.bound() as tokenizer:
                row = tokenizer(text_target="a")["input_ids"]
            if model.config.model_type == "mbart" and row[-1] == language:
                start, forced = language, None  # mBART-cc25 begins with the language
            else:
                forced = language
        if start is None:
            raise ModelError("The model does not say which token its decoder starts with (decoder_start_token_id).")
        return (int(start),) if forced is None else (int(start), int(forced))

    @contextmanager
    def bound(self) -> Iterator[Any]:
        """The tokenizer, locked and set to this direction; its former state is restored afterwards.

        The languages, the padding and whether it reads sources or targets are state of the tokenizer.
        """
        tokenizer = self.tokenizer
        with lock_of(tokenizer):
            if not self.multilingual:
                yield tokenizer
                return
            kept = tokenizer.src_lang, tokenizer.tgt_lang
            tokenizer.src_lang, tokenizer.tgt_lang = self.source_lang, self.target_lang
            try:
                yield tokenizer
            finally:
                tokenizer.src_lang, tokenizer.tgt_lang = kept

    @contextmanager
    def _as_target(self) -> Iterator[None]:
        """Give FSMT's tokenizer the target's vocabulary and language; it always encodes with those of the source."""
        if not self.two_vocabularies:
            yield
            return
        tokenizer = self.tokenizer
        kept = tokenizer.encoder, tokenizer.src_lang
        tokenizer.encoder = {token: index for index, token in tokenizer.decoder.items()}
        tokenizer.src_lang = tokenizer.tgt_lang
        try:
            yield
        finally:
            tokenizer.encoder, tokenizer.src_lang = kept


def _first_attribute(tokenizer: Any, *names: str) -> str | None:
    for name in names:
        if value := getattr(tokenizer, name, None):
            return str(value)
    return None


def _agree(side: str, own: str | None, asked: str | None) -> str | None:
    if own and asked and own != asked:
        raise ModelError(f"The model's {side} language is {own}, not {asked}; leave --{side}-lang out.")
    return own or asked


def _example(tokenizer: Any) -> str:
    codes = getattr(tokenizer, "lang_code_to_token", None) or [
        token for token in tokenizer.all_special_tokens if "_" in token
    ]
    return ", ".join(list(codes)[:3]) or "de, en"


def _end_of_sentence(model: Any, tokenizer: Any) -> int:
    # FSMT's tokenizer does not name its end of sentence, and a generation config may name several
    ids = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else model.generation_config.eos_token_id
    return int(ids[0] if isinstance(ids, list) else ids)


def _max_length(config: Any, tokenizer: Any) -> int:
    limits = [getattr(config, "max_position_embeddings", None), tokenizer.model_max_length]
    known = [int(limit) for limit in limits if limit is not None and limit < 1_000_000]
    return min(known, default=_UNLIMITED)
