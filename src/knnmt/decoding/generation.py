"""Search with transformers' `generate`, for what our beam search does not support; one length cap per sentence."""

import copy
from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor
from transformers import LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList

from knnmt.decoding.attaching import mixing
from knnmt.decoding.hypothesis import Hypothesis
from knnmt.decoding.settings import Settings
from knnmt.memory import Memory
from knnmt.model import Engine, TorchEngine, TranslationModel


class _Limits:
    """The maximum length per sentence; the rows of a sentence, one or more, are contiguous."""

    def __init__(self, limits: Tensor) -> None:
        self.limits = limits

    def reached(self, ids: Tensor, spare: int = 0) -> Tensor:
        per_sentence = len(ids) // len(self.limits)
        return ids.shape[1] >= self.limits.repeat_interleave(per_sentence) - spare


class _StopAtLimit(_Limits, StoppingCriteria):
    def __call__(self, input_ids: Tensor, scores: Tensor, **kwargs: object) -> Tensor:
        return self.reached(input_ids)


class _EndAtLimit(_Limits, LogitsProcessor):
    """Does what `forced_eos_token_id` does at max_length, but at each sentence's own limit."""

    def __init__(self, limits: Tensor, eos: int) -> None:
        super().__init__(limits)
        self.eos = eos

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        ending = torch.full_like(scores, -torch.inf)
        ending[:, self.eos] = 0
        return torch.where(self.reached(input_ids, spare=1)[:, None], ending, scores)


class GenerateSearch:
    """Beam search by `model.generate`, with or without a memory."""

    name = "generate"

    def __init__(self, model: TranslationModel, memory: Memory | None = None) -> None:
        self.model, self.memory = model, memory
        self.engine: Engine = TorchEngine(model)  # for explanations; `generate` runs the model itself

    @torch.inference_mode()
    def decode(self, sources: Sequence[list[int]], settings: Settings) -> list[list[Hypothesis]]:
        """The n best hypotheses of each encoded source, best first."""
        model, prefix = self.model, self.model.codec.prefix
        padded, mask = model.pad_sources(sources)
        longest = model.codec.max_length - len(prefix)
        caps = [min(settings.cap(len(source)), longest) + len(prefix) for source in sources]
        limits = torch.tensor(caps, device=model.device)
        config = copy.deepcopy(model.hf.generation_config)
        processors = LogitsProcessorList()
        if config.forced_eos_token_id is not None:
            processors.append(_EndAtLimit(limits, model.codec.eos))
        config.update(
            do_sample=False,
            num_beams=settings.beam,
            num_return_sequences=settings.n_best,
            length_penalty=settings.penalty if settings.beam > 1 else 1.0,  # greedy search has none
            early_stopping=False,
            max_length=max(caps),
            max_new_tokens=None,
            decoder_start_token_id=prefix[0],
            forced_bos_token_id=prefix[1] if len(prefix) > 1 else None,
            forced_eos_token_id=None,
            return_dict_in_generate=True,
            output_scores=settings.n_best > 1,
        )
        memory = self.memory
        with (
            model.tap.listening(context=memory is not None and bool(memory.combiner.needs.context)) as heard,
            mixing(model.hf, heard, memory, len(prefix)) if memory else nullcontext(),
        ):
            output = model.hf.generate(
                input_ids=padded,
                attention_mask=mask,
                generation_config=config,
                logits_processor=processors,
                stopping_criteria=StoppingCriteriaList([_StopAtLimit(limits)]),
            )
        scores = getattr(output, "sequences_scores", None)
        n = settings.n_best
        rows = [self._cut(row, caps[i // n]) for i, row in enumerate(output.sequences.tolist())]
        values = scores.tolist() if scores is not None else [None] * len(rows)
        hypotheses = [Hypothesis(row, value) for row, value in zip(rows, values, strict=True)]
        return [hypotheses[i * n : (i + 1) * n] for i in range(len(sources))]

    def _cut(self, row: list[int], limit: int) -> list[int]:
        """A generated row without its prefix and without its padding: pad, or in T5 the end of sentence."""
        codec = self.model.codec
        row = row[len(codec.prefix) : limit]
        return row[: row.index(codec.eos) + 1] if codec.eos in row else _strip(row, codec.pad)


def _strip(row: list[int], pad: int) -> list[int]:
    while row and row[-1] == pad:
        row.pop()
    return row
