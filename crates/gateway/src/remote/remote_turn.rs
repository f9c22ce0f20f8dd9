//! One turn with an agent elsewhere: send once, follow, wait, give up.
//!
//! | After | Then |
//! |---|---|
//! | a call that cannot have arrived, or was put off by the agent | the same again, after a pause |
//! | a send with an unknown result, or an unreadable answer | search for its task; send again only if harmless |
//! | any other failure after our message has arrived | the task goes on there: the same again, after a pause |
//! | a stream that broke, or reported another task | subscribe again, after the last event if events are numbered |
//! | a subscription that does not go on where the last one broke off | news is reported, with the mark of a gap |
//! | an event that came before, or out of order | left out; at the end the task is compared with the reports |
//! | a stream that brought nothing new, or cannot be had | poll the task, at a slowing pace |
//! | a call that the breakers refuse | a pause, as long as they say; it counts as no attempt |
//! | an answer that the version or the method is unknown | fetch the card once more, then the same again, without a pause |
//! | the first call of a task, where it cannot begin at any replica | the fallback agent does it, if one is named |
//! | too many calls in a row without an answer, or no news for too long | the task fails, and says so |
//! | a transfer of the task to another agent | it is followed: see `moved` |

use super::RemoteAgent;
use super::call_failure::{CallFailure, RetryableFailure, asks_for_later, ending_after, is_unreadable, was_not_called};
use super::checkpoint::{Checkpoint, conversation_hash, remote_context_id};
use super::connection::{RemoteEvents, ReplicaConnection, contradicts_card};
use super::event_sequence::{EventOrder, EventSequence};
use super::events::{await_with, transfer_notice};
use super::message_ids::generated_id;
use super::replica::Replica;
use crate::delegation::{MirrorSettings, delegate, outgoing_metadata};
use sabir_client::{Error, FollowOptions, send_message};
use sabir_engine::{Context, Continuation, Ending, Failure, OutboundIdGuard};
use sabir_proto::{
    ContextId, Fault, FaultCode, Message, MessageId, SendMessage, TaskRef, TaskState, Timestamp, WireEvent, WireReply,
    WireTask,
};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// The longest pause between two calls.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Polls at a steady pace before it slows down.
const STEADY_POLLS: u32 = 5;
/// After a long interruption the turn calls the agent before it gives up, and waits this long for the answer.
const LAST_ANSWER_TIME_MIN: Duration = Duration::from_secs(5);

pub(super) struct RemoteTurn<'a> {
    pub(super) remote: &'a RemoteAgent,
    pub(super) cx: &'a mut Context,
    pub(super) checkpoint: Checkpoint,
    /// Why the last call failed, if it did.
    pub(super) problem: Option<String>,
    /// Calls since the last news.
    pub(super) calls_without_news: u32,
    /// How long since then we made no call, because we would not.
    held_time: Duration,
    /// The number of calls in this turn.
    calls: u32,
    /// A call was made since the last pause.
    pub(super) called: bool,
    /// Our caller was told that a breaker is open.
    pub(super) open_breaker_reported: bool,
    /// Why events may be missing: a stream broke off, and none has gone on exactly there.
    pub(super) gap_reason: Option<String>,
    /// The reports may differ from the remote task: they are compared before the end.
    pub(super) needs_comparison: bool,
    /// Replicas that failed before anything began.
    failed_replicas: Vec<String>,
    /// How often the agent did not know the version or the method.
    pub(super) protocol_refusals: u32,
    /// Our context id for the remote agent.
    remote_context: ContextId,
    /// The engine recognises by these a call that comes back from there without its lineage.
    _outbound_ids: OutboundIdGuard,
}

impl<'a> RemoteTurn<'a> {
    /// Begins a turn, or resumes one that was interrupted.
    pub(super) fn start_or_resume(remote: &'a RemoteAgent, cx: &'a mut Context) -> Self {
        let mut checkpoint = Checkpoint::for_turn(cx, &remote.message_ids);
        if cx.attempt() > 1 {
            // Perhaps the agent's answer ended the last process, so this attempt counts before it is made again.
            checkpoint.attempts += 1;
        }
        // Only ids that we have made: callers may have used theirs elsewhere as well.
        let message = Some(checkpoint.message.clone()).filter(|id| id != cx.message().message_id.as_str());
        let remote_context = remote_context_id(cx);
        let names = cx.register_outbound_ids(message.into_iter().chain([remote_context.to_string()]));
        let gap_reason =
            (cx.attempt() > 1 && checkpoint.streamed).then(|| "the hub stopped while it listened".to_owned());
        Self {
            remote,
            cx,
            checkpoint,
            problem: None,
            calls_without_news: 0,
            held_time: Duration::ZERO,
            calls: 0,
            called: false,
            open_breaker_reported: false,
            gap_reason,
            needs_comparison: false,
            failed_replicas: Vec::new(),
            protocol_refusals: 0,
            remote_context,
            _outbound_ids: names,
        }
    }

    pub(super) async fn run(mut self) -> Result<Ending, Failure> {
        if self.cx.attempt() > 1 {
            self.save_checkpoint(None);
            self.cx.commit().await?;
        }
        loop {
            if self.falls_back() {
                return Box::pin(self.run_fallback()).await;
            }
            if let Some(ending) = self.give_up() {
                let ending = self.add_transfer_gap(ending).await?;
                return Ok(self.finish(ending));
            }
            let before = self.checkpoint.heard;
            let begun = self.cx.now().millis();
            let (mut asked, mut held, mut call_failed) = (None, false, None);
            self.calls += 1;
            self.called = true;
            let called = self.call().await;
            self.cx.call_ended();
            match called {
                Ok(Some(ending)) => return Ok(self.finish(ending)),
                Err(CallFailure::TaskOver(ending)) => {
                    let ending = self.add_transfer_gap(ending).await?;
                    return Ok(self.finish(ending));
                }
                Err(CallFailure::Fatal(error)) => {
                    self.log_fatal(&error);
                    let ending = self.add_transfer_gap(ending_after(&error)).await?;
                    return Ok(self.finish(ending));
                }
                Err(CallFailure::Transferred(transfer)) => match Box::pin(self.handle_transfer(&transfer)).await? {
                    Some(ending) => return Ok(self.finish(ending)),
                    None => continue,
                },
                Err(CallFailure::OtherForm { why }) => {
                    tracing::info!(task = %self.cx.task_id(), agent = %self.remote.upstream.name, error = why,
                        "an agent elsewhere wants its message in another form");
                    continue;
                }
                Ok(None) => (self.problem, self.checkpoint.absent) = (None, None),
                Err(CallFailure::Retryable(failed)) => {
                    self.record_failure(&failed, begun);
                    (self.problem, asked) = (Some(failed.why.clone()), failed.retry_after);
                    call_failed = Some(failed);
                }
                Err(CallFailure::NotCalled { why, after }) => {
                    (self.problem, asked) = (Some(why), after);
                    held = true;
                }
                Err(CallFailure::TurnEnded) => return Err(sabir_engine::agent::TaskEnded.into()),
            }
            if self.checkpoint.heard > before {
                (self.calls_without_news, self.held_time) = (0, Duration::ZERO);
            } else {
                self.calls_without_news += 1;
            }
            if self.falls_back() || self.has_reached_a_limit() {
                continue;
            }
            let pause = self.pause(asked);
            if held {
                self.report_open_breaker().await?;
            } else if let Some(failed) = call_failed {
                self.report_failure(&failed, pause).await?;
            }
            self.open_breaker_reported &= held;
            self.save_checkpoint(Some(pause));
            self.cx.commit().await?;
            self.cx.sleep(pause).await;
            self.called = false;
            if held {
                // We did not call, so the agent was not silent.
                self.held_time += pause;
            }
        }
    }

    /// Whether the fallback agent is to do it: nothing has begun, and it cannot begin at any replica now.
    fn falls_back(&self) -> bool {
        let RemoteAgent { upstream, replicas, bulkhead, .. } = self.remote;
        let nowhere = || bulkhead.is_full() || replicas.iter().all(|replica| self.has_failed_at(replica));
        self.checkpoint.fallen || (upstream.fallback.is_some() && !self.may_have_begun() && nowhere())
    }

    /// Whether the task could not begin at a replica, or cannot now.
    pub(super) fn has_failed_at(&self, replica: &Replica) -> bool {
        self.failed_replicas.contains(&replica.config.url) || !replica.is_usable()
    }

    async fn run_fallback(mut self) -> Result<Ending, Failure> {
        let Some(to) = self.remote.upstream.fallback.clone() else {
            return Ok(Ending::fail("the agent that was to take over is no longer configured"));
        };
        if !std::mem::replace(&mut self.checkpoint.fallen, true) {
            tracing::warn!(task = %self.cx.task_id(), agent = %self.remote.upstream.name, %to, "another agent takes over");
            self.cx.set_checkpoint(self.checkpoint.encode());
            self.cx.set_waiting_for(None);
            self.cx.commit().await?;
        }
        let (parts, metadata) = (self.cx.message().parts.clone(), self.cx.message().metadata.clone());
        Ok(delegate(self.cx, &to, "fallback", parts, metadata, &MirrorSettings::EVERYTHING).await?.into_ending())
    }

    /// Makes one call; returns the ending, if the turn ended.
    async fn call(&mut self) -> Result<Option<Ending>, CallFailure> {
        let begun = self.checkpoint.sent && self.checkpoint.task.is_some();
        match self.checkpoint.attempts {
            0 => self.remote.retry_budget.record_call(),
            // Looking after work that goes on there is no retry: a hundred streams that break together are all taken up
            // again.
            _ if begun => {}
            _ => self.remote.retry_budget.try_take_retry().map_err(|after| CallFailure::NotCalled {
                why: "it was tried again more often than may be".into(),
                after: Some(after),
            })?,
        }
        if self.checkpoint.moved.is_some() {
            return Box::pin(self.call_holder()).await;
        }
        let replica = self
            .remote
            .choose_replica(&self.checkpoint, || conversation_hash(&self.remote_context), &self.failed_replicas)
            .clone();
        self.checkpoint.at = Some(replica.config.url.clone());
        let connection =
            replica.connection(&self.checkpoint.caller).await.inspect_err(|error| self.mark_replica_failed(error))?;
        // Here and below, rare paths are boxed: otherwise every turn would hold room for them.
        match (self.checkpoint.sent, self.checkpoint.task.clone()) {
            (true, Some(task)) => Box::pin(self.follow_task(&connection, task)).await,
            _ => self.send(&connection).await,
        }
    }

    pub(super) async fn send(&mut self, connection: &ReplicaConnection) -> Result<Option<Ending>, CallFailure> {
        if self.checkpoint.tried {
            if let Some(task) = Box::pin(self.find_sent_message(connection)).await? {
                return Box::pin(self.task(task)).await;
            }
            if !connection.is_idempotent() {
                let words = "it is not known whether the agent received the message; send it again if that is safe";
                return Err(CallFailure::TaskOver(Ending::fail(words)));
            }
        }
        self.checkpoint.tried = true;
        let names = connection.agent().dialect().features().client_names_tasks && self.checkpoint.task.is_none();
        // Never the caller's id: a task with that name may exist there already, and would be continued.
        self.checkpoint.named = self.checkpoint.named.take().filter(|_| names);
        if names && self.checkpoint.named.is_none() {
            self.checkpoint.named = TaskRef::parse(&generated_id(self.cx)).ok();
        }
        let reach = connection.agent().dialect().features();
        let message = self.message(reach.continues);
        self.checkpoint.sought_in =
            message.context_id.clone().filter(|_| reach.lists_tasks && self.checkpoint.task.is_none());
        self.save_checkpoint(None);
        if !self.cx.is_open_deferred() {
            self.cx.commit().await?;
        }
        if self.checkpoint.named.is_none() {
            self.cx.expect_answer();
        }
        let mut request = send_message(message);
        request.alias = self.checkpoint.named.as_ref().map(|name| name.to_string().into());
        // Other streams name the task late and report questions as answers; polls report the state.
        if connection.agent().streams_faithfully() {
            let opening = Box::pin(connection.stream(request, self.follow()));
            return match self.await_answer(opening).await? {
                Ok(events) => Box::pin(self.follow_stream(connection, events, None)).await,
                Err(error) => Box::pin(self.handle_send_error(connection, error)).await,
            };
        }
        // The id of the remote task is worth more than an answer that a crash may cut off.
        request.configuration.return_immediately = true;
        self.send_once(connection, request).await
    }

    async fn send_once(
        &mut self,
        connection: &ReplicaConnection,
        request: SendMessage,
    ) -> Result<Option<Ending>, CallFailure> {
        match self.await_answer(Box::pin(connection.send(request))).await? {
            Ok(WireReply::SentTask(task)) => self.task(*task).await,
            Ok(WireReply::SentMessage(message)) => Ok(Some(self.direct_reply(*message))),
            Ok(_) => Err(Error::from(Fault::InvalidAgentResponse("neither a task nor a message".into())).into()),
            Err(error) => Box::pin(self.handle_send_error(connection, error)).await,
        }
    }

    /// Handles a message that was not taken.
    async fn handle_send_error(
        &mut self,
        connection: &ReplicaConnection,
        error: Error,
    ) -> Result<Option<Ending>, CallFailure> {
        if error.cannot_have_arrived() || was_not_called(&error) || asks_for_later(&error) {
            self.checkpoint.tried = false;
            self.mark_replica_failed(&error);
            return Err(error.into());
        }
        if contradicts_card(&error) && self.try_other_version(connection) {
            self.checkpoint.tried = false;
            return Err(CallFailure::OtherForm { why: error.to_string() });
        }
        // A server behind the one that answered may have taken it.
        if is_unreadable(&error) {
            return Err(CallFailure::Retryable(RetryableFailure::new(&error)));
        }
        if let Error::Fault { fault, transport: Some(_), .. } = &error {
            self.checkpoint.tried = false;
            self.checkpoint.attempts = 0;
            match (fault.code(), &self.checkpoint.task) {
                // Some agents choose their context ids themselves.
                (FaultCode::InvalidParams, None) if !self.checkpoint.chooses_context => {
                    self.checkpoint.chooses_context = true;
                    return Err(CallFailure::OtherForm { why: error.to_string() });
                }
                // The task went on without us, as tasks do that wait for an authorisation.
                (FaultCode::UnsupportedOperation | FaultCode::InvalidParams, Some(task)) => {
                    let task = connection.task(task).await.map_err(|error| self.task_call_failure(error))?;
                    // If the task was handed over, our message is still to be sent to the receiver.
                    if let Some(went) = transfer_notice(&task.status, task.metadata.as_ref()) {
                        return Err(went.into());
                    }
                    if !task.status.state.is_interrupted() {
                        return self.task(task).await;
                    }
                }
                _ => {}
            }
        }
        Err(error.into())
    }

    /// An agent that does not speak as its card says is asked for its card again, then called in 0.1 if the card
    /// permits.
    fn try_other_version(&mut self, connection: &ReplicaConnection) -> bool {
        self.protocol_refusals += 1;
        self.protocol_refusals == 1 || (self.protocol_refusals == 2 && connection.switch_to_v01())
    }

    /// Nothing has begun at this replica, so the next attempt may go elsewhere; unless the replica has another
    /// interface.
    fn mark_replica_failed(&mut self, error: &Error) {
        let is_there = |replica: &Arc<Replica>| self.checkpoint.at.as_ref() == Some(&replica.config.url);
        if self.remote.replicas.iter().any(|replica| is_there(replica) && replica.has_other_interface()) {
            return;
        }
        if !self.checkpoint.tried && self.checkpoint.task.is_none() && !was_not_called(error) {
            self.failed_replicas.extend(self.checkpoint.at.clone());
        }
    }

    /// Searches for a message that may have arrived. Finding it proves something; not finding it proves nothing: agents
    /// answer without a task, name their task late, or keep no history. So a search does not count as an answer either.
    async fn find_sent_message(&mut self, connection: &ReplicaConnection) -> Result<Option<WireTask>, CallFailure> {
        let id = self.message_id();
        let heard = |task: &WireTask| task.history.iter().any(|message| message.message_id == id);
        if let Some(task) = self.checkpoint.task.clone() {
            let task = connection.task(&task).await.map_err(|error| self.task_call_failure(error))?;
            // It asked and asks no more: the question was answered, and only our message can have done that.
            return Ok((heard(&task) || !task.status.state.is_interrupted()).then_some(task));
        }
        if let Some(named) = self.checkpoint.named.clone() {
            return match connection.task(&named).await {
                Ok(task) => Ok(Some(task)),
                Err(error) if error.is_transient() => Err(error.into()),
                Err(_) => Ok(None),
            };
        }
        let Some(conversation) = self.checkpoint.sought_in.clone() else { return Ok(None) };
        connection.task_with_message(conversation, &id).await.map_err(|error| self.task_call_failure(error))
    }

    /// Continues a task that has our message.
    pub(super) async fn follow_task(
        &mut self,
        connection: &ReplicaConnection,
        task: TaskRef,
    ) -> Result<Option<Ending>, CallFailure> {
        // A stream that brought nothing is not opened again before there is news.
        if self.calls_without_news == 0
            && connection.agent().streams()
            && connection.agent().dialect().features().resubscribes
        {
            let after = self.checkpoint.last.clone();
            match connection.resume(task.clone(), after.clone(), self.follow()).await {
                Ok(events) => return Box::pin(self.follow_stream(connection, events, after)).await,
                // Nothing to subscribe to: it has settled, or the agent cannot do this. A poll tells.
                Err(error @ Error::Fault { .. }) if !asks_for_later(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let task = connection.task(&task).await.map_err(|error| self.task_call_failure(error))?;
        self.task(task).await
    }

    /// The failure of a call about a task that is at work there. Only the agent can end it; an answer that is
    /// unreadable, refused for now or broken leaves it as it is.
    pub(super) fn task_call_failure(&mut self, error: Error) -> CallFailure {
        match &error {
            Error::Fault { fault, transport: Some(_), .. } if fault.code() == FaultCode::TaskNotFound => {
                CallFailure::TaskOver(Ending::fail("the agent does not know the task any more"))
            }
            Error::Refused(_) | Error::Usage(_) => error.into(),
            _ if was_not_called(&error) => error.into(),
            _ => CallFailure::Retryable(RetryableFailure::new(&error)),
        }
    }

    /// Follows a stream, which was to go on after an event if there was one.
    async fn follow_stream(
        &mut self,
        connection: &ReplicaConnection,
        mut events: RemoteEvents,
        after: Option<String>,
    ) -> Result<Option<Ending>, CallFailure> {
        if self.checkpoint.attempts > 0 {
            // The agent is there; a crash of ours from here on is not held against it.
            self.checkpoint.attempts = 0;
            self.save_checkpoint(None);
            self.cx.commit().await?;
        }
        let mut numbers = EventSequence::after(after);
        loop {
            // Thousands of turns wait here. So the awaited future is in this one once, futures around it hold a
            // reference, and what is done with the result is boxed.
            let next = {
                let mut next = pin!(events.next());
                match self.time_left() {
                    None => Ok(self.await_event(next.as_mut()).await),
                    Some(left) => self.await_event(tokio::time::timeout(left, next.as_mut())).await,
                }
            };
            let Ok(next) = next else { return Ok(None) };
            let said = match next {
                Ok(Some(said)) => said,
                Ok(None) => return Ok(None),
                Err(error) => return Err(self.stream_failure(error)),
            };
            let last = events.last_event_id().map(str::to_owned);
            match numbers.classify(last.as_deref()) {
                EventOrder::Next => self.gap_reason = None,
                EventOrder::Unknown => Box::pin(self.report_gap(&said)).await?,
                EventOrder::Behind => {
                    self.needs_comparison = true;
                    if !is_end(&said) {
                        continue;
                    }
                }
            }
            self.checkpoint.streamed = true;
            if self.needs_comparison
                && is_end(&said)
                && let Some(task) = self.checkpoint.task.clone()
                && let Some(ending) = Box::pin(self.compare(connection, &task)).await?
            {
                return Ok(Some(ending));
            }
            match Box::pin(self.event(said, last)).await {
                Ok(None) => {}
                Ok(Some(ending)) => {
                    events.close();
                    return Ok(Some(ending));
                }
                Err(moved @ CallFailure::Transferred(_)) => {
                    events.close();
                    return Err(moved);
                }
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// Awaits the next event. Earlier reports are committed meanwhile, and the checkpoint goes with them.
    async fn await_event<T>(&self, next: impl Future<Output = T>) -> T {
        await_with(next, || self.cx.set_next_checkpoint(self.checkpoint.encode())).await
    }

    /// The failure of a stream that ended early. What an agent says of another task, or in an unknown format, is no
    /// news of ours; once the remote task is known, it can be polled.
    fn stream_failure(&mut self, error: Error) -> CallFailure {
        if !self.checkpoint.sent || self.checkpoint.task.is_none() {
            return if is_unreadable(&error) {
                CallFailure::Retryable(RetryableFailure::new(&error))
            } else {
                error.into()
            };
        }
        let lost = error.is_transient();
        let reason = if lost { "the stream from the agent broke off" } else { "what the agent told could not be used" };
        self.gap_reason = Some(reason.into());
        match self.task_call_failure(error) {
            // The agent was there a moment ago: the caller hears of it once the next attempt has failed as well.
            CallFailure::Retryable(failed) => CallFailure::Retryable(RetryableFailure { reason: None, ..failed }),
            other => other,
        }
    }

    /// Reports a gap before the first event of a stream that does not go on where the last one broke off. A whole task
    /// shows by itself what is new.
    async fn report_gap(&mut self, said: &WireEvent) -> Result<(), CallFailure> {
        if !matches!(said, WireEvent::Task(_))
            && let Some(reason) = self.gap_reason.take()
        {
            self.needs_comparison = true;
            self.report(self.cx.gap(reason)).await?;
        }
        Ok(())
    }

    /// Compares the reports with the remote task, before the end; returns the ending, if the task has one.
    async fn compare(&mut self, connection: &ReplicaConnection, task: &TaskRef) -> Result<Option<Ending>, CallFailure> {
        match connection.task(task).await {
            Ok(task) if task.status.state.is_settled() => self.task(task).await,
            Ok(_) => Ok(None),
            Err(error) => {
                let why = format!("events came twice or out of order, and the agent could not be asked: {error}");
                self.report(self.cx.gap(why)).await?;
                Ok(None)
            }
        }
    }

    /// The caller's message, as ours. Where a message cannot continue a task it is the next one of the conversation,
    /// and the task that it leads to is continued.
    fn message(&self, continues: bool) -> Message {
        let said = self.cx.message();
        let named = self.checkpoint.context.clone();
        Message {
            message_id: self.message_id(),
            context_id: named.or_else(|| (!self.checkpoint.chooses_context).then(|| self.remote_context.clone())),
            task_id: self.checkpoint.task.clone().filter(|_| continues),
            role: said.role,
            parts: said.parts.clone(),
            metadata: outgoing_metadata(self.cx, said.metadata.as_ref()),
            // Extensions and references are between our caller and us.
            extensions: Vec::new(),
            reference_task_ids: Vec::new(),
        }
    }

    /// The id of the message that we send.
    fn message_id(&self) -> MessageId {
        MessageId::parse(&self.checkpoint.message).expect("a legal id was kept")
    }

    /// The client does not resume streams: the turn has to count and commit each break.
    fn follow(&self) -> FollowOptions {
        FollowOptions { schedule: self.remote.pace(), resume: false, ..FollowOptions::default() }
    }

    /// How long to wait for news.
    fn time_left(&self) -> Option<Duration> {
        let silence = self.remote.upstream.wait_limits.silence_max?;
        Some(silence.saturating_sub(self.silent_for()).max(LAST_ANSWER_TIME_MIN.min(silence)))
    }

    fn silent_for(&self) -> Duration {
        self.time_since(self.checkpoint.heard).saturating_sub(self.held_time)
    }

    /// Our task no longer waits for the remote one, so the engine cancels that until the agent acknowledges.
    pub(super) fn request_remote_cancel(&mut self) {
        if self.checkpoint.remote_task().is_some() {
            self.cx.set_checkpoint(self.checkpoint.encode());
            self.cx.require_cancel_elsewhere();
        }
    }

    /// Whether the agent did not answer too often, or for too long.
    fn has_reached_a_limit(&self) -> bool {
        self.has_no_attempt_left() || self.is_absent_for_too_long() || self.exceeded_silence().is_some()
    }

    fn has_no_attempt_left(&self) -> bool {
        self.checkpoint.attempts >= self.remote.upstream.wait_limits.attempts_max.max(1)
    }

    /// How long there was no news, where that is too long.
    fn exceeded_silence(&self) -> Option<Duration> {
        let silence = self.remote.upstream.wait_limits.silence_max?;
        (self.calls > 0 && self.silent_for() >= silence).then_some(silence)
    }

    /// Gives up if a limit is reached; returns the ending.
    fn give_up(&mut self) -> Option<Ending> {
        if !self.has_reached_a_limit() {
            return None;
        }
        let attempts = self.checkpoint.attempts;
        let problem = self.problem.as_deref().unwrap_or("the server stopped each time");
        tracing::warn!(task = %self.cx.task_id(), agent = %self.remote.upstream.name, problem, "a remote agent is given up");
        if let Some(absent) = self.checkpoint.absent.as_ref().filter(|_| !self.may_have_begun()) {
            return Some(self.never_reached_ending(absent));
        }
        self.request_remote_cancel();
        let why = match self.exceeded_silence().filter(|_| !self.has_no_attempt_left()) {
            Some(silence) => format!("there was no news for {silence:?}"),
            None => format!("it was called {attempts} times without an answer"),
        };
        Some(Ending::fail(format!("the agent did not respond in time: {why}")))
    }

    fn pause(&self, asked: Option<Duration>) -> Duration {
        let first = self.remote.upstream.wait_limits.pause_min;
        let own = match self.checkpoint.attempts {
            0 => first
                .mul_f64(1.5_f64.powi(self.calls_without_news.saturating_sub(STEADY_POLLS).min(16).cast_signed()))
                .min(PAUSE_MAX / 2),
            failures => first * 2_u32.pow((failures - 1).min(6)),
        };
        let pause = own.max(asked.unwrap_or_default()).min(PAUSE_MAX);
        // The last attempt is made when the time to connect is over.
        pause.min(self.connect_time_left().filter(|left| !left.is_zero()).unwrap_or(PAUSE_MAX))
    }

    /// Puts the checkpoint and the time of the next call into the next step.
    pub(super) fn save_checkpoint(&mut self, pause: Option<Duration>) {
        self.cx.set_checkpoint(self.checkpoint.encode());
        let later = |pause: Duration| {
            let millis = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX);
            Timestamp::from_millis(self.cx.now().millis().saturating_add(millis))
        };
        self.cx.set_waiting_for(Some(Continuation {
            url: self.checkpoint.at.clone().unwrap_or_else(|| self.remote.upstream.replicas[0].url.clone()),
            message: self.message_id().as_str().to_owned(),
            task: self.checkpoint.task.as_ref().map(ToString::to_string),
            context: self.checkpoint.context.as_ref().map(ToString::to_string),
            attempts: self.checkpoint.attempts,
            problem: self.problem.clone(),
            since: Timestamp::from_millis(self.checkpoint.since),
            last_heard_at: self.checkpoint.last_news(),
            next: pause.map(later),
        }));
    }

    /// Ends a turn. The checkpoint stays for the next one, if the agent asked something.
    fn finish(&mut self, ending: Ending) -> Ending {
        if ending.is_question() {
            self.cx.set_checkpoint(self.checkpoint.encode());
        }
        self.cx.set_waiting_for(None);
        ending
    }
}

/// Whether an event settles its task.
fn is_end(said: &WireEvent) -> bool {
    said.state().is_some_and(TaskState::is_settled)
}
