"""Damage to a file, for property-based tests: bytes changed, put in, taken out or cut off anywhere."""

from collections.abc import Callable

from hypothesis import strategies as st

#: The bytes of a file -> those of the damaged one.
Damage = Callable[[bytes], bytes]


@st.composite
def damage(draw: st.DrawFn) -> Damage:
    """One to three changes, each at any place."""
    kinds = st.sampled_from(["flip", "change", "insert", "delete", "double", "truncate"])
    changes = draw(st.lists(st.tuples(kinds, st.floats(0, 1), st.integers(1, 40), st.binary(max_size=40)), max_size=3))

    def apply(data: bytes) -> bytes:
        for kind, share, length, new in changes:
            place = round(share * len(data))
            before, piece, after = data[:place], data[place : place + length], data[place + length :]
            flipped = bytes(byte ^ (1 << length % 8) for byte in piece[:1]) + piece[1:]
            middle = {"flip": flipped + after, "change": new[: len(piece)] + piece[len(new) :] + after}
            middle |= {"insert": new + piece + after, "delete": after, "double": piece + piece + after, "truncate": b""}
            data = before + middle[kind]
        return data

    return apply
