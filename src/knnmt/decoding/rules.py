"""What a model's generation config asks for, as far as our beam search supports it."""

from dataclasses import dataclass
from typing import Any

from transformers import GenerationConfig

from knnmt.model import TranslationModel

# Options that change the result of beam search and that ours does not support, with the values that have no effect.
_UNKNOWN: dict[str, tuple[Any, ...]] = {
    "repetition_penalty": (None, 1.0),
    "encoder_repetition_penalty": (None, 1.0),
    "no_repeat_ngram_size": (None, 0),
    "encoder_no_repeat_ngram_size": (None, 0),
    "exponential_decay_length_penalty": (None,),
    "sequence_bias": (None,),
    "forced_decoder_ids": (None,),
    "begin_suppress_tokens": (None, []),
    "guidance_scale": (None, 1.0),
    "watermarking_config": (None,),
    "stop_strings": (None,),
    "remove_invalid_values": (None, False),
    "diversity_penalty": (None, 0.0),
    "num_beam_groups": (None, 1),
    "constraints": (None,),
}


@dataclass(frozen=True)
class Rules:
    """What hypotheses may look like.

    Attributes:
        eos: tokens that end a hypothesis
        banned: tokens that never occur
        forced_eos: whether a hypothesis that reaches the cap gets an end of sentence with log p 0
        renormalize: whether the probability of banned tokens is shared among the others
        min_length: minimum number of tokens before an end, prefix included
    """

    eos: tuple[int, ...]
    banned: tuple[int, ...]
    forced_eos: bool
    renormalize: bool
    min_length: int

    @classmethod
    def of(cls, model: TranslationModel) -> "Rules | str":
        """The rules of a model, or the name of an option that is not supported."""
        config: GenerationConfig = model.hf.generation_config
        for name, idle in _UNKNOWN.items():
            if getattr(config, name, None) not in idle:
                return name
        words = config.bad_words_ids or []
        if any(len(word) != 1 for word in words):
            return "bad_words_ids of several tokens"
        asked = config.eos_token_id if config.eos_token_id is not None else model.codec.eos
        eos = tuple(asked) if isinstance(asked, list) else (int(asked),)
        # as in transformers, an end of sentence is not banned as a bad word
        bad = {word[0] for word in words} - set(eos)
        new = config.min_new_tokens
        return cls(
            eos=eos,
            banned=tuple(sorted(bad | set(config.suppress_tokens or []))),
            forced_eos=config.forced_eos_token_id is not None,
            renormalize=bool(config.renormalize_logits),
            # min_new_tokens, which does not count the start token, wins over min_length, as in transformers
            min_length=(config.min_length or 0) if new is None else 1 + new,
        )
