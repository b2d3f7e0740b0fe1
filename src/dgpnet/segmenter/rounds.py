"""What the results in a folder are made with, and in plain words what has changed since."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from dgpnet.errors import shortened

if TYPE_CHECKING:
    from dgpnet.segmenter.concept import Concept

#: Of the record; a change that makes old results mean something else gets another number.
VERSION = 4
#: Names that a sentence lists.
LISTED = 5


@dataclass(frozen=True)
class Round:
    """One round of painting and segmenting.

    concept, model   their fingerprints
    values           class -> what stands for it in masks
    examples         (name, digest) of each painted photograph
    fitted           what fitting chose, in words; "" where it was not fitted
    options          what a photograph's files depend on · afterwards: what only files of all photographs depend on
    """

    concept: str
    model: str
    values: dict[str, int]
    examples: tuple[tuple[str, str], ...]
    options: dict[str, Any]
    afterwards: dict[str, Any]
    version: int = VERSION
    fitted: str = ""

    @staticmethod
    def now(concept: Concept, options: dict[str, Any], afterwards: dict[str, Any]) -> Round:
        """The round that is about to begin."""
        return Round(
            concept=concept.fingerprint,
            model=concept.segmenter.fingerprint,
            values=dict(zip(concept.legend.names, concept.legend.values, strict=True)),
            examples=tuple((origin.name, origin.digest) for origin in concept.origins),
            options=json.loads(json.dumps(options)),
            afterwards=json.loads(json.dumps(afterwards)),
            fitted="" if concept.fitted is None else str(concept.fitted),
        )

    @staticmethod
    def of(record: Mapping[str, Any]) -> Round | None:
        """The round of a record; None where it is none."""
        try:
            given = {field.name: record[field.name] for field in fields(Round) if field.name != "fitted"}
            given["fitted"] = str(record.get("fitted", ""))
            given["examples"] = tuple((str(name), str(digest)) for name, digest in given["examples"])
        except (KeyError, TypeError, ValueError):
            return None
        plain = all(isinstance(given[name], dict) for name in ("values", "options", "afterwards"))
        return Round(**given) if plain else None

    @property
    def made_with(self) -> str:
        """What the files of a photograph depend on, as a digest."""
        text = json.dumps([self.version, self.concept, self.options], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def moved(self, now: Round) -> str:
        """The class whose value is another now, in words; "" where there is none."""
        for name, value in self.values.items():
            if name in now.values and now.values[name] != value:
                return f"the class {name[:40]} was {value} in masks and is {now.values[name]} now"
        return ""


def differences(then: Round, now: Round) -> str:
    """What has changed, in words; "" where nothing has."""
    return "; ".join(_differences(then, now))


def _differences(then: Round, now: Round) -> Iterator[str]:
    if then.version != now.version:
        yield "it was made by another version of dgpnet"
        then, now = _by_name(then), _by_name(now)
    if then.model != now.model:
        yield "the model was another"
    yield from _examples(then, now)
    if list(then.values) != list(now.values):
        yield f"the classes were {_listed(then.values)} and are {_listed(now.values)}"
    yield from _options({**then.options, **then.afterwards}, {**now.options, **now.afterwards})
    same = all(getattr(then, name) == getattr(now, name) for name in ("version", "examples", "model", "values"))
    if same and then.concept != now.concept:
        if then.fitted and now.fitted:
            yield "it was fitted in another way"
        elif then.fitted or now.fitted:
            yield "it was fitted (--fit)" if then.fitted else "it was not fitted (--fit)"
        else:
            yield "the classes had other colours"


def _by_name(one: Round) -> Round:
    """Without the digests of examples, which another version may make in another way."""
    return replace(one, examples=tuple((name, "") for name, _ in one.examples))


def _examples(then: Round, now: Round) -> Iterator[str]:
    before, after = (Counter(one.examples) for one in (then, now))
    names_before, names_after = ({name for name, _ in one} for one in (before, after))
    new, gone = (sorted(name for name, _ in one) for one in (after - before, before - after))
    changed = sorted({name for name in new if name in names_before and name in gone})
    painted = [name for name in new if name not in changed]
    removed = [name for name in gone if name not in changed and name not in names_after]
    for names, what in (
        (painted, "{} painted since"),
        (changed, "{} painted anew since"),
        (removed, "{} taken out of the examples"),
    ):
        if names:
            count = f"{len(names)} photographs were" if len(names) > 1 else "1 photograph was"
            yield f"{what.format(count)}: {_listed(names)}"
    if not (painted or changed or removed) and then.examples != now.examples:
        yield "the examples are others, or in another order"


def _options(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted({*then, *now}):
        if then.get(name) != now.get(name):
            yield f"{name.replace('_', '-')} ({_short(then.get(name))} then, {_short(now.get(name))} now)"


def _short(value: Any) -> str:
    return shortened(json.dumps(value), 60)


def _listed(names: Iterable[str]) -> str:
    several = [shortened(name, 40) for name in names]
    return ", ".join(several[:LISTED]) + (f" and {len(several) - LISTED} more" if len(several) > LISTED else "")
