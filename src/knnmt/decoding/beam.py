"""Beam search with any engine. It finds what `generate` finds, but finished sentences leave the batch."""

from collections.abc import Sequence

import torch
from torch import Tensor

from knnmt.decoding.candidates import Candidates, propose
from knnmt.decoding.hypothesis import Hypothesis
from knnmt.decoding.rules import Rules
from knnmt.decoding.settings import Settings
from knnmt.memory import Memory
from knnmt.model import Engine

_NO_SCORE = -1e9  # marks a slot without a hypothesis


class BeamSearch:
    """knnmt's own beam search, with or without a memory."""

    def __init__(self, engine: Engine, rules: Rules, memory: Memory | None = None) -> None:
        self.engine, self.rules, self.memory = engine, rules, memory
        self.name = f"{engine.name}-{engine.precision}"

    @torch.inference_mode()
    def decode(self, sources: Sequence[list[int]], settings: Settings) -> list[list[Hypothesis]]:
        """The n best hypotheses of each encoded source, best first."""
        codec, rules = self.engine.model.codec, self.rules
        prefix = list(codec.prefix)
        longest = codec.max_length - len(prefix)
        caps = torch.tensor([min(settings.cap(len(source)), longest) for source in sources])
        beams = _Beams(caps, settings, rules, given=len(prefix) - 1)
        top = self.memory.combiner.needs.top if self.memory else 0
        widest = max(beams.wanted + len(rules.banned) + len(rules.eos), top)
        decoder = self.engine.start(sources)
        recall = self.memory.begin(sources) if self.memory else None
        states = decoder.step(torch.tensor([prefix] * len(sources)))  # one row per sentence: its beams are still equal
        while True:
            logits = decoder.project(states)
            logits.read_highest(min(widest, logits.columns))
            mixture = recall.ask(states.keys, logits, beams.so_far) if recall else None
            may_end = len(prefix) + beams.length >= rules.min_length
            choice = beams.advance(propose(logits, mixture, rules, beams.wanted, may_end))
            if choice is None:
                return beams.results
            rows, tokens = choice
            decoder.select(rows)
            if recall:
                recall.select(rows)
            states = decoder.step(tokens[:, None])


class _Beams:
    """The running hypotheses of unfinished sentences, and the results of finished ones.

    Attributes:
        length: how many tokens each running hypothesis has
        numbers: indices of the unfinished sentences among those given to `decode`  # [sentences]
    """

    def __init__(self, caps: Tensor, settings: Settings, rules: Rules, given: int) -> None:
        self.settings, self.rules = settings, rules
        self.given = given  # tokens that were forced but count in a hypothesis' length, as in `generate`
        self.length = 0
        # enough candidates that `beam` of them continue even if all the best ones end
        self.wanted = max(2, 1 + len(rules.eos)) * settings.beam
        sentences, beam = len(caps), settings.beam
        self.results: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self.numbers = torch.arange(sentences)
        self.caps = caps
        self.eos = torch.tensor(rules.eos)
        self.scores = torch.zeros(sentences, 1)
        self.tokens = torch.empty(sentences, 1, 0, dtype=torch.int64)
        self.finished_scores = torch.full((sentences, beam), _NO_SCORE)
        self.finished = torch.zeros(sentences, beam, int(caps.max()), dtype=torch.int64)
        self.finished_lengths = torch.zeros(sentences, beam, dtype=torch.int64)

    @property
    def so_far(self) -> Tensor:
        """The tokens of each running hypothesis.  # [rows, length]"""
        return self.tokens.flatten(0, 1)

    def advance(self, candidates: Candidates) -> tuple[Tensor, Tensor] | None:
        """Append a token to each hypothesis. Returns the rows to continue and their new tokens; None at the end."""
        beam = self.settings.beam
        sentences, width = self.scores.shape
        at_cap = self.caps == self.length + 1
        log_p = candidates.log_p.view(sentences, width, -1)
        tokens = candidates.tokens.view(sentences, width, -1)
        if self.rules.forced_eos and at_cap.any():
            log_p, tokens = log_p.clone(), tokens.clone()
            log_p[at_cap] = -torch.inf
            log_p[at_cap, :, 0], tokens[at_cap, :, 0] = 0.0, self.rules.eos[0]
        total = (self.scores[:, :, None] + log_p).flatten(1)
        scores, columns = total.topk(min(self.wanted, total.shape[1]), dim=1)
        parents = columns // log_p.shape[2]
        chosen = tokens.flatten(1).gather(1, columns)
        grown = torch.cat([_hypotheses(self.tokens, parents), chosen[:, :, None]], 2)
        self.length += 1
        ends = torch.isin(chosen, self.eos) | at_cap[:, None]
        self._finish(scores, grown, ends)
        running, best = scores.masked_fill(ends, _NO_SCORE).topk(beam, dim=1)
        leaves = self._cannot_improve(running) | at_cap
        self._leave(leaves)
        stay = _fill_gaps(~leaves)
        if not len(stay):
            return None
        rows = torch.arange(sentences)[:, None] * width + parents.gather(1, best)
        self.scores = running[stay]
        self.tokens = _hypotheses(grown, best)[stay]
        self._keep(stay)
        return rows[stay].flatten(), self.tokens[:, :, -1].flatten()

    def _finish(self, scores: Tensor, grown: Tensor, ends: Tensor) -> None:
        """Finish those of the best `beam` continuations that end; keep the best `beam` finished hypotheses."""
        beam = self.settings.beam
        final = scores / self._norm()
        final = final.masked_fill(~ends | (torch.arange(scores.shape[1]) >= beam) | (scores < _NO_SCORE / 2), _NO_SCORE)
        self.finished_scores, order = torch.cat([self.finished_scores, final], 1).topk(beam, dim=1)
        padded = torch.nn.functional.pad(grown, (0, self.finished.shape[2] - self.length))
        lengths = torch.full_like(order[:, :1], self.length).expand(-1, grown.shape[1])
        self.finished = _hypotheses(torch.cat([self.finished, padded], 1), order)
        self.finished_lengths = torch.cat([self.finished_lengths, lengths], 1).gather(1, order)

    def _norm(self) -> float:
        return float((self.length + self.given) ** self.settings.penalty)

    def _cannot_improve(self, running: Tensor) -> Tensor:
        """Whether the best running hypothesis, at its present length, is no better than the worst finished one."""
        full = (self.finished_scores > _NO_SCORE / 2).all(1)
        hopeless = running[:, 0] <= _NO_SCORE / 2
        if self.settings.beam == 1:
            return full | hopeless  # greedy search ends with the first end of sentence
        return (full & (running[:, 0] / self._norm() <= self.finished_scores[:, -1])) | hopeless

    def _leave(self, leaves: Tensor) -> None:
        for index in leaves.nonzero().squeeze(1).tolist():
            scores = self.finished_scores[index].tolist()
            lengths = self.finished_lengths[index].tolist()
            rows = self.finished[index].tolist()
            self.results[int(self.numbers[index])] = [
                Hypothesis(row[:length], score)
                for row, length, score in zip(rows, lengths, scores, strict=True)
                if score > _NO_SCORE / 2
            ][: self.settings.n_best]

    def _keep(self, stay: Tensor) -> None:
        self.numbers, self.caps = self.numbers[stay], self.caps[stay]
        self.finished_scores, self.finished = self.finished_scores[stay], self.finished[stay]
        self.finished_lengths = self.finished_lengths[stay]


def _fill_gaps(stays: Tensor) -> Tensor:
    """Indices of those that stay, with the last of them moved into the gaps, so that a decoder moves few rows."""
    count = int(stays.sum())
    order = torch.arange(count)
    order[~stays[:count]] = count + stays[count:].nonzero().squeeze(1)
    return order


def _hypotheses(tokens: Tensor, index: Tensor) -> Tensor:
    """Some of each sentence's hypotheses.  # [sentences, hypotheses, length], index [sentences, n]"""
    return tokens.gather(1, index[:, :, None].expand(-1, -1, tokens.shape[2]))
