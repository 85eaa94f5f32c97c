"""Turns the results of a plan's steps into its answer. A composer words it. If there is none, or it fails, step results are
concatenated, so no finding is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from db.status import ExecutionStatus
from runner.chat import phrase
from runner.record import facts
from runner.result import ORIGIN, OWN_WORDS, Outcome, Problem, Result, missing_servers, summarise
from runner.roles import COMPOSER
from runner.strategies.child_tracker import ChildTracker
from runner.strategies.compose import StepResult, composer_message, digest_of
from runner.strategies.conclusion import Conclusion
from runner.strategies.context import StrategyContext
from runner.strategies.plan.progress import Progress
from runner.strategies.staff import Staff
from runner.text import is_raw

_RAN_OUT = {"time_budget": "time", "token_budget": "tokens", "cost_budget": "money"}
"""The exhausted resource, by the reason of the plan's end."""
STEP_FAILED = "step `{step}` ({agent}): {why}"
MOST_NAMED = 20
"""Steps that a sentence names; more are only counted."""
_URL = re.compile(r"(?:https?|file)://[^\s<>\"'`)\]}\\]+")


class PlanAnswer:
    """Builds the result of one plan."""

    def __init__(self, context: StrategyContext, staff: Staff, tracker: ChildTracker, progress: Progress) -> None:
        self._context, self._staff = context, staff
        self._tracker, self._progress = tracker, progress
        self._conclusion = Conclusion(context)

    def keep_price(self) -> None:
        """Keep the price of a composer that is shown the results so far, if one will be asked."""
        asks = self._progress.spec.compose in ("always", "auto") and COMPOSER not in self._tracker.child_ids
        if asks and self._conclusion.limited:
            digest = digest_of(self._progress.brought(), self._staff.composer_budget, readable=False)
            self._conclusion.keep(self._staff.composer(self._context.quoted), digest.tokens)

    async def answer(self, reason: str | None, problem: Problem | None) -> Result:
        """Build the result. `reason`: why the plan ended early; `problem`: why there was no plan, or no further version."""
        brought = self._progress.brought()
        left = [each for each in brought if not each.succeeded and each.step.id not in self._progress.replaced]
        errors = [*_errors(left), *self._beyond_limits(left), *([problem] if problem is not None else [])]
        errors += [lack for each in brought if each.succeeded for lack in missing_servers(each.standing.result)]
        if reason in _RAN_OUT and (left or problem is not None):
            errors.insert(0, _ran_out(reason, left, self._context.allowance.timeout))
        text = await self._text(brought, problem)
        bare = self._progress.spec.compose == "never" and brought
        return Result(
            _outcome(brought, errors, left),
            summarise(text),
            [each.shown() for each in brought] if bare else text,
            reason or next(filter(None, (*(each.type for each in errors), *map(_shortfall, brought))), None),
            errors=errors,
            signals={} if bare or _is_technical(text, brought) else {"worded": True},
        )

    def _beyond_limits(self, left: Sequence[StepResult]) -> Iterator[Problem]:
        """Problems caused by the plan's limits: steps beyond them, or a replan that they forbid."""
        progress = self._progress
        cut = [each.step for each in left if progress.versions and each.step.id in progress.current.cut]
        if cut:
            uncounted = progress.current.uncounted
            more = f" and {uncounted} more" if uncounted else ""
            names = ", ".join(f"`{step.id}` ({step.agent})" for step in cut[:MOST_NAMED])
            names += f" and {len(cut) - MOST_NAMED + uncounted} more" if len(cut) > MOST_NAMED else more
            message = f"{progress.beyond_limit.message}; not done: {names}"
            advice = "raise `plan.max_steps`, or ask for less at once"
            yield replace(progress.beyond_limit, message=message, recommendation=advice)
        if (unmet := progress.unmet) is not None:
            limit = "max_replans" if len(progress.versions) > progress.spec.max_replans else "max_steps"
            message = f"step `{unmet.step_id}` asked for a new plan, but the limit is reached: {unmet.reason}"
            yield Problem(limit, message, recoverable=False, recommendation=f"raise `plan.{limit}`")

    async def _text(self, brought: Sequence[StepResult], problem: Problem | None) -> str:
        if not self._progress.versions and problem is not None:
            return phrase("no_plan", self._context.locale)
        if not brought and self._progress.on_empty == "nothing":
            return phrase("nothing", self._context.locale)
        compose = self._progress.spec.compose
        alone = len({each.step.agent for each in brought}) == 1
        if compose == "never" and brought:
            return phrase("count", self._context.locale, done=sum(each.succeeded for each in brought), all=len(brought))
        if compose in ("concat", "never") or (compose == "auto" and alone and not is_raw(joined(brought))):
            return "\n\n".join(filter(None, (joined(brought), self._not_done(brought))))
        composed = await self._composed(brought)
        if composed is None or is_raw(composed):
            return self._without_composer(brought)
        return with_links(composed, brought)

    async def _composed(self, brought: Sequence[StepResult]) -> str | None:
        spec = self._progress.spec
        hint = self._progress.current.response_hint if self._progress.versions else ""
        budget = self._staff.composer_budget
        digest = digest_of(brought, budget, readable=False)
        request = self._staff.composer(composer_message(self._context.quoted, digest, hint, spec.channel))
        if over := self._conclusion.over(request):
            digest = digest_of(brought, max(0, min(budget, digest.tokens - digest.frame) - over), readable=False)
            request = self._staff.composer(composer_message(self._context.quoted, digest, hint, spec.channel))
        if digest.cut:
            self._context.recorder.record_nowait(
                facts.Noticed(self._context.place, "context.trimmed", digest.told(COMPOSER))
            )
        self._context.set_activity("composing the answer")
        self._conclusion.hand_over()
        await self._tracker.spawn_step(COMPOSER, request)
        await self._tracker.repeat_messages()
        await self._tracker.until_ended([COMPOSER])
        end = self._tracker.end_of_step(COMPOSER)
        said = end.answer if end is not None and end.result is not None and end.result.status == "completed" else None
        return said.text if said is not None and said.text.strip() else None

    def _without_composer(self, brought: Sequence[StepResult]) -> str:
        self._context.warnings.append("the composer failed: the answer was assembled from step results without a model")
        if not brought:
            return phrase("nothing", self._context.locale)
        return "\n\n".join(filter(None, (self._put_together(brought), self._not_done(brought))))

    def _not_done(self, brought: Sequence[StepResult]) -> str:
        """Planned steps that never started, where no composer mentions them."""
        skipped = [each.step for each in brought if each.standing.status == ExecutionStatus.SKIPPED]
        if not skipped or not any(each.succeeded for each in brought):
            return ""
        tasks = [f"- {summarise(step.task)}" for step in skipped[:MOST_NAMED]]
        tasks += [f"- … (+{len(skipped) - MOST_NAMED})"] if len(skipped) > MOST_NAMED else []
        return "\n".join([phrase("not_done", self._context.locale), *tasks])

    def _put_together(self, brought: Sequence[StepResult]) -> str:
        done = [each for each in brought if each.succeeded]
        words = joined([each for each in done if not is_raw(each.text)] if done else brought)
        count = phrase("count", self._context.locale, done=len(done), all=len(brought))
        if self._progress.spec.compose != "auto":
            return words or count
        return f"{count}\n\n{words}" if done and words else count


def joined(brought: Sequence[StepResult]) -> str:
    """The successful results, concatenated; if there are none, the first failure, else the first blocked step."""
    texts = [each.text for each in brought if each.succeeded and each.text.strip()]
    if texts:
        return "\n\n".join(texts)
    first = _first_failure(brought)
    return first.text if first is not None else ""


def _first_failure(brought: Sequence[StepResult]) -> StepResult | None:
    failures = [each for each in brought if each.standing.failed]
    return next((each for each in failures if each.standing.status != "blocked"), failures[0] if failures else None)


def _is_technical(text: str, brought: Sequence[StepResult]) -> bool:
    """Whether the answer is only a failure that no agent explained in its own words, so not fit for users."""
    first = None if any(each.succeeded for each in brought) else _first_failure(brought)
    if first is None or text != first.text or first.standing.result is None:
        return False
    return not first.standing.result.signals.get(OWN_WORDS)


def with_links(text: str, brought: Sequence[StepResult]) -> str:
    """Append all links of successful steps that an answer leaves out."""
    found = [url.rstrip(".,;:!?") for each in brought if each.succeeded for url in _URL.findall(each.text)]
    missing = [url for url in dict.fromkeys(found) if url not in text]
    return "\n".join([text, *missing]) if missing else text


def _errors(brought: Sequence[StepResult]) -> list[Problem]:
    problems: list[Problem] = []
    for each in brought:
        if each.standing.failed:
            known = each.standing.result.errors if each.standing.result is not None else ()
            first = known[0] if known else Problem("failed", each.text)
            where = {"step": each.step.id, "agent": each.step.agent}
            if ORIGIN in first.context:
                where[ORIGIN] = first.context[ORIGIN]
            message = STEP_FAILED.format(step=each.step.id, agent=each.step.agent, why=first.message)
            problem = Problem(first.type, message, first.code, first.severity, context=where)
            problems.append(problem.because_of(first))
    return problems


def _ran_out(reason: str, left: Sequence[StepResult], seconds: float) -> Problem:
    """The problem of a plan that exhausted a resource; `seconds` was its timeout."""
    names = ", ".join(f"`{each.step.id}`" for each in left) or "there was a plan"
    message = f"the {_RAN_OUT[reason]} of the plan ran out before {names}"
    if reason != "time_budget":
        return Problem(reason, message, recoverable=False)
    return Problem("timeout", message, context={"timeout": round(seconds, 3)})


def _shortfall(brought: StepResult) -> str | None:
    """Why a successful step is incomplete; None if it is complete."""
    result = brought.standing.result
    return result.reason or "partial" if brought.succeeded and result and result.outcome is Outcome.PARTIAL else None


def _outcome(brought: Sequence[StepResult], errors: Sequence[Problem], left: Sequence[StepResult]) -> Outcome:
    if not left and not errors and not any(map(_shortfall, brought)):
        return Outcome.COMPLETED
    return Outcome.PARTIAL if any(each.succeeded for each in brought) else Outcome.FAILED
