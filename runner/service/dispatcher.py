"""The dispatcher: starts roots, waits for them, cancels executions, deletes ended trees, and acts on other processes' rows.

Owns the task group of the roots. The service opens it, never a call or a request, so the caller of an execution may
disconnect.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskGroup, TaskStatus
from pydantic_core import from_json, to_json

from db.clock import loop_time
from db.database import Database
from db.errors import DatabaseUnavailable, StillOpen, StoreError, UnknownExecution
from db.rows import work_items
from db.store.writer import CLOSING_SECONDS, INTERVAL, changes
from registry import AgentSpec, OnDisconnect, Settings
from runner.approvals.approvals import Approvals
from runner.core.cancel import Canceller
from runner.core.execution import Environment, Execution
from runner.core.guard import permit
from runner.core.history import TreeUsage, name_of
from runner.core.inbox import Item
from runner.core.services import Services
from runner.core.shutdown import ShelteredGroup
from runner.core.spawn import DispatchInfo, SpawnRequest, earlier
from runner.core.steering import Steering
from runner.core.tree import Tree
from runner.core.verdict import Cause
from runner.core.views import is_gone, snapshot_of_row
from runner.errors import Refusal
from runner.inputs import accepted_input
from runner.messages import clean, clean_data, is_json
from runner.origin import NOWHERE, Origin, User
from runner.record import facts
from runner.record.events import Event, follow
from runner.record.recorder import Recorder
from runner.resume.adopt import Adopter
from runner.resume.configs import Configurations
from runner.resume.readiness import Lack, Unready
from runner.resume.restore import Continued, resumed
from runner.service.assembly import assemble
from runner.service.chat_queue import AGAIN, ChatQueue
from runner.service.extraction import Extraction
from runner.service.order import Order
from runner.snapshot import Snapshot
from runner.strategies.conclusion import price_of_answer
from runner.strategies.requests import admit_continuation, continued, dispatched, first_agents, top_level
from runner.strategies.route.commands.unfinished import taken_up
from runner.trace_context import trace_context
from runner.users.users import Users, known
from runner.work_items.board import configured_items

log = logging.getLogger("outrider.dispatcher")

SUPERVISION_SECONDS = 0.5
MOST_COUNTED = 300
"""Executions of a tree that is read whole only to tell what a rerun keeps."""
"""Interval between checks for executions past their deadline and grace period."""


class Dispatcher:
    """The runner as the faces see it."""

    def __init__(self, services: Services, group: TaskGroup) -> None:
        self.services = services
        self.tree: Tree[Execution] = Tree(services.settings.defaults.max_concurrent_roots)
        self.approvals = Approvals(services.recorder, services.database.reads.questions)
        self._group = group
        self._canceller = Canceller(services, self.tree, group)
        cancel = partial(self._canceller.cancel, patient=False)
        self._steering = Steering(services.database, services.recorder, cancel, self.tree.get)
        self._environment = Environment(
            services=services,
            tree=self.tree,
            assemble=partial(assemble, cancel=self._canceller.cancel, approvals=self.approvals),
            price_of_answer=price_of_answer,
            dispatched=dispatched,
            continued=Continued(),
            live=_lives(services),
        )
        self._configurations = Configurations(self._environment, services.restored)
        self.people = Users(services.settings, services.database.reads)
        self.chat_queue = ChatQueue(services.settings, self.people, self, group)
        self.extraction = Extraction(self._environment, self._run)
        self._adopter = Adopter(self._environment, self._configurations, self.people, self._run)

    async def start(self, order: Order) -> Snapshot:
        """Start an agent or a chain; its row is committed when this returns. Raises UnknownName, NoModel, Refusal."""
        started, _ = await self.start_once(order)
        return started

    async def start_with(self, settings: Settings, order: Order) -> Snapshot:
        """As `start`, with another configuration: it is stored, and the tree keeps it. Today's deny-lists
        and gates hold.
        """
        await self.services.recorder.record(facts.Configured(settings.hash, settings.snapshot, ()), patient=False)
        started, _ = await self.start_once(order, await self._configurations.environment(settings.hash))
        return started

    async def start_once(self, order: Order, environment: Environment | None = None) -> tuple[Snapshot, bool]:
        """As `start`; True when the order's key was used before, in any process: then that execution is returned.

        Raises Refusal when the key was used for another agent, task, input or user.
        """
        environment = environment or self._environment
        user = await self.people.named(order.user)
        order = replace(order, task=clean(order.task), input=_input(environment.services.settings, order))
        if order.key is not None:
            row = await self.services.database.reads.keyed(order.principal, order.key)
            if row is not None:
                same = (from_json(row["input"]) if row["input"] else None) == from_json(to_json(order.input))
                same = same and row["user_id"] == (user.id if user is not None else None)
                return earlier(self._known(row), order.key, order.name, order.task, same_rest=same), True
        if user is not None and order.chat:
            await self._refuse_if_busy(user)
        request = await taken_up(_request(environment.services, order, user), environment.services)
        root = Execution(environment, request, None)
        if not await self._entered(root):
            # A concurrent order won: it has the same key, or is another message of this user.
            return await self.start_once(order, environment)
        self._run(root)
        return root.snapshot(), False

    async def _refuse_if_busy(self, user: User) -> None:
        """Checked before the new execution has a timestamp: its prompt shows the conversation up to that time."""
        answering = await self.services.database.reads.people.being_answered(user.id)
        if answering is not None:
            message = f"a message of `{user.id}` is being answered: execution {answering}"
            raise Refusal("busy", message, AGAIN, {"execution_id": answering})

    async def _entered(self, root: Execution) -> bool:
        """Store a root; False when the row is refused. Raises Refusal while the service is stopping."""
        if self.services.shutdown.stopping:
            raise Refusal("stopping", "the service is stopping", "retry when it has restarted")
        try:
            return await root.enter()
        except DatabaseUnavailable as error:
            raise Refusal("unavailable", str(error), error.hint) from error

    def _run(self, root: Execution) -> None:
        """Run a stored root in the service's task group."""
        self.tree.add(root)
        self.extraction.expect(root)
        self._group.start_soon(self.extraction.live, root, name=f"{root.name} {root.id}")

    # -- resume --------------------------------------------------------------------------------------------------------

    async def adopt(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> int:
        """Adopt and resume the open trees of dead processes; return their number. Only a serving process does this.

        As a task it has `started` once this process owns them, and ends when each has a task.
        """
        tops = [] if self.services.shutdown.stopping else await self._adopter.take_over()
        task_status.started()
        return len(await self._adopter.go_on(tops))

    async def resume(self, execution: str, text: str = "", asker: Origin = NOWHERE) -> Snapshot:
        """Resume an interrupted execution with its whole tree, or continue an ended one.

        A continuation is a new execution: it starts from the old transcript, gets `text` and fresh limits, and stays
        rehearsed if the old one was. Raises UnknownExecution, UnknownName, NoModel, Unready when this process lacks a need
        of the tree, and Refusal for a running execution or when there is nothing to continue.
        """
        reads = self.services.database.reads
        row = await reads.execution(execution)
        if row is None:
            raise UnknownExecution(execution)
        if row["finished_at"] is None:
            if lacks := await self._adopter.lacks(row["root_execution_id"]):
                raise Unready(execution, lacks)
            for adopted in await self._adopter.go_on(await self._adopter.take_over(row["root_execution_id"])):
                return adopted.snapshot()
            raise Refusal("running", f"execution `{execution}` is running or being stopped", "wait until it ends")
        environment = await self._configurations.of_continuation(row["config_hash"])
        asked_for = replace(asker, user=await self.people.of(row))
        request = continued(environment.services.settings, row, text, asked_for)
        if isinstance(request.agent, AgentSpec):
            permit(request.agent.name, request.agent.requires, asked_for.user)
        _check_models(environment.services, request)
        if lacks := await self._adopter.lacks_to_continue(row, environment.services.settings):
            raise Unready(execution, lacks)
        admit_continuation(request.agent, row, await reads.children(row["id"]), text)
        root = Execution(environment, request, None)
        await self._entered(root)
        self._run(root)
        return root.snapshot()

    async def rerun(self, execution: str, node: str | None, task: str | None, asker: Origin = NOWHERE) -> Snapshot:
        """Fork an ended tree at `node`, by default `execution` itself, and do that and what follows again; the new root.

        What does not depend on it is kept, with its results. Raises UnknownExecution, UnknownName, NoModel, Unready, and
        Refusal.
        """
        from runner.resume.fork import Forking, ForkRequest, admit_fork  # late: few processes fork a tree

        reads = self.services.database.reads
        row = await reads.execution(execution)
        if row is None:
            raise UnknownExecution(execution)
        rows = await reads.tree_rows(row["root_execution_id"])
        admit_fork(rows, node or execution)
        top = rows[0]
        environment = await self._configurations.of_continuation(top["config_hash"])
        settings, user = environment.services.settings, await self.people.of(top)
        request = top_level(settings, name_of(top), top["task"] or "", None)
        if isinstance(request.agent, AgentSpec):
            permit(request.agent.name, request.agent.requires, asker.user or user)
        _check_models(environment.services, request)
        if lacks := await self._adopter.lacks_to_continue(top, settings):
            raise Unready(execution, lacks)
        wanted = ForkRequest(node or execution, clean(task) if task else None, settings.hash, self.services.database.owner)
        if self.services.shutdown.stopping:
            raise Refusal("stopping", "the service is stopping", "retry when it has restarted")
        forked = await Forking(reads, rows, wanted).copied()
        await self.services.recorder.record(forked, patient=False)
        [stored] = await reads.those([forked.rows.root["id"]])
        root = resumed(environment, stored, TreeUsage(stored["id"], user))
        self._run(root)
        return root.snapshot()

    async def kept_by_rerun(self, execution: str) -> int | None:
        """How many executions a rerun from this one would keep; None if the tree is too big to count. Raises Refusal."""
        from runner.resume.fork import Forking, ForkRequest, admit_fork  # late, as above

        reads = self.services.database.reads
        row = await reads.execution(execution)
        if row is None:
            raise UnknownExecution(execution)
        rows = await reads.tree_rows(row["root_execution_id"])
        admit_fork(rows, execution)
        if len(rows) > MOST_COUNTED:
            return None
        wanted = ForkRequest(execution, None, self.services.settings.hash, self.services.database.owner)
        return int((await Forking(reads, rows, wanted).copied()).told["kept"])

    async def lacks(self, root: str) -> Sequence[Lack]:
        """The needs of an interrupted tree that this process lacks."""
        return await self._adopter.lacks(root)

    async def wait(self, execution: str) -> Snapshot:
        """Wait for the end of an execution of any process; returns immediately if its process is dead."""
        live = self.tree.get(execution)
        if live is not None:
            await live.done.wait()
            return live.snapshot()
        database = self.services.database
        while True:
            row = await database.reads.execution(execution)
            if row is None:
                raise UnknownExecution(execution)
            gone = is_gone(row, database.path)
            if row["finished_at"] is not None or gone:
                return snapshot_of_row(row, gone=gone)
            await anyio.sleep(INTERVAL)

    def _known(self, row: Mapping[str, Any]) -> Snapshot:
        live = self.tree.get(row["id"])
        return live.snapshot() if live is not None else snapshot_of_row(row, gone=is_gone(row, self.services.database.path))

    def events(self, root: str, after: int = 0) -> AsyncGenerator[Event]:
        """The events of a tree after number `after`, each once, until it ends. The caller must close the generator."""
        return follow(self.services.bus, self.services.database, root, after)

    async def cancel(self, execution: str, by: str, reason: str) -> str:
        """Cancel a subtree, in any process: `requested` or `already_finished`."""
        return await self._canceller.cancel(execution, by, reason, patient=False)

    async def send_message(self, execution: str, text: str, by: str) -> bool:
        """Send a message to an execution of any process; its model reads it at its next step.

        False when it has ended or a cancel is requested: no model would read it. Raises UnknownExecution.
        """
        return await self._steering.send(execution, text, by)

    async def ask_to_wrap_up(self, execution: str, by: str = "its caller") -> str:
        """Request a wrap-up of an execution of any process: `requested` or `already_finished`."""
        return await self._steering.ask_to_wrap_up(execution, by)

    async def delete(self, root: str) -> None:
        """Delete an ended tree with all its rows. Raises UnknownExecution, StillOpen."""
        await delete_tree(self.services.database, self.services.recorder, root)

    async def mind_deadlines(self) -> None:
        """Abandon executions that are alive after deadline and grace period. Runs until it is cancelled."""
        while True:
            await anyio.sleep(SUPERVISION_SECONDS)
            if self.services.database.writer.trouble is not None:
                continue  # executions wait for the outage to end, and so would the write here
            now = loop_time()
            late = [each for each in self.tree if now > each.allowance.deadline + each.limits.cancel_grace]
            for execution in reversed(late):  # children before parents
                execution.life.cause = execution.life.cause or Cause("deadline", seconds=execution.allowance.timeout)
                await execution.abandon()

    async def drain(self, seconds: float, wish: OnDisconnect, reason: str) -> None:
        """Refuse new orders and return when all executions are at rest, after `seconds` at the latest.

        `keep` lets calls in flight finish and starts no model call: an execution that waits for an agent, a slot, a person
        or its next turn is at rest. `finish` lets executions end; those waiting for an approval are left to the next
        process. `cancel` cancels all with this `reason`.
        """
        shutdown = self.services.shutdown
        shutdown.stopping, shutdown.parking = True, wish == "keep"
        with anyio.move_on_after(seconds):
            if wish == "cancel":
                for execution in self.tree:
                    if execution.parent is None:
                        await self._canceller.cancel(execution.id, "outrider", reason)
                for execution in self.tree:
                    await execution.done.wait()
                return
            await self._at_rest()
            while wish == "finish" and not all(each.allowance.stands for each in self.tree if each.parent is None):
                with anyio.move_on_after(SUPERVISION_SECONDS):
                    for execution in self.tree:
                        await execution.done.wait()
                await self._at_rest()

    async def _at_rest(self) -> None:
        flush = self.services.database.writer.flush
        await self.services.shutdown.until_at_rest(lambda: [each.id for each in self.tree], flush)

    def shut_down(self) -> None:
        """Stop all executions without writing an end, so that another process can resume them from their rows."""
        self.services.database.writer.hurry(CLOSING_SECONDS)
        for execution in self.tree:
            if execution.parent is None:
                execution.cancel(Cause("shutdown", "outrider", "the service stopped"))

    async def mind_other_processes(self, seen: int | None) -> None:
        """Act on cancel requests and messages that other processes wrote after `seen`. Runs until it is cancelled."""
        database = self.services.database
        async with aclosing(changes(database.writer, seen)) as looks:
            async for _ in looks:
                await self._look_until_answered(database)

    async def _look_until_answered(self, database: Database) -> None:
        """Retry while the store fails: an outage must neither stop the service nor lose a cancel request."""
        told = False
        while True:
            try:
                return await self._look_around(database)
            except StoreError as error:
                if not told:
                    log.error("rows of other processes cannot be read: %s", error)
                told = True
            await anyio.sleep(SUPERVISION_SECONDS)

    async def _look_around(self, database: Database) -> None:
        self.services.bus.look()
        await self.approvals.look()
        for wish in await database.reads.cancel_wishes(database.owner):
            self._canceller.stop_here(wish["id"], Cause("user", wish["cancelled_by"], wish["cancel_reason"]))
        for delivery in await database.reads.waiting_deliveries(database.owner):
            live = self.tree.get(delivery["execution_id"])
            if live is not None:
                live.inbox.put(Item.of_row(delivery))


def _lives(services: Services) -> Callable[[Execution], Coroutine[object, object, None]]:
    """How executions run: observed, if there are observers."""
    if services.observers is None:
        return Execution.run
    from runner.service.observed import observed

    return partial(observed, services.observers)


def _input(settings: Settings, order: Order) -> Any:
    """The input as it will be stored, validated; an unknown agent is refused later."""
    if not is_json(order.input):
        raise Refusal("invalid_input", "the input has a number that JSON cannot hold", "pass a finite number")
    data = clean_data(order.input)
    subject = settings.find(order.name)
    return accepted_input(subject, data) if isinstance(subject, AgentSpec) else data


def _request(services: Services, order: Order, user: User | None) -> SpawnRequest:
    request = top_level(services.settings, order.name, order.task, order.input, order.timeout)
    if isinstance(request.agent, AgentSpec):
        permit(request.agent.name, request.agent.requires, user)
    _check_models(services, request)
    capped = request.limits.capped(order.budget_usd) if order.budget_usd is not None else request.limits
    origin = Origin(order.principal, order.session, trace_context(order.trace), user)
    dispatch = DispatchInfo(key=order.key)
    root = replace(request.root, origin=origin, chat=order.chat)
    return replace(request, limits=capped, dispatch=dispatch, root=root)


def _check_models(services: Services, request: SpawnRequest) -> None:
    """Refuse before anything is written when a model of the first agents cannot be asked."""
    services.model_for(request.agent)
    for agent in first_agents(services.settings, request.agent, request.root.command):
        services.model_for(agent)


@asynccontextmanager
async def open_dispatcher(services: Services) -> AsyncIterator[Dispatcher]:
    """A dispatcher with its task group. Leaving stops all executions and waits for them."""
    settings = services.settings
    configured = facts.Configured(settings.hash, settings.snapshot, tuple(known(settings)))
    await services.recorder.record(configured, patient=False)
    if settings.work_items.items:
        await services.recorder.record(work_items.put_up(dict(configured_items(settings))), patient=False)
    seen = await services.database.writer.version()  # no execution runs yet, so earlier changes do not matter
    async with anyio.create_task_group() as minders:
        try:
            async with ShelteredGroup("hold executions") as group:
                dispatcher = Dispatcher(services, group)
                minders.start_soon(dispatcher.mind_other_processes, seen, name="mind other processes")
                minders.start_soon(dispatcher.mind_deadlines, name="mind deadlines")
                minders.start_soon(services.recorder.streams.tell_in_time, name="tell what models say")
                try:
                    yield dispatcher
                finally:
                    dispatcher.shut_down()
        finally:
            minders.cancel_scope.cancel("the service stopped")


async def delete_tree(database: Database, recorder: Recorder, root: str) -> None:
    """Delete an ended tree with all its rows. Raises UnknownExecution, StillOpen."""
    belongings = database.reads.belongings
    roots = [root, *await belongings.extractions(root)]
    if (await recorder.record(facts.Deleted(root, roots[1:]), patient=False)).held:
        return
    row = await database.reads.execution(root)
    if row is None or row["parent_execution_id"] is not None:
        raise UnknownExecution(root)
    later = [each["id"] for each in await belongings.continued_by(roots) if each["open"]]
    raise StillOpen(later[0] if later else root, continues=root if later else None)
