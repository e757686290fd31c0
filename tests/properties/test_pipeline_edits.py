"""Whatever is done to a pipeline, the default stages that are left keep their order."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from capgate import ConfigurationError, Pipeline, Stage
from capgate.pipeline import (
    Approval,
    Authentication,
    Authorization,
    Discovery,
    Execution,
    InputValidation,
    OutputValidation,
    Policy,
)

DEFAULT = [
    Discovery,
    InputValidation,
    Authentication,
    Authorization,
    Policy,
    Approval,
    Execution,
    OutputValidation,
]
NAMES = [kind.name for kind in DEFAULT]


class Own(Stage):
    def __init__(self, name):
        self.name = name

    def run(self, invocation):
        return None


ANCHORS = st.sampled_from([*NAMES, *DEFAULT, "a", "b", "c", Own, "nope"])
STAGES = st.one_of(
    st.sampled_from(["a", "b", "c", *NAMES]).map(Own),
    st.sampled_from(DEFAULT).map(lambda kind: kind()),
)
EDITS = st.one_of(
    st.tuples(st.sampled_from(["before", "after", "replace"]), ANCHORS, STAGES),
    st.tuples(st.just("without"), ANCHORS, st.booleans()),
)


def apply(pipeline, edit):
    """Return the edited pipeline, or the same one when the edit is refused."""
    verb, anchor, third = edit
    try:
        if verb == "without":
            return pipeline.without(anchor, unsafe=third)
        return getattr(pipeline, verb)(anchor, third)
    except ConfigurationError:
        return pipeline


def core_of(pipeline):
    """Return the names of the default stages that stand in a pipeline, by class."""
    return [stage.name for stage in pipeline.stages if isinstance(stage, tuple(DEFAULT))]


@settings(deadline=None, max_examples=300)
@given(st.lists(EDITS, max_size=12))
def test_no_sequence_of_edits_reorders_the_default_stages(edits):
    """What is left of the default stages is in order; only unsafe removal loses one."""
    pipeline, removed = Pipeline.default(), set()
    for edit in edits:
        before = pipeline.stages
        edited = apply(pipeline, edit)
        assert pipeline.stages == before
        if edited is not pipeline and edit[0] == "without" and edit[2]:
            removed |= set(core_of(pipeline)) - set(core_of(edited))
        pipeline = edited
        assert core_of(pipeline) == [name for name in NAMES if name not in removed]
    assert "execution" in core_of(pipeline)


@settings(deadline=None, max_examples=200)
@given(st.lists(EDITS, max_size=12))
def test_names_stay_unique(edits):
    """After any edits no two stages share a name, and no custom stage has a default one's."""
    pipeline = Pipeline.default()
    for edit in edits:
        pipeline = apply(pipeline, edit)
    names = [stage.name for stage in pipeline.stages]
    assert len(names) == len(set(names))
    assert not {stage.name for stage in pipeline.stages if isinstance(stage, Own)} & set(NAMES)


@settings(deadline=None, max_examples=100)
@given(st.permutations(DEFAULT), st.integers(0, 8))
def test_only_the_promised_order_can_be_built(order, count):
    """Building from a list of default stages works for the promised order and for no other."""
    wanted = order[:count] if count < len(DEFAULT) else order
    try:
        Pipeline(kind() for kind in wanted)
    except ConfigurationError:
        assert list(wanted) != DEFAULT
    else:
        assert list(wanted) == DEFAULT
