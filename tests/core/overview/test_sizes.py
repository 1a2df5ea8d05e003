"""Points of the size of the context."""

from historyapp.core.overview.sizes import MAX_COMPACTIONS, MAX_POINTS, ContextSizes


def test_each_point_is_the_largest_of_an_equal_number_of_steps() -> None:
    sizes = ContextSizes()
    for step in range(1, 100_001):
        sizes.add(step, 100 + step % 97)
    assert MAX_POINTS / 2 < len(sizes.points) <= MAX_POINTS
    assert {size for _, size in sizes.points} == {196}
    slots = [(step - 1) // sizes.stride for step, _ in sizes.points]
    assert slots == list(range(len(slots)))


def test_reported_sizes_replace_estimates() -> None:
    sizes = ContextSizes(since_compaction=50)
    sizes.add(1, 0)
    sizes.add(2, 700)
    sizes.add(3, 0)
    assert sizes.points == [(2, 700)]


def test_further_compactions_are_counted() -> None:
    sizes = ContextSizes()
    for step in range(1, MAX_COMPACTIONS + 4):
        sizes.compact()
        sizes.compact()
        sizes.add(step, 10)
    assert (len(sizes.compactions), sizes.more_compactions) == (MAX_COMPACTIONS, 3)


def test_a_report_after_estimates_is_no_loss() -> None:
    sizes = ContextSizes(since_compaction=50_000)
    sizes.add(1, 0)
    sizes.add(2, 20_000)
    sizes.add(3, 10_000)
    assert [(loss.step, loss.before) for loss in sizes.losses] == [(3, 20_000)]
