"""The whole network: learn from a support set once, segment any number of queries.

photographs ── encoder ──┬─ projected features at strides 16 and 32 ── learner ─┐
support masks ── mask encoder ───────────────────────────────────── learner ─┤
                         └─ shallow features at strides 4 and 8 ────────────── decoder ── logits
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dgpnet.errors import Error
from dgpnet.gp.linalg import at_least_float32, without_autocast
from dgpnet.learners import Learned, LearnedSimilarity, Learner, Similarity
from dgpnet.network.config import Config
from dgpnet.network.decoder import Decoder
from dgpnet.network.encoders import build_encoder
from dgpnet.network.mask_encoder import MaskEncoder
from dgpnet.network.parts import LEARNERS

SHALLOW = (4, 8)


class Encoder(nn.Module):
    """The image encoder's body and a 1×1 projection for each stride that a learner works on."""

    def __init__(self, config: Config, projected: tuple[int, ...], used: set[int]) -> None:
        super().__init__()
        self.frozen = config.freeze_encoder
        self.body = build_encoder(config.encoder, config.stride_on, config.encoder_options)
        if used < set(self.body.strides):
            self.body.keep(used)
        if self.frozen:
            self.body.requires_grad_(False)
        channels = dict(zip(self.body.strides, self.body.channels, strict=True))
        self.project = nn.ModuleDict({str(s): nn.Conv2d(channels[s], config.features, 1) for s in projected})

    def forward(self, photos: Tensor) -> dict[int, Tensor]:
        """(N, 3, H, W) -> {stride: (N, channels, H/stride, W/stride)}, unprojected."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            return dict(zip(self.body.strides, self.body(photos), strict=True))


@dataclass(frozen=True, eq=False)
class Points:
    """What K examples of C classes give each branch to learn from.

    branches: {name: (features (B, K, P, D), outputs (B, K, P, C, E))}, P points of each photograph
    """

    branches: Mapping[str, tuple[Tensor, Tensor]]
    examples: int
    classes: int

    @property
    def most(self) -> int:
        """Support points of the branch that has most."""
        return max((x.shape[1] * x.shape[2] for x, _ in self.branches.values()), default=0)

    def chosen(self, which: Sequence[int]) -> Points:
        """Those of some of the examples."""
        branches = {name: (x[:, list(which)], y[:, list(which)]) for name, (x, y) in self.branches.items()}
        return Points(branches, len(which), self.classes)

    def each(self, change: Callable[[Tensor], Tensor]) -> Points:
        """The same of changed tensors."""
        return replace(self, branches={name: (change(x), change(y)) for name, (x, y) in self.branches.items()})

    @staticmethod
    def joined(parts: Sequence[Points]) -> Points:
        """The examples of all parts, in order; their photographs have one size."""
        pairs = {name: list(zip(*(part.branches[name] for part in parts), strict=True)) for name in parts[0].branches}
        branches = {name: (torch.cat(xs, 1), torch.cat(ys, 1)) for name, (xs, ys) in pairs.items()}
        return Points(branches, sum(part.examples for part in parts), parts[0].classes)

    @staticmethod
    def in_a_row(parts: Sequence[Points]) -> Points:
        """The points of all parts as if one photograph had them all: for examples with different numbers of points.
        `Memory.divided` then says which are whose."""
        single = [part.each(lambda one: one.flatten(1, 2)[:, :, None]) for part in parts]
        return Points.joined(single).each(lambda one: one.transpose(1, 2))


@dataclass(frozen=True, eq=False)
class Memory:
    """What a network remembers of a support set: one learned value for each of its branches. Immutable."""

    learned: Mapping[str, Learned]
    examples: int
    classes: int

    @property
    def points(self) -> int:
        """Support points of the branch that has most."""
        return max((sum(one.points) for one in self.learned.values()), default=0)

    @property
    def budgeted(self) -> bool:
        """Whether inducing points stand for the support (see `dgpnet.gp.inducing`)."""
        return any(one.budgeted for one in self.learned.values())

    def without(self, example: int) -> Memory:
        """Without one of the examples."""
        learned = {name: one.without(example) for name, one in self.learned.items()}
        return Memory(learned, self.examples - 1, self.classes)

    def divided(self, parts: Sequence[Points]) -> Memory:
        """With what was learned last `Points.in_a_row` given back to its examples."""
        learned = {}
        for name, one in self.learned.items():
            each = [part.branches[name][0].shape[1:3] for part in parts]  # K, P
            learned[name] = one.counted((*one.points[:-1], *(p for k, p in each for _ in range(k))))
        return replace(self, learned=learned)

    def within(self, budget: int) -> Memory:
        """The same support with at most `budget` inducing points a level in its place, now and when it grows."""
        return replace(self, learned={name: one.within(budget) for name, one in self.learned.items()})

    def each(self, change: Callable[[Tensor], Tensor]) -> Memory:
        """The same of changed tensors."""
        return replace(self, learned={name: one.each(change) for name, one in self.learned.items()})

    def state(self) -> dict[str, Tensor]:
        """The tensors that queries read: inputs of a captured or exported query."""
        return {f"{name}.{key}": t for name, one in self.learned.items() for key, t in one.state().items()}

    def with_state(self, state: Mapping[str, Tensor]) -> Memory:
        """For queries alone: the same with other tensors of those names and shapes in place of `state()`."""
        return replace(self, learned={name: one.with_state(below(state, name)) for name, one in self.learned.items()})

    def tensors(self) -> dict[str, Tensor]:
        """For a file; `DGPNet.restore` is the way back."""
        found = {f"{name}.{key}": t for name, one in self.learned.items() for key, t in one.tensors().items()}
        return {**found, "counts": torch.tensor([self.examples, self.classes])}


def below(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """The tensors whose names begin with `name` and a dot, without that."""
    return {key.removeprefix(f"{name}."): t for key, t in tensors.items() if key.startswith(f"{name}.")}


class Answer(NamedTuple):
    """What a network says of N photographs of H × W pixels, C classes.

    logits     (N, C, 2, H, W)
    novelty    (N, H, W) in [0, 1]: the posterior's standard deviation over the prior's, averaged over the levels; 0 for
               learners that have none
    likeness   (N, C, H, W): its mean over what was found is the cosine of the encoder's own features, averaged there,
               to the mean of what was shown of the class, at the deepest level; 0 for networks without
               `Config.similarity`
    """

    logits: Tensor
    novelty: Tensor
    likeness: Tensor

    def each(self, change: Callable[[Tensor], Tensor]) -> Answer:
        """The same of changed tensors."""
        return Answer(*map(change, self))


class Branch(nn.Module):
    """One learner on the features of one stride: projected, or as the encoder gives them."""

    def __init__(self, stride: int, learner: Learner, *, projected: bool) -> None:
        super().__init__()
        self.stride = stride
        self.learner = learner
        self.projected = projected


class DGPNet(nn.Module):
    """Dense Gaussian process network for few-shot segmentation.

    Photographs are (…, 3, H, W) float tensors, RGB normalised with ImageNet's mean and standard deviation, H and W
    multiples of 32. Masks are float, 1 where the class is and 0 elsewhere (ignore pixels count as background).
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.branches = nn.ModuleDict()
        for level in config.levels:
            learner = LEARNERS[config.learner](config)
            if learner.learns_from != "nothing":
                self.branches[str(level)] = Branch(level, learner, projected=True)
            if config.similarity:
                self.branches[f"{level}_similarity"] = Branch(level, Similarity(), projected=False)
        branches = self.named_branches().values()
        projected = tuple(b.stride for b in branches if b.projected)
        self.encoder = Encoder(config, projected, {*SHALLOW, *(b.stride for b in branches)})
        encoded = [b.stride for b in branches if self._wants_encoding(b)]
        self.mask_encoder = MaskEncoder(encoded, config.encodings, relu=config.mask_relu) if encoded else None
        body = self.encoder.body
        inputs = {s: c for s, c in zip(body.strides, body.channels, strict=True) if s in SHALLOW}
        for b in branches:
            channels = b.learner.channels(config.encodings if self._wants_encoding(b) else 1)
            inputs[b.stride] = inputs.get(b.stride, 0) + channels
        self.decoder = Decoder(inputs, config.decoder_width)

    def named_branches(self) -> dict[str, Branch]:
        """The learners and where they work, by the names that a memory has for them."""
        return {name: b for name, b in self.branches.items() if isinstance(b, Branch)}

    def _wants_encoding(self, branch: Branch) -> bool:
        return branch.learner.learns_from == "encoding" and self.config.output_space == "learned"

    # -- learning ----------------------------------------------------------------------------------------------------

    def learn(self, photos: Tensor, masks: Tensor, *, budget: int | None = None) -> Memory:
        """K examples of C classes, photos: (B, K, 3, H, W), masks: (B, K, C, H, W) -> what queries need.

        Above `budget` support points a level, that many inducing points stand for all of them.
        """
        check_support(photos, masks)
        return self.learn_points(self.support_points(self.encoder(photos.flatten(0, 1)), masks), budget=budget)

    def extend(self, memory: Memory, photos: Tensor, masks: Tensor) -> Memory:
        """More examples of the same classes, of any size; equal to learning all of them at once."""
        check_support(photos, masks, every_class=False)
        return self.extend_points(memory, self.support_points(self.encoder(photos.flatten(0, 1)), masks))

    def learn_points(self, points: Points, *, budget: int | None = None) -> Memory:
        """`learn`, of what `support_points` gave. Levels with learners of one kind learn together."""
        kinds: dict[type[Learner], list[str]] = {}
        branches = self.named_branches()
        for name, branch in branches.items():
            kinds.setdefault(type(branch.learner), []).append(name)
        learned: dict[str, Learned] = {}
        for kind, names in kinds.items():
            learners = [branches[name].learner for name in names]
            values = kind.learn_all(learners, [points.branches[name] for name in names], budget=budget)
            learned.update(zip(names, values, strict=True))
        return Memory(learned, points.examples, points.classes)

    def extend_points(self, memory: Memory, points: Points) -> Memory:
        """`extend`, of what `support_points` gave."""
        if points.classes != memory.classes:
            raise Error(f"The memory has {memory.classes} classes, the new masks show {points.classes}.")
        learned = {name: one.extend(*points.branches[name]) for name, one in memory.learned.items()}
        return Memory(learned, memory.examples + points.examples, memory.classes)

    def support_points(self, features: Mapping[int, Tensor], masks: Tensor) -> Points:
        """What each branch learns from: encoder features of B · K photographs and masks (B, K, C, H, W), sampled."""
        shape = masks.shape[:3]  # B, K, C
        flat = masks.flatten(0, 2)[:, None]
        dtype = next(iter(features.values())).dtype
        encodings = self.mask_encoder(flat.to(dtype)) if self.mask_encoder is not None else {}
        found = {}
        for name, branch in self.named_branches().items():
            y = encodings[branch.stride] if self._wants_encoding(branch) else F.avg_pool2d(flat, branch.stride)
            step = self.config.support_step(branch.stride)
            y = y[..., ::step, ::step].flatten(2).unflatten(0, shape)  # (B, K, C, E, P)
            x = self.branch_features(branch, features)[:, ::step, ::step].flatten(1, 2).unflatten(0, shape[:2])
            found[name] = x, y.permute(0, 1, 4, 2, 3)
        return Points(found, shape[1], shape[2])

    def branch_features(self, branch: Branch, features: Mapping[int, Tensor]) -> Tensor:
        """(N, H, W, D) of the photographs whose encoder features are given."""
        x = features[branch.stride]
        if branch.projected:
            # Distances are taken between projected features: they are not rounded to half precision on the way.
            with without_autocast(x.device):
                x = self.encoder.project[str(branch.stride)](at_least_float32(x))
        return x.permute(0, 2, 3, 1)

    def restore(self, tensors: Mapping[str, Tensor]) -> Memory:
        """The memory that `Memory.tensors` described."""
        examples, classes = tensors["counts"].tolist()
        branches = self.named_branches().items()
        learned = {name: branch.learner.restore(below(tensors, name)) for name, branch in branches}
        return Memory(learned, examples, classes)

    # -- predicting --------------------------------------------------------------------------------------------------

    def predict(self, memory: Memory, photos: Tensor) -> Tensor:
        """photos: (N, 3, H, W) -> logits (N, C, 2, H, W). The memory's batch is N, or 1 for any number of queries."""
        check_photos(photos)
        features = self.encoder(photos)
        return self.decode(features, self.maps(memory, features), memory.classes)

    def answer(self, memory: Memory, photos: Tensor) -> Answer:
        """`predict`, and how unlike and how like the examples each pixel is."""
        check_photos(photos)
        return self.look(memory, photos)

    def look(self, memory: Memory, photos: Tensor) -> Answer:
        """`answer` for photographs that are known to be good: no value is looked at, so that it can be captured,
        compiled and exported."""
        return self.look_at(memory, self.encoder(photos))

    def look_at(self, memory: Memory, features: Mapping[int, Tensor]) -> Answer:
        """`look` of N photographs whose encoder features are known."""
        branches = self.named_branches()
        points = {name: self.branch_features(branch, features) for name, branch in branches.items()}
        maps = {name: memory.learned[name].predict(x) for name, x in points.items()}
        logits = self.decode(features, maps, memory.classes)
        size = logits.shape[-2:]
        novelty, likeness = logits.new_zeros(logits.shape[0], *size), torch.zeros_like(logits[:, :, 0])
        novel = [memory.learned[name].novelty(points[name], maps[name]) for name, b in branches.items() if b.projected]
        if novel:
            novelty = torch.stack([_resize(n[:, None].float(), size) for n in novel]).mean(0)[:, 0]
        if self.config.similarity:
            name = f"{max(self.config.levels)}_similarity"
            shown = memory.learned[name]
            assert isinstance(shown, LearnedSimilarity)
            likeness = _resize(shown.likeness(points[name], _found(logits, branches[name].stride)).float(), size)
        return Answer(logits, novelty, likeness)

    def forward(self, support_photos: Tensor, support_masks: Tensor, query: Tensor) -> Tensor:
        """One class an episode, supports and query in one pass of the encoder: what training runs.

        (B, K, 3, H, W), (B, K, H, W), (B, 3, H, W) -> logits (B, 2, H, W).
        """
        batch, shots = support_photos.shape[:2]
        features = self.encoder(torch.cat([support_photos.flatten(0, 1), query]))
        supports = {stride: f[: batch * shots] for stride, f in features.items()}
        queries = {stride: f[batch * shots :] for stride, f in features.items()}
        memory = self.learn_points(self.support_points(supports, support_masks[:, :, None]))
        return self.decode(queries, self.maps(memory, queries), 1)[:, 0]

    def maps(self, memory: Memory, features: Mapping[int, Tensor]) -> dict[str, Tensor]:
        """What each branch says of the query: (N, C, H, W, channels)."""
        return {
            name: memory.learned[name].predict(self.branch_features(branch, features))
            for name, branch in self.named_branches().items()
        }

    def decode(self, features: Mapping[int, Tensor], maps: Mapping[str, Tensor], classes: int) -> Tensor:
        """Encoder features of N queries and what each branch says of them -> logits (N, C, 2, H, W)."""
        inputs: dict[int, list[Tensor]] = {}
        for name, branch in self.named_branches().items():
            inputs.setdefault(branch.stride, []).append(maps[name].flatten(0, 1))
        scales = {stride: torch.cat(parts, -1).permute(0, 3, 1, 2) for stride, parts in inputs.items()}
        for stride in SHALLOW:
            scales[stride] = features[stride].repeat_interleave(classes, 0) if classes > 1 else features[stride]
        dtype = features[SHALLOW[0]].dtype
        logits = self.decoder({stride: x.to(dtype) for stride, x in scales.items()})
        height, width = (side * SHALLOW[0] for side in features[SHALLOW[0]].shape[-2:])
        found: Tensor = _resize(at_least_float32(logits), (height, width)).unflatten(0, (-1, classes))
        return found

    def parameter_counts(self) -> dict[str, int]:
        """Parameters of each block of the paper's layer table."""
        blocks: dict[str, nn.Module | None] = {
            "encoder": self.encoder.body,
            "projections": self.encoder.project,
            "mask encoder": self.mask_encoder,
            "decoder": self.decoder,
        }
        return {name: sum(p.numel() for p in block.parameters()) if block else 0 for name, block in blocks.items()}


def _found(logits: Tensor, stride: int) -> Tensor:
    """Logits (N, C, 2, H, W) -> (N, C, H / stride, W / stride): how much of each cell is found to be the class; where
    nothing is, how probable it is."""
    margin = (logits[:, :, 1] - logits[:, :, 0]).float()
    sure, probable = (F.avg_pool2d(one, stride) for one in ((margin > 0).float(), margin.sigmoid()))
    return torch.where(sure.amax((-2, -1), keepdim=True) > 0, sure, probable)


def _resize(x: Tensor, size: tuple[int, ...] | torch.Size) -> Tensor:
    x = x if x.is_cuda else x.contiguous()  # a CPU is slow with few channels side by side
    return F.interpolate(x, size=tuple(size), mode="bilinear", align_corners=False)


def check_photos(photos: Tensor) -> None:
    """Raise unless photos: (N, 3, H, W) are finite and fit the strides."""
    if photos.dim() != 4 or photos.shape[1] != 3:
        raise Error(f"Photographs are (N, 3, H, W) RGB tensors, got {tuple(photos.shape)}: convert to three channels.")
    height, width = photos.shape[-2:]
    if height % 32 or width % 32 or min(height, width) < 32:
        raise Error(
            f"A network photograph's sides are multiples of 32, got {height}×{width}: resize it to "
            f"{max(32, round(height / 32) * 32)}×{max(32, round(width / 32) * 32)}."
        )
    if photos.numel() and not torch.stack(photos.aminmax()).isfinite().all():
        raise Error("A photograph holds NaN or infinity: check how it was decoded and normalised.")


def check_support(photos: Tensor, masks: Tensor, *, every_class: bool = True) -> None:
    """Raise unless photos: (B, K, 3, H, W) and masks: (B, K, C, H, W) are a usable support set."""
    if photos.dim() != 5 or masks.dim() != 5:
        raise Error(
            f"A support set is photos (B, K, 3, H, W) and masks (B, K, C, H, W), "
            f"got {tuple(photos.shape)} and {tuple(masks.shape)}."
        )
    if photos.shape[1] == 0 or masks.shape[2] == 0:
        raise Error("The support set is empty: give at least one example of at least one class.")
    check_photos(photos.flatten(0, 1))
    if photos.shape[:2] != masks.shape[:2] or photos.shape[-2:] != masks.shape[-2:]:
        raise Error(
            f"Each photograph has a mask of its own size: photos are {tuple(photos.shape)} (B, K, 3, H, W), "
            f"masks {tuple(masks.shape)} (B, K, C, H, W)."
        )
    if not torch.isfinite(masks).all():
        raise Error("A support mask holds NaN or infinity: masks are 1 where the class is and 0 elsewhere.")
    shown = (masks > 0).flatten(3).any(3).any(1)  # (B, C)
    if every_class and not shown.all():
        missing = sorted({int(c) for c in (~shown).nonzero()[:, 1]})
        raise Error(
            f"No support mask shows class {', '.join(map(str, missing))} (counted from 0): show each class once."
        )
