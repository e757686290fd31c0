"""Editing a pipeline: the verbs, and what is refused when a pipeline or an engine is built."""

from __future__ import annotations

import warnings

import pytest

from capgate import (
    Actor,
    ApprovalRule,
    ConfigurationError,
    Engine,
    FailureStage,
    Library,
    Pipeline,
    Stage,
    allow,
    policy,
    requires,
)
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

NAMES = [
    "discovery",
    "input-validation",
    "authentication",
    "authorization",
    "policy",
    "approval",
    "execution",
    "output-validation",
]
CLASSES = [
    Discovery,
    InputValidation,
    Authentication,
    Authorization,
    Policy,
    Approval,
    Execution,
    OutputValidation,
]
DANA = Actor("u_dana")


class Own(Stage):
    name = "own"

    def run(self, invocation):
        return None


class Other(Own):
    name = "other"


class OwnPolicy(Policy):
    """A default stage, extended."""


@policy("always")
def always(request):
    return allow()


def names(pipeline):
    return [stage.name for stage in pipeline.stages]


def issues_of(build):
    """Return the codes of what building refuses."""
    with pytest.raises(ConfigurationError) as caught:
        build()
    return [issue.code for issue in caught.value.issues]


def test_the_default_pipeline_is_the_eight_stages_in_order():
    """Each default stage carries its failure stage's value as its name, in the promised order."""
    pipeline = Pipeline.default()
    assert names(pipeline) == NAMES
    assert [type(stage) for stage in pipeline.stages] == CLASSES
    assert [stage.failure_stage for stage in pipeline.stages] == NAMES


@pytest.mark.parametrize("anchor", [*NAMES, *CLASSES], ids=str)
def test_before_and_after_take_a_name_or_a_class(anchor):
    """A stage goes right before or right after any default stage, and nothing else moves."""
    at = NAMES.index(anchor) if anchor in NAMES else CLASSES.index(anchor)
    default = Pipeline.default()
    assert names(default.before(anchor, Own())) == [*NAMES[:at], "own", *NAMES[at:]]
    assert names(default.after(anchor, Own())) == [*NAMES[: at + 1], "own", *NAMES[at + 1 :]]
    assert names(default) == NAMES


def test_custom_stages_are_anchors_too():
    """A custom stage can be an anchor, be replaced and be taken out, without `unsafe`."""
    pipeline = Pipeline.default().before("policy", Own())
    assert names(pipeline.after(Own, Other()))[3:6] == ["authorization", "own", "other"]
    assert names(pipeline.replace("own", Other()))[4] == "other"
    assert names(pipeline.without(Own)) == NAMES


def test_a_default_stage_is_replaced_by_its_own_kind():
    """A default stage can be replaced by one of its class or a subclass."""
    mine = OwnPolicy()
    pipeline = Pipeline.default().replace(Policy, mine)
    assert names(pipeline) == NAMES
    assert pipeline.stages[4] is mine


@pytest.mark.parametrize("verb", ["before", "after", "replace"])
@pytest.mark.parametrize("anchor", ["nope", "", "Execution", Other, int, None, 3, b"policy", []])
def test_unknown_anchors_are_refused(verb, anchor):
    """An anchor that the pipeline does not have is a ConfigurationError."""
    assert issues_of(lambda: getattr(Pipeline.default(), verb)(anchor, Own()))


@pytest.mark.parametrize("anchor", ["nope", Other, None, object()])
def test_an_unknown_stage_cannot_be_taken_out(anchor):
    """Taking out what is not there is a ConfigurationError, `unsafe` or not."""
    assert issues_of(lambda: Pipeline.default().without(anchor))
    assert issues_of(lambda: Pipeline.default().without(anchor, unsafe=True))


def test_a_duplicate_name_is_refused():
    """Two stages cannot share a name."""
    pipeline = Pipeline.default().before("policy", Own())
    assert issues_of(lambda: pipeline.after("execution", Own()))


@pytest.mark.parametrize("name", NAMES)
def test_a_custom_stage_cannot_take_a_default_name(name):
    """A custom stage cannot stand in for a default one, by its name or by replacing it (SI-1)."""
    fake = Own()
    fake.name = name
    assert issues_of(lambda: Pipeline.default().replace(name, fake))
    assert issues_of(lambda: Pipeline.default().without("policy", unsafe=True).after(name, fake))
    assert issues_of(lambda: Pipeline.default().replace(name, Own()))


@pytest.mark.parametrize(
    "stages",
    [
        [],
        [Execution()],
        [kind() for kind in reversed(CLASSES)],
        [kind() for kind in CLASSES if kind is not Policy],
        [kind() for kind in CLASSES if kind is not Execution],
        [*(kind() for kind in CLASSES), Execution()],
    ],
)
def test_the_default_stages_keep_their_order(stages):
    """A pipeline whose default stages are lost, doubled or misplaced cannot be built."""
    assert issues_of(lambda: Pipeline(stages))


@pytest.mark.parametrize("kind", CLASSES)
def test_a_default_stage_cannot_be_moved(kind):
    """A second copy of a default stage is refused wherever it is put."""
    for anchor in CLASSES:
        assert issues_of(lambda anchor=anchor: Pipeline.default().after(anchor, kind()))


@pytest.mark.parametrize("junk", [None, "own", 3, object(), Own, lambda invocation: None])
def test_only_stage_objects_are_stages(junk):
    """What is no `Stage` instance, a class included, is a ConfigurationError."""
    assert issues_of(lambda: Pipeline.default().before("policy", junk))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "  "),
        ("name", None),
        ("name", 3),
        ("failure_stage", "nowhere"),
        ("failure_stage", None),
        ("on_resume", "no"),
    ],
)
def test_a_stage_with_a_wrong_field_is_refused(field, value):
    """A blank name, an unknown failure stage or a strange `on_resume` is a ConfigurationError."""
    stage = Own()
    setattr(stage, field, value)
    assert issues_of(lambda: Pipeline.default().before("policy", stage))


@pytest.mark.parametrize("kind", [each for each in CLASSES if each is not Execution])
def test_a_default_stage_goes_only_unsafely(kind):
    """Removing a default stage takes `unsafe=True`; then the others stay in order."""
    assert issues_of(lambda: Pipeline.default().without(kind))
    for half in (1, "yes", None):
        assert issues_of(lambda half=half: Pipeline.default().without(kind, unsafe=half))
    left = Pipeline.default().without(kind, unsafe=True)
    assert names(left) == [name for name in NAMES if name != kind.name]


def test_execution_cannot_be_removed():
    """`Execution` stays, whatever is said."""
    assert issues_of(lambda: Pipeline.default().without("execution", unsafe=True))
    assert issues_of(lambda: Pipeline.default().without(Execution, unsafe=True))


@pytest.mark.parametrize("kind", [each for each in CLASSES if each is not Execution])
def test_an_engine_warns_of_a_removed_stage(kind):
    """An engine whose pipeline lacks a default stage says so in a warning that names it."""
    pipeline = Pipeline.default().without(kind, unsafe=True)
    with pytest.warns(UserWarning, match=kind.name):
        Engine("test", pipeline=pipeline)


def test_an_engine_with_all_stages_does_not_warn():
    """The default pipeline, and one with custom stages, build without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Engine("test", pipeline=Pipeline.default().before("execution", Own()))


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Authorization, {}),
        (Authorization, {"access": requires("orders:refund")}),
        (Authorization, {"access": lambda request: True}),
        (Policy, {"policies": [always]}),
        (Approval, {"approval": ApprovalRule()}),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("through", ["engine", "library"])
def test_what_no_stage_enforces_cannot_be_declared(kind, fields, through):
    """A capability that declares what a removed stage would enforce is a ConfigurationError."""
    pipeline = Pipeline.default().without(kind, unsafe=True)
    library = Library("lib", "1")
    owner = Engine("test", pipeline=pipeline) if through == "engine" else library

    async def cap() -> None:
        """Do nothing."""

    def build():
        owner.capability("cap", **({"access": "public"} | fields))(cap)
        if through == "library":
            Engine("test", pipeline=pipeline, libraries=[library])

    if fields == {}:
        fields = {"access": "authenticated"}
    assert issues_of(build)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", [Authorization, Policy, Approval])
async def test_what_needs_no_enforcement_still_runs(kind):
    """A public capability without policies and approval runs in a pipeline that lacks a gate."""
    engine = Engine("test", pipeline=Pipeline.default().without(kind, unsafe=True))

    @engine.capability("cap", access="public")
    async def cap() -> int:
        """Give one."""
        return 1

    assert await engine.invoke(cap) == 1
    assert kind.name not in [line["stage"] for line in engine.describe("cap").plan]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_engine_policies_need_the_policy_stage():
    """Engine policies that no stage would ask are a ConfigurationError as well (SI-7)."""
    pipeline = Pipeline.default().without(Policy, unsafe=True)

    async def cap() -> None:
        """Do nothing."""

    def build():
        engine = Engine("test", pipeline=pipeline, policies=[always])
        engine.capability("cap", access="public")(cap)

    assert issues_of(build)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_authorizer_needs_the_authorization_stage():
    """`Engine(authorize=…)` without the stage that asks it is a ConfigurationError (SI-7)."""
    pipeline = Pipeline.default().without(Authorization, unsafe=True)
    assert issues_of(lambda: Engine("test", pipeline=pipeline, authorize=lambda request: False))


def test_a_pipeline_cannot_be_changed():
    """A pipeline is a value: its stages are a tuple, and equal pipelines are equal."""
    pipeline = Pipeline.default()
    with pytest.raises(AttributeError):
        pipeline.stages = ()
    assert isinstance(pipeline.stages, tuple)
    assert pipeline.before("policy", own := Own()).without(own.name) == pipeline
    assert FailureStage(pipeline.stages[0].name) is FailureStage.DISCOVERY
