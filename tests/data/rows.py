"""What tests of policies and of segments compare."""

from electra.core.segments import PackedRow


def contents(rows):
    """Ids of (A, B or None) of each row; of a packed row a tuple of them."""
    return [
        tuple(contents(row.segments))
        if isinstance(row, PackedRow)
        else (row.first.tolist(), None if row.second is None else row.second.tolist())
        for row in rows
    ]


def all_ids(cache):
    """Ids of every document of a token cache."""
    return [cache.tokens(document, 0, int(length)).tolist() for document, length in enumerate(cache.lengths)]
