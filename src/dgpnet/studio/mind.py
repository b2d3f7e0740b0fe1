"""The model at work: learns what is painted, finds it first where somebody looks, then everywhere else."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dgpnet.errors import Error
from dgpnet.learners import GaussianLearner
from dgpnet.segmenter import Concept, Segmenter
from dgpnet.segmenter.estimate import Estimate
from dgpnet.segmenter.propose import Seen, look, propose
from dgpnet.segmenter.segmentation import Judged, Maps, enlarge, leave_out
from dgpnet.segmenter.streams import batches
from dgpnet.segmenter.suggest import Pool, encode, order
from dgpnet.serving import Problem, Worker
from dgpnet.studio.found import Found
from dgpnet.studio.jobs import Job, Jobs
from dgpnet.studio.learned import Learned, NothingPainted, Photos, anew, keep, kept, learn, numbers_of
from dgpnet.studio.paintings import Mask
from dgpnet.studio.project import Project, Record
from dgpnet.studio.strokes import encoded

#: What is done first, where several things wait: the lower, the sooner.
LEARN, CLICK, SEE, SUGGEST, REST = 0, 1, 2, 3, 9
#: Seconds without a stroke after which the rest of the folder is seen to.
QUIET = 1.0
#: Examples up to which learning anew, so that exports are what the commands write, is quick enough to do unasked.
ANEW = 12
#: Pages that may say what they show, photographs that were looked at for clicks, and maps that are held.
CLIENTS, LOOKED_AT, MAPS = 64, 3, 8
#: Photographs that are looked at anew for one suggestion, and features that are held for the next.
CANDIDATES, FEATURES = 48, 4096

_log = logging.getLogger("dgpnet.studio")
Tell = Callable[[dict[str, Any]], object]


@dataclass(frozen=True)
class Told:
    """The estimate, and the photographs (keys) that its examples are."""

    estimate: Estimate
    keys: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Look:
    """What the network saw in a photograph: mark, whether the file has changed since; size (H, W)."""

    learned: Learned
    record: Record
    mark: Any
    size: tuple[int, int]
    maps: Maps
    judged: Judged


class Mind:
    """One model and one thread for all that it does.

    tell: called with events: a mask was found, something else was learned
    """

    def __init__(self, segmenter: Segmenter, project: Project, worker: Worker, jobs: Jobs, tell: Tell) -> None:
        self.segmenter = segmenter
        self.project = project
        self.worker = worker
        self.jobs = jobs
        self.tell = tell
        self.learned: Learned | None = None
        self.told: Told | None = None
        self._photos = Photos(project)
        self._visible: OrderedDict[str, list[str]] = OrderedDict()
        self._seen: OrderedDict[tuple[str, Any], Seen] = OrderedDict()
        self._maps: OrderedDict[tuple[str, str, Any], Maps] = OrderedDict()
        self._features: OrderedDict[tuple[str, Any], torch.Tensor] = OrderedDict()
        self._plan: list[list[Record]] = []
        self._looks: list[_Look] = []
        self._job: Job | None = None
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()
        self._closed = False

    # -- what it is able to --------------------------------------------------------------------------------------------

    @property
    def knows_presence(self) -> bool:
        """Whether it tells how probable it is that a thing is in a photograph at all."""
        return self.segmenter.calibration.presence is not None

    @property
    def suggests(self) -> bool:
        """Whether it knows what it does not know."""
        level = str(max(self.segmenter.network.config.levels))
        branch = self.segmenter.network.named_branches().get(level)
        return isinstance(getattr(branch, "learner", None), GaussianLearner)

    # -- learning ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Go on where an earlier run stopped."""
        if self.project.learned:
            self.learned = kept(self.segmenter, self.project.root)
            self.follow()

    def close(self) -> None:
        """Begin nothing any more."""
        with self._lock:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()

    def learn(self) -> Future[Learned | None]:
        """Learn what is painted; from then on what is found follows what is painted."""
        return self.worker.put(self._learn, priority=LEARN)

    def follow(self) -> None:
        """Something else is painted, or called otherwise: learn it, where somebody wanted that before."""
        if self.project.learned and not self._closed:
            self.worker.put(self._follow, priority=LEARN, key="follow")

    def whole(self) -> Learned:
        """What is painted now, as the commands learn it; to be called on the worker's thread."""
        known = self.learned
        if known is None or not known.whole or dict(known.snapshots) != self.project.snapshots():
            fitted = known if known is not None and known.concept.fitted is not None else None
            self._became(learn(self.segmenter, self.project, self._photos, fitted), at_once=True)
        assert self.learned is not None
        return self.learned

    def fit(self, seconds: float) -> Job:
        """Fit the model to what is painted, in the background."""
        return self.jobs.start("fit", lambda job: self._fit(job, seconds))

    def see_first(self, client: str, ids: Sequence[str]) -> None:
        """Note which photographs a page shows, the most wanted first."""
        with self._lock:
            self._visible.pop(client, None)
            if ids:
                self._visible[client] = list(ids)
            while len(self._visible) > CLIENTS:
                self._visible.popitem(last=False)
        if ids and self.learned is not None:
            self._see()

    def _learn(self) -> Learned | None:
        new = learn(self.segmenter, self.project, self._photos, self.learned)
        self.project.set_learned(True)
        self._became(new, at_once=True)
        return self.learned

    def _follow(self) -> None:
        try:
            self._became(learn(self.segmenter, self.project, self._photos, self.learned))
        except NothingPainted:
            self._finish("cancelled")
            self.project.forget_found()
            self.learned = self.told = None
            self.tell({"type": "concept"})
        except Error as error:  # what was learned before stays
            _log.warning("%s", error)

    def _became(self, learned: Learned, *, at_once: bool = False) -> None:
        """Something is learned: find it. at_once: without waiting for further strokes."""
        self.learned = learned
        self.tell({"type": "concept"})
        self._see()
        if at_once:
            self._begin_rest()
        else:
            self._rest_soon()

    def _fit(self, job: Job, seconds: float) -> dict[str, Any]:
        def advance(done: float, total: float) -> None:
            job.check()
            self.jobs.advance(job, min(int(done), int(total)), int(total))

        fitted = learn(self.segmenter, self.project, self._photos, fit=seconds, advance=advance)
        job.check()
        self.worker.put(lambda: self._adopt(fitted), priority=LEARN).result()
        return {"fitted": True}

    def _adopt(self, fitted: Learned) -> None:
        """Take what was fitted, and what was painted meanwhile."""
        keep(fitted, self.project.root)
        self.project.set_learned(True)
        self._became(learn(self.segmenter, self.project, self._photos, fitted), at_once=True)

    # -- finding -------------------------------------------------------------------------------------------------------

    def _see(self) -> None:
        if not self._closed:
            self.worker.put(self._see_one, priority=SEE, key="see")

    def _see_one(self) -> None:
        """Find things in the photograph that is wanted most, then see to the next."""
        learned, record = self.learned, self._wanted()
        if learned is None or record is None:
            return
        for seen in self._look(learned, [record], 1):
            self._found(seen, settled=False)
        self._see()

    def _wanted(self) -> Record | None:
        """The first photograph on somebody's screen in which things are still to be found."""
        with self._lock:
            lists = list(reversed(self._visible.values()))
        for place in range(max(map(len, lists), default=0)):
            for ids in lists:
                record = self._record(ids[place]) if place < len(ids) else None
                if record is not None and self._needs(record, painted=place == 0):
                    return record
        return None

    def _record(self, name: str) -> Record | None:
        try:
            return self.project.record(name)
        except Problem:
            return None

    def _needs(self, record: Record, *, painted: bool = False, settled: bool = False) -> bool:
        """Whether things are still to be found in a photograph. painted: also in one that is painted."""
        learned = self.learned
        if learned is None or record.problem is not None or self.project.is_frozen(record):
            return False
        if not painted and self.project.painted(record) is not None:
            return False
        found = self.project.finds.get(record.key)
        return found is None or found.concept != learned.fingerprint or (settled and not found.settled)

    def _look(self, learned: Learned, records: Sequence[Record], batch: int) -> list[_Look]:
        """What is seen in a few photographs."""
        concept, readable = learned.concept, []
        for record in records:
            try:
                readable.append((record, *self._photos.prepared(record, concept)))
            except (Error, Problem, OSError):
                continue  # noted as broken
        if not readable:
            return []
        maps = concept.maps([prepared for _, prepared, _ in readable], batch=batch)
        judged = concept.judge(maps)
        return [
            _Look(learned, record, mark, prepared.size, of_one, sure)
            for (record, prepared, mark), of_one, sure in zip(readable, maps, judged, strict=True)
        ]

    def _found(self, seen: _Look, *, settled: bool) -> None:
        """Make a mask of what was seen, at the photograph's size, and tell."""
        record, learned = seen.record, seen.learned
        if record.stamp != seen.mark or record.size != seen.size:
            record.size = None
            self.project.look(record)
            if record.problem is not None:
                return
        self._remember(learned.concept, record, seen.mark, seen.maps)
        pixels = self._values(learned, seen.maps, seen.size, seen.judged)
        found = Found.of(
            record.key, seen.mark, learned.fingerprint, pixels, learned.legend, seen.judged, settled=settled
        )
        self.project.finds.put(found, pixels, seen.judged.uncertainty, learned.legend)
        self.project.changed(record)
        self.tell({"type": "mask", "id": record.id, "source": "found", "etag": found.etag})

    def _values(self, learned: Learned, maps: Maps, size: tuple[int, int], judged: Judged) -> Mask:
        """What the folder job would write: values of classes (H, W)."""
        calibration = self.segmenter.calibration
        mask: Mask = enlarge(maps, size, calibration, keep=["mask"])["mask"].cpu().numpy()
        leave_out(mask, judged, min_likeness=0.0, keep_all=False)
        table = np.zeros(256, np.uint8)
        table[1 : len(learned.legend.values) + 1] = learned.legend.values
        values: Mask = table[mask]
        return values

    def _others(self, learned: Learned, record: Record) -> Concept | None:
        """What the other examples say, if any: one that is half painted would say that the rest of it is nothing."""
        if record.key not in learned.keys:
            return learned.concept
        try:
            return learned.concept.without(learned.keys.index(record.key))
        except Error:  # there is no other, or none that shows one of the classes
            return None

    def _remember(self, concept: Concept, record: Record, mark: Any, maps: Maps) -> None:
        self._maps[record.key, concept.fingerprint, mark] = maps
        while len(self._maps) > MAPS:
            self._maps.popitem(last=False)

    # -- the rest of the folder ----------------------------------------------------------------------------------------

    def _rest_soon(self) -> None:
        """See to the rest once nobody paints for a moment."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            if self._closed:
                return
            self._timer = threading.Timer(QUIET, self._rest_now)
            self._timer.daemon = True
            self._timer.start()

    def _rest_now(self) -> None:
        try:
            self.worker.put(self._begin_rest, priority=REST, key="rest")
        except Problem:
            return  # the server is about to stop

    def _begin_rest(self) -> None:
        learned = self.learned
        if learned is None:
            return
        if not learned.whole and learned.concept.fitted is None and len(learned.keys) <= ANEW:
            try:
                learned = anew(learned, self.project) or learn(self.segmenter, self.project, self._photos)
            except Error:
                return
            self.learned = learned
            self._see()
        needed = self._needing()
        if needed:
            self._plan = self._groups()
            if self._job is None or self._job.ended:
                self._job = self.jobs.add("segment")
            self.jobs.advance(self._job, 0, len(needed))
            self.worker.put(self._go_on, priority=REST, key="rest")
        else:
            self._finish("done")
        self.worker.put(lambda: self._estimate(learned), priority=REST, key="estimate")

    def _needing(self) -> list[Record]:
        whole = self.learned is not None and self.learned.whole
        return [record for record in self.project.records() if self._needs(record, settled=whole)]

    def _groups(self) -> list[list[Record]]:
        """Photographs as the folder job takes them through the network together, the least certain first; the last of
        the list is the first to be done."""
        assert self.learned is not None
        size = self.segmenter.engine.batch(len(self.learned.concept.classes))
        groups = list(batches(self.project.records(), size))
        return sorted(groups, key=lambda group: min(map(self._certainty, group)), reverse=True)

    def _certainty(self, record: Record) -> float:
        """The score; less than any where there is none."""
        found = self.project.finds.get(record.key)
        return -1.0 if found is None else float(found.judged["score"])

    def _go_on(self) -> None:
        """Find things in the next few photographs."""
        learned, job = self.learned, self._job
        if learned is None or job is None or job.ended:
            return
        if job.stop.is_set():
            self._finish("cancelled")
            return
        self._looks = [
            look for look in self._looks if look.learned is learned and self._needs(look.record, settled=True)
        ]
        if self._looks:  # one at a time, however large they are: a stroke must not wait for a whole batch
            self._found(self._looks.pop(), settled=learned.whole)
        else:
            self._looks = self._look_on(learned)
        if self._plan or self._looks:
            self.jobs.advance(job, max(job.done, job.total - len(self._needing())), job.total)
            self.worker.put(self._go_on, priority=REST, key="rest")
        else:
            job.done = job.total
            self._finish("done")

    def _look_on(self, learned: Learned) -> list[_Look]:
        """What is seen in the next few photographs of the plan in which things are still to be found."""
        size = self.segmenter.engine.batch(len(learned.concept.classes))
        while self._plan:
            group = self._plan.pop()
            if any(self._needs(record, settled=learned.whole) for record in group):
                # All of them, as the job does: what is beside a photograph changes its rounding.
                free = [one for one in group if self.project.painted(one) is None and not self.project.is_frozen(one)]
                return self._look(learned, [one for one in free if one.problem is None], size)
        return []

    def _finish(self, state: str) -> None:
        self._plan, self._looks = [], []
        if self._job is not None:
            self.jobs.end(self._job, state)

    def _estimate(self, learned: Learned) -> None:
        if self.learned is not learned:
            return
        estimate = learned.concept.estimate
        self.told = None if estimate is None else Told(estimate, learned.keys)
        self.tell({"type": "concept"})

    # -- what is asked of one photograph -------------------------------------------------------------------------------

    def propose(
        self, record: Record, points: Sequence[tuple[float, float, bool]], value: int | None
    ) -> Future[tuple[int, int, int, int, list[int]]]:
        """The region that clicks point at: x, y, width, height, and runs of 1. value: of the class that is meant."""
        key = ("propose", record.key)
        return self.worker.put(lambda: self._propose(record, points, value), priority=CLICK, key=key)

    def _propose(
        self, record: Record, points: Sequence[tuple[float, float, bool]], value: int | None
    ) -> tuple[int, int, int, int, list[int]]:
        photo = self._photos.decoded(record)
        key = record.key, record.stamp
        seen = self._seen.pop(key, None)
        seen = look(self.segmenter, photo) if seen is None else seen
        self._seen[key] = seen
        while len(self._seen) > LOOKED_AT:
            self._seen.popitem(last=False)
        learned = self.learned
        concept = None
        if learned is not None and learned.concept.fitted is None and value in learned.legend.values:
            concept = self._others(learned, record)
        label = 1 if concept is None else int(numbers_of(concept.legend)[value or 0])
        region = propose(self.segmenter, seen, points, concept=concept, label=label)
        rows, columns = np.flatnonzero(region.any(1)), np.flatnonzero(region.any(0))
        if not rows.size:
            return 0, 0, 1, 1, []
        (top, bottom), (left, right) = ((int(one[0]), int(one[-1]) + 1) for one in (rows, columns))
        part = region[top:bottom, left:right].astype(np.uint8)
        return left, top, right - left, bottom - top, encoded(part)

    def probability(self, record: Record, value: int) -> Future[NDArray[np.uint8]]:
        """Of a class in a photograph: (h, w), 255 where it surely is."""
        return self.worker.put(lambda: self._probability(record, value), priority=CLICK)

    def _probability(self, record: Record, value: int) -> NDArray[np.uint8]:
        learned = self.learned
        if learned is None or value not in learned.legend.values:
            raise Problem(404, "This class has not been learned yet.")
        concept = self._others(learned, record) or learned.concept
        prepared, mark = self._photos.prepared(record, concept)
        maps = self._maps.get((record.key, concept.fingerprint, mark))
        if maps is None:
            (maps,) = concept.maps([prepared])
            self._remember(concept, record, mark, maps)
        number = int(numbers_of(learned.legend)[value])
        chance = self.segmenter.calibration.probability(maps.log_odds)[number]
        levels: NDArray[np.uint8] = (chance * 255).round().byte().cpu().numpy()
        return levels

    # -- what next -----------------------------------------------------------------------------------------------------

    def suggest(self) -> Future[tuple[Record | None, str]]:
        """The photograph that teaches most, and why."""
        return self.worker.put(self._suggest, priority=SUGGEST, key="suggest")

    def _suggest(self) -> tuple[Record | None, str]:
        if not self.suggests:
            raise Problem(409, "This model's learner cannot tell what it does not know; go by certainty.")
        records = [
            one
            for one in self.project.records()
            if self.project.painted(one) is None and one.problem is None and one.review == "none"
        ]
        if not records:
            return None, "Every photograph is painted or judged already."
        pool = self._pool(records)
        if not pool:
            return None, "None of these photographs can be read."
        learned = self.learned
        presence = None if learned is None else self._presence(learned, [record for record, _ in pool])
        memory = None if learned is None else learned.concept.memory
        features = torch.cat([features for _, features in pool])
        (best,) = order(self.segmenter, Pool(features, list(range(len(pool))), {}, presence), 1, memory)
        there = None if presence is None else float(presence[best])
        return pool[best][0], self._reason(pool[best][0], len(pool), there)

    def _pool(self, records: Sequence[Record]) -> list[tuple[Record, torch.Tensor]]:
        """Photographs and their features; of those that were never looked at the few that most probably show it, the
        least certain first."""
        new = [one for one in records if (one.key, one.stamp) not in self._features]
        for record in sorted(new, key=lambda one: (-self._found_presence(one), self._certainty(one)))[:CANDIDATES]:
            try:
                self.project.look(record)
                seen = encode(self.segmenter, [self.project.path(record)])
            except Problem:
                continue
            for error in seen.failures.values():
                self.project.broken(record, str(error))
            if seen.readable:
                self._features[record.key, record.stamp] = seen.features
            while len(self._features) > FEATURES:
                self._features.popitem(last=False)
            self.worker.let_pass(SUGGEST)  # a stroke must not wait for all of them
        known = ((one, self._features.get((one.key, one.stamp))) for one in records)
        return [(record, features) for record, features in known if features is not None]

    def _presence(self, learned: Learned, records: Sequence[Record]) -> torch.Tensor | None:
        """(N,) as each photograph's last find tells it, where the model does; what has none is looked at."""
        if not learned.concept.tells_presence:
            return None
        for record in records:
            if self.project.finds.get(record.key) is None:
                for seen in self._look(learned, [record], 1):
                    self._found(seen, settled=False)
                self.worker.let_pass(SUGGEST)
        return torch.tensor([self._found_presence(record, otherwise=0.0) for record in records])

    def _found_presence(self, record: Record, otherwise: float = 1.0) -> float:
        """otherwise: where nothing was looked for."""
        found = self.project.finds.get(record.key)
        return otherwise if found is None else float(found.judged["presence"])

    def _reason(self, record: Record, count: int, presence: float | None) -> str:
        if self.learned is None:
            return f"Of {count} photographs this one tells most about the others: a good first example."
        found = self.project.finds.get(record.key)
        sure = "" if found is None else f" Its mask is {round(100 * float(found.judged['score']))} % certain."
        there = (
            "" if presence is None else f" It shows what was painted with a probability of {round(100 * presence)} %."
        )
        return f"Of {count} photographs this one would teach the model most.{there}{sure}"
