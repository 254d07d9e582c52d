"""minbert/reporting/figures.py: what each kind of plot puts on its axes, read back from matplotlib.

images.py, which makes SVG and PNG of them, has its own tests.
"""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure as Canvas

from minbert.reporting.figures import (
    COLOURS,
    BarPlot,
    Bars,
    BoxPlot,
    Line,
    LinePlot,
    PairMap,
    ScatterPlot,
    StackedHistograms,
)

LINE = Line([0, 50, 100], [1.0, 3.0, 2.0], notes=("first", "second", "third"))
PATH = LinePlot((LINE,), "step", "score", highlighted=2, labels={0: "start", 2: "end"})


def draw(plot):
    """The axes of a drawn plot, and its tooltips."""
    axes = Canvas().add_subplot()
    return axes, plot.draw(axes)


def labels_of(axes) -> tuple[str, str]:
    return axes.get_xlabel(), axes.get_ylabel()


# --- scatter plot, boxes, histograms ------------------------------------------------------------


def test_points_stand_where_they_belong():
    """x to the right, y upwards, both axes from 0 to 5 and of one scale."""
    plot = ScatterPlot([0.0, 5.0, 2.5], [5.0, 0.0, 1], "gold", "prediction", 0, 5, ("a", "b", "c"))
    axes, (tooltip,) = draw(plot)
    (points,) = axes.collections
    assert points.get_offsets().tolist() == [[0, 5], [5, 0], [2.5, 1]]
    assert tooltip.artist is points and tooltip.notes == ("a", "b", "c")
    assert labels_of(axes) == ("gold", "prediction")
    assert axes.lines[0].get_xydata().tolist() == [[0, 0], [5, 5]], "the diagonal"
    assert list(axes.get_xticks()) == list(axes.get_yticks()) == [0, 1, 2, 3, 4, 5]
    assert axes.get_aspect() == 1 and axes.get_xlim() == axes.get_ylim()
    assert plot.description == "Scatter plot of 3 points: gold to the right, prediction upwards"


def test_bars_stand_side_by_side_in_their_groups():
    """Two series in three groups: the first group at the top, its first series above the second."""
    first = Bars("SST", [0.5, 0.25, 0.0], ("a", "b", ""), [0.1, 0.0, 0.0])
    second = Bars("STS", [0.75, 0.5, 1.0], ("d", "e", "f"))
    plot = BarPlot(["one", "two", "three"], (first, second), "dev score", (0, 1))
    axes, tooltips = draw(plot)
    assert [tooltip.notes for tooltip in tooltips] == [[note] for note in ("a", "b", "", *"def")]
    bars = [tooltip.artist for tooltip in tooltips]
    assert [bar.get_width() for bar in bars] == [0.5, 0.25, 0.0, 0.75, 0.5, 1.0]
    edges = [(bar.get_y(), bar.get_y() + bar.get_height()) for bar in (bars[0], bars[3])]
    assert edges[0][1] == pytest.approx(edges[1][0]) == pytest.approx(0), "they touch at group 0"
    assert bars[1].get_y() == pytest.approx(1 - 1 / 3)
    low, high = axes.get_ylim()
    assert low > high, "the first group stands at the top"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["one", "two", "three"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["SST", "STS"]
    assert plot.description == "Bars of 3 groups: dev score of SST, STS"


def test_boxes_stand_where_they_belong():
    """The first interval is 0 to 2; its box leaves 15 % on either side. An empty one has no box."""
    quantiles = [[0, 0.1, 0.25, 0.5, 1], None, [0.5] * 5]
    plot = BoxPlot([0, 2, 4, 5], quantiles, (0, 5), (0, 1), "label", "cosine", ("one", "", "three"))
    axes, tooltips = draw(plot)
    assert [tooltip.notes for tooltip in tooltips] == [["one"], ["three"]]
    box = tooltips[0].artist.get_path().get_extents()
    assert [box.x0, box.y0, box.x1, box.y1] == pytest.approx([0.3, 0.1, 1.7, 0.5])
    thin = tooltips[1].artist.get_path().get_extents()
    assert [thin.x0, thin.y0, thin.x1, thin.y1] == pytest.approx([4.15, 0.5, 4.85, 0.5])

    # Of each box two whiskers and the median.
    lines = [line.get_xydata().tolist() for line in axes.lines]
    assert [[1, 0.1], [1, 0]] in lines and [[1, 0.5], [1, 1]] in lines
    medians = [line for line in axes.lines if to_hex(line.get_color()) == COLOURS["orange"]]
    np.testing.assert_allclose(medians[0].get_xydata(), [[0.3, 0.25], [1.7, 0.25]])
    assert axes.get_xlim() == (0, 5) and axes.get_ylim() == (0, 1)
    assert plot.description.startswith("Box plot of 3 intervals: label to the right")


def test_histograms_stand_on_their_bands_and_the_largest_share_is_as_high_as_a_band():
    plot = StackedHistograms(
        [0, 0.5, 1],
        [0, 2, 4],
        [[0.25, 0.75], [0.5, 0.0]],
        x_limits=(0, 1),
        x_label="cosine",
        y_label="label",
        notes=("low", "high"),
    )
    axes, tooltips = draw(plot)
    assert [tooltip.notes for tooltip in tooltips] == [["low"], ["high"]]
    low, high = (tooltip.artist.get_data() for tooltip in tooltips)
    assert low.baseline == 0 and high.baseline == 2
    np.testing.assert_allclose(low.values, [2 / 3, 2])
    np.testing.assert_allclose(high.values, [2 + 4 / 3, 2])
    assert list(low.edges) == [0, 0.5, 1] and axes.get_ylim() == (0, 4)


def test_histograms_of_empty_bands_are_flat():
    plot = StackedHistograms([0, 1], [0, 1], [[0.0]], (0, 1), "x", "y", ("",))
    _, (tooltip,) = draw(plot)
    assert tooltip.artist.get_data().values == [0]


# --- lines --------------------------------------------------------------------------------------


def test_a_line_goes_through_its_points_in_order():
    axes, tooltips = draw(PATH)
    line, highlight = axes.lines[:2]
    assert line.get_xydata().tolist() == [[0, 1], [50, 3], [100, 2]]
    assert highlight.get_xydata().tolist() == [[100, 2]]
    assert highlight.get_color() == COLOURS["orange"] != line.get_color()
    assert highlight.get_zorder() > line.get_zorder(), "it must be drawn over the others"
    assert [list(tooltip.notes) for tooltip in tooltips] == [
        ["first", "second", "third"],
        ["third"],
    ]
    assert axes.get_legend() is None, "a line without a name needs no legend"


def test_labels_stand_beside_their_points_and_apart():
    """The higher one stands above its point, the lower one below. Both point to the middle."""
    axes, _ = draw(PATH)
    start, end = axes.texts
    assert (start.get_text(), start.xy) == ("start", (0, 1.0))
    assert (start.get_va(), start.get_ha()) == ("top", "left")
    assert (end.get_text(), end.xy) == ("end", (100, 2.0))
    assert (end.get_va(), end.get_ha()) == ("bottom", "right")


@pytest.mark.parametrize("labels", [{0: "before", 1: "1 = after"}, {0: "before", 2: "2 = after"}])
@pytest.mark.parametrize("y", [(1, 1, 1), (3, 2, 1), (1, 2, 3), (1.0, 1.001, 1.002)])
def test_two_labels_never_overlap(labels, y):
    """The points may be as close as they like."""
    canvas = Canvas(figsize=(6, 6))
    axes = canvas.add_subplot()
    LinePlot((Line([0, 0.001, 0.002], y),), "x", "y", labels=labels).draw(axes)
    canvas.draw_without_rendering()
    first, second = (text.get_window_extent() for text in axes.texts)
    assert not first.overlaps(second)


def test_more_than_two_labels_are_an_error_of_ours():
    with pytest.raises(AssertionError, match="3 labels"):
        LinePlot((LINE,), "x", "y", labels={0: "a", 1: "b", 2: "c"})


def test_points_that_do_not_fit_are_an_error_of_ours():
    for line in (Line([0, 1], [1]), Line([0, 1], [0, 1], notes=("one",))):
        with pytest.raises(AssertionError, match="a line with 2 x"):
            LinePlot((line,), "x", "y")


def test_several_lines_have_names_and_differ():
    lines = [Line([1, 2], [number, number], f"line {number}") for number in range(9)]
    axes, _ = draw(LinePlot(tuple(lines), "x", "y", starts_at_zero=True))
    shown = [text.get_text() for text in axes.get_legend().get_texts()]
    assert shown == [f"line {number}" for number in range(9)]
    looks = {(line.get_color(), line.get_linestyle()) for line in axes.lines[:9]}
    assert len(looks) == 9 and axes.get_xlim()[0] == 0


def test_a_line_at_zero_shows_where_the_sign_changes():
    axes, _ = draw(LinePlot((Line([0, 1], [-1, 1]),), "x", "y"))
    assert len(axes.lines) == 2 and list(axes.lines[1].get_ydata()) == [0, 0]
    assert len(draw(LinePlot((Line([0, 1], [10, 11]),), "x", "y"))[0].lines) == 1


def test_a_plot_without_lines_is_empty():
    plot = LinePlot((), "x", "y")
    assert draw(plot)[1] == [] and plot.description.startswith("Line")


@pytest.mark.parametrize("values", [[0, 591], [-2.52, -0.91], [2e-4, 7.9e-4], [1, 1], [1e5, 9e5]])
def test_ticks_are_round_and_few(values):
    """Multiples of 1, 2 or 5 times a power of ten."""
    axes, _ = draw(LinePlot((Line(values, values),), "x", "y"))
    ticks = axes.get_xticks()
    assert 2 <= len(ticks) <= 9
    step = min(second - first for first, second in pairwise(ticks))
    assert f"{step:e}"[0] in "125" and np.allclose(ticks / step, np.round(ticks / step))


def test_a_plot_can_be_understood_without_seeing_it():
    assert PATH.description == (
        "Line through 3 points: step to the right, score upwards. First: first. Highlighted: "
        "third. Last: third."
    )
    two = LinePlot((Line([1], [1], "a"), Line([1, 2], [1, 2], "b")), "x", "y")
    assert two.description == "Line through 1, 2 points: x to the right, y upwards"


# --- maps ---------------------------------------------------------------------------------------


def test_a_map_joins_the_points_of_each_pair():
    points = [[[-10, -1], [10, 1]], [[0, 0], [-10, 10]]]
    plot = PairMap("after", points, [True, False], "t-SNE 1", "t-SNE 2", ("near", "far"))
    axes, tooltips = draw(plot)
    assert [line.get_xydata().tolist() for line in axes.lines] == points
    assert [tooltip.notes for tooltip in tooltips] == [["near"], ["far"]]

    # Kinds differ in colour, marker and line, so that a reader without colours sees them, too.
    positive, negative = axes.lines
    assert positive.get_color() != negative.get_color()
    assert positive.get_marker() != negative.get_marker()
    assert positive.get_linestyle() != negative.get_linestyle()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "positive pairs",
        "negative pairs",
    ]
    assert axes.get_title() == "after" and labels_of(axes) == ("t-SNE 1", "t-SNE 2")
    assert axes.get_aspect() == 1, "both axes have one scale"
    assert plot.description == (
        "Map of 2 pairs, after: 1 positive pairs as circles with a line, 1 negative pairs as "
        "squares with a dashed line"
    )
