"""The onnx engine: ONNX Runtime runs the exported graphs of a model."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import embedding, pad

from knnmt.model.engine import Engine
from knnmt.model.logits import Logits
from knnmt.model.onnx.decoder import LOW
from knnmt.model.onnx.quantise import SCALE
from knnmt.model.onnx.sessions import Sessions
from knnmt.model.onnx.steps import OnnxDecoder
from knnmt.model.translation_model import TranslationModel

_ENCODED = 8  # sentences encoded together: with more, the padding to the longest costs more


class OnnxEngine(Engine):
    """Runs the exported graphs; the state of a translation is in its `OnnxDecoder`."""

    name = "onnx"

    def __init__(self, model: TranslationModel, sessions: Sessions) -> None:
        super().__init__(model, sessions.precision)
        self.sessions = sessions
        self.cross_names = [output.name for output in sessions.encoder.get_outputs()]
        self.source_vectors = model.hf.get_encoder().embed_tokens.weight.detach()
        self.target_vectors = model.hf.get_decoder().embed_tokens.weight.detach()

    def start(self, sources: Sequence[list[int]]) -> OnnxDecoder:
        return OnnxDecoder(self, *self.model.pad_sources(sources))

    def encode(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The attention bias that masks padding, and the cross-attention keys and values of all decoder layers."""
        low = ((1 - mask.float()) * LOW)[:, None, None, :].contiguous()
        parts = zip(torch.split(ids, _ENCODED), torch.split(low, _ENCODED), strict=True)
        few = [self._encode_few(*part) for part in parts]
        return low, {name: torch.cat([part[name] for part in few]) for name in self.cross_names}

    def _encode_few(self, ids: Tensor, low: Tensor) -> dict[str, Tensor]:
        """Encode a few sentences without the padding that all of them have; the results are padded again."""
        length = ids.shape[1]
        longest = int((low == 0).sum(3).max())
        vectors = embedding(ids[:, :longest], self.source_vectors)
        inputs = {"vectors": vectors.numpy(), "mask": low[..., :longest].contiguous().numpy()}
        found = zip(self.cross_names, self.sessions.encoder.run(self.cross_names, inputs), strict=True)
        added = length - longest
        return {
            name: pad(torch.from_numpy(each), (0, added) if "key" in name else (0, 0, 0, added)) for name, each in found
        }

    def decode_targets(self, ids: Tensor, mask: Tensor, decoder_input: Tensor) -> tuple[Tensor, Tensor]:
        low, cross = self.encode(ids, mask)
        shape = (*decoder_input.shape, self.model.dim)
        states = {"keys": torch.empty(shape), "hidden": torch.empty(shape)}
        vectors = embedding(decoder_input, self.target_vectors)
        self.sessions.targets.run({"vectors": vectors, "mask": low, **cross}, states)
        return states["keys"], states["hidden"]

    def project(self, hidden: Tensor, tokens: Tensor | None = None) -> Logits:
        """For some tokens, the logits of the whole vocabulary are computed and their columns selected."""
        logits = torch.empty(len(hidden), self.model.vocab_size)
        self.project_into(logits[None], hidden[None].contiguous())
        return Logits(logits) if tokens is None else Logits(logits[:, tokens], tokens)

    def project_into(self, logits: Tensor, hidden: Tensor) -> None:
        """Write the logits into a given tensor; scales (if any) and bias take one pass over the vocabulary.

        Args:
            logits: [sentences, width, vocabulary]
            hidden: [sentences, width, d_model]
        """
        graph, bias = self.sessions.projection, self.model.bias
        scale = torch.empty(*hidden.shape[:2], 1)
        scaled = len(graph.outputs) > 1
        graph.run({"hidden": hidden}, {"logits": logits} | ({f"logits{SCALE}": scale} if scaled else {}))
        if scaled and bias is not None:
            torch.addcmul(bias, logits, scale, out=logits)
        elif scaled:
            logits.mul_(scale)
        elif bias is not None:
            logits.add_(bias)
