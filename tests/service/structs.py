"""Hypothesis strategies for the requests and answers of operations, made from their types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec
from hypothesis import strategies as st
from msgspec import NODEFAULT, Struct
from msgspec import inspect as types

EXACT_MAX: Final = 2**53
_INT64_MAX: Final = 2**63 - 1
_LIST_MAX: Final = 3

texts = st.text(max_size=20)
# Minus zero is whole, and comes back as 0.
floats = st.floats(allow_nan=False, allow_infinity=False).map(lambda number: number + 0.0)
numbers = st.integers(-EXACT_MAX, EXACT_MAX) | floats
leaves = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=_LIST_MAX) | st.dictionaries(texts, inner, max_size=_LIST_MAX)
    ),
    max_leaves=8,
)
trees = st.dictionaries(texts, values, max_size=_LIST_MAX)


@dataclass(frozen=True)
class Drawn:
    """The strategies for texts and free trees."""

    texts: st.SearchStrategy[str] = texts
    trees: st.SearchStrategy[dict[str, Any]] = trees


ANYTHING: Final = Drawn()


@st.composite
def structs(draw: st.DrawFn, struct: type[Struct], drawn: Drawn = ANYTHING) -> Struct:
    """Return any ``struct`` that may be a request or answer, some fields at their defaults."""
    info = types.type_info(struct)
    assert isinstance(info, types.StructType)
    return msgspec.convert(draw(_struct_trees(info, drawn)), struct)


@st.composite
def _struct_trees(draw: st.DrawFn, info: types.StructType, drawn: Drawn) -> dict[str, Any]:
    return {
        field.encode_name: draw(_of(field.type, drawn, exact=_is_free(field)))
        for field in info.fields
        if field.required or draw(st.booleans())
    }


def _is_free(field: types.Field) -> bool:
    """Return whether the field is sent as a protobuf Value, whose numbers are doubles."""
    if not isinstance(field.type, types.UnionType):
        return False
    count = sum(not isinstance(each, types.NoneType) for each in field.type.types)
    return count > 1 or (not field.required and field.default is NODEFAULT)


def _of(  # noqa: C901, PLR0911, PLR0912 - one case per type
    kind: types.Type, drawn: Drawn, *, exact: bool = False
) -> st.SearchStrategy[Any]:
    most = EXACT_MAX if exact else _INT64_MAX
    match kind:
        case types.Metadata():
            return _of(kind.type, drawn, exact=exact)
        case types.UnionType():
            return st.one_of([_of(each, drawn, exact=exact) for each in kind.types])
        case types.NoneType():
            return st.none()
        case types.BoolType():
            return st.booleans()
        case types.IntType():
            return st.integers(-most if kind.ge is None else kind.ge, kind.le or most)
        case types.FloatType():
            return floats
        case types.StrType() if kind.pattern is not None:
            return st.from_regex(kind.pattern, fullmatch=True).filter(
                lambda text: _fits(text, kind)
            )
        case types.StrType():
            return drawn.texts.filter(lambda text: _fits(text, kind))
        case types.EnumType():
            return st.sampled_from([each.value for each in kind.cls])
        case types.LiteralType():
            return st.sampled_from(kind.values)
        case types.VarTupleType() | types.ListType():
            least = kind.min_length or 0
            return st.lists(_of(kind.item_type, drawn), min_size=least, max_size=least + _LIST_MAX)
        case types.DictType(value_type=types.AnyType()):
            return drawn.trees
        case types.DictType():
            return st.dictionaries(texts, _of(kind.value_type, drawn), max_size=_LIST_MAX)
        case types.StructType():
            return st.deferred(lambda: _struct_trees(kind, drawn))
        case types.AnyType():
            return values
        case _:
            raise TypeError(f"no strategy draws {kind}; add one")


def _fits(text: str, kind: types.StrType) -> bool:
    most = len(text) if kind.max_length is None else kind.max_length
    return (kind.min_length or 0) <= len(text) <= most
