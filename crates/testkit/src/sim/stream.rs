//! How a client follows a task: it reads a stream, and reconnects when that breaks off.
//!
//! The client checks event numbers. It must receive the next event, or a snapshot with the number at which it was
//! taken; after a break it continues from its last event.

use super::client::{Client, OutgoingMessage, RetryVerdict};
use super::endpoint::{ClientStream, NoAnswer, StreamFrame, within};
use sabir_engine::watch::WatchItem;
use sabir_proto::{Event, Fault, FrozenEvent, Seq, ServiceParameters, Subscribe, Task, TaskId, TaskState, Tenant};
use std::time::Duration;

/// How long a client waits on a silent stream before it reads the task.
const SILENCE: Duration = Duration::from_secs(90);

/// The position of a client in the events of a task.
struct FollowedTask {
    agent: usize,
    /// The task; unknown until the first event of a send.
    task: Option<TaskId>,
    last: Option<Seq>,
    /// The message is known to be accepted.
    accepted: bool,
    /// `last` is only a guess of how far the task has come.
    guessing: bool,
}

/// Why the client stopped reading a stream.
enum StreamEnd {
    /// The task rests, or nothing more is to come.
    Done,
    /// The stream was interrupted.
    Broken,
}

impl Client {
    /// Streams a message until the task rests.
    pub(super) async fn follow_message(&mut self, letter: OutgoingMessage) {
        let began = self.now();
        let mut followed =
            FollowedTask { agent: letter.agent, task: None, last: None, accepted: false, guessing: false };
        loop {
            // Once it has events, it may ask for the rest by the message or by the task.
            let by_letter = followed.task.is_none() || (letter.keyed && self.rng.once_in(2));
            self.note(format_args!("streams {} after {:?}, by letter: {by_letter}", letter.id(), followed.last));
            let stream = match followed.task {
                Some(task) if !by_letter => self.subscribe(followed.agent, task, followed.last),
                _ => self.stream(&letter, followed.last),
            };
            let ended = match stream {
                Ok(stream) => self.read(stream, by_letter, &mut followed, Some(&letter)).await,
                Err(NoAnswer) => StreamEnd::Broken,
            };
            let lost_for_good = followed.task.is_none() && !letter.keyed;
            if matches!(ended, StreamEnd::Done) || lost_for_good {
                return;
            }
            if !self.try_again(began, &format!("streaming {}", letter.id())).await {
                return;
            }
        }
    }

    /// Subscribes to a task until it rests.
    pub(super) async fn follow_task(&mut self, agent: usize, task: TaskId, last: Option<Seq>) {
        let began = self.now();
        let mut followed = FollowedTask { agent, task: Some(task), last, accepted: true, guessing: last.is_some() };
        loop {
            self.note(format_args!("subscribes to {task} after {:?}", followed.last));
            let ended = match self.subscribe(agent, task, followed.last) {
                Ok(stream) => self.read(stream, false, &mut followed, None).await,
                Err(NoAnswer) => StreamEnd::Broken,
            };
            if matches!(ended, StreamEnd::Done) || !self.try_again(began, "subscribing").await {
                return;
            }
        }
    }

    fn stream(&self, letter: &OutgoingMessage, last: Option<Seq>) -> Result<ClientStream, NoAnswer> {
        let (resident, scope) = (self.resident(letter.agent), self.scope(letter.agent));
        let request = Box::new(letter.request.clone());
        let terms = ServiceParameters { last_event_id: last, ..letter.terms.clone() };
        let work = |engine: sabir_engine::Engine| -> sabir_engine::BoxFuture<'static, _> {
            Box::pin(async move { engine.stream(&resident, scope, request, &terms).await })
        };
        self.context.endpoint.stream(work)
    }

    fn subscribe(&self, agent: usize, task: TaskId, last: Option<Seq>) -> Result<ClientStream, NoAnswer> {
        let scope = self.scope(agent);
        let call = Subscribe { tenant: Tenant::none(), id: task.into() };
        let terms = ServiceParameters { last_event_id: last, ..ServiceParameters::default() };
        self.context.endpoint.stream(|engine| Box::pin(async move { engine.subscribe(&scope, &call, &terms).await }))
    }

    /// Reads a stream to its end, or disconnects before.
    async fn read(
        &mut self,
        mut stream: ClientStream,
        ends_with_a_question: bool,
        followed: &mut FollowedTask,
        letter: Option<&OutgoingMessage>,
    ) -> StreamEnd {
        let slow = self.rng.once_in(self.context.faults.slow_once_in);
        let hangs_up = self.rng.once_in(self.context.faults.lost_once_in);
        let mut state = None;
        loop {
            if slow {
                self.rest(1500).await;
            }
            if hangs_up && self.rng.once_in(6) {
                self.note(format_args!("hangs up after {:?}", followed.last));
                return StreamEnd::Broken;
            }
            let patience = self.context.executor.sleep(SILENCE);
            let Some(frame) = within(stream.next(), patience).await else { return self.after_silence(followed).await };
            match frame {
                Err(NoAnswer) => return StreamEnd::Broken,
                Ok(StreamFrame::Open | StreamFrame::Item(WatchItem::Reply(_))) => {}
                Ok(StreamFrame::Refused(fault)) => {
                    self.note(format_args!("has its stream refused: {fault}"));
                    if let Some(letter) = letter.filter(|_| !followed.accepted) {
                        self.check_refusal(letter, &fault);
                    }
                    return self.refused(&fault, followed).await;
                }
                Ok(StreamFrame::End) => {
                    self.check_end(followed, state);
                    return StreamEnd::Done;
                }
                Ok(StreamFrame::Item(WatchItem::Event(event))) => {
                    if !self.take(&event, followed, letter) {
                        return StreamEnd::Done;
                    }
                    state = event.state.or(state);
                    // A subscription stays open for the next turn; this client does not.
                    if state == Some(TaskState::InputRequired) && !ends_with_a_question {
                        return StreamEnd::Done;
                    }
                }
            }
        }
    }

    /// After a long silence: fine while the task asks for an answer; otherwise the client retries.
    async fn after_silence(&mut self, followed: &FollowedTask) -> StreamEnd {
        let Some(task) = followed.task else { return StreamEnd::Broken };
        self.note(format_args!("hears nothing of {task} after {:?}", followed.last));
        self.get_task(followed.agent, task).await;
        let asks = self.known.iter().any(|known| known.task == task && known.asks);
        if asks { StreamEnd::Done } else { StreamEnd::Broken }
    }

    async fn refused(&mut self, fault: &Fault, followed: &FollowedTask) -> StreamEnd {
        if matches!(fault, Fault::InvalidParams(_)) && followed.guessing {
            return StreamEnd::Done;
        }
        if self.judge_refusal(fault, "streaming") == RetryVerdict::Again {
            return StreamEnd::Broken;
        }
        if let Some(task) = followed.task {
            self.get_task(followed.agent, task).await;
        }
        StreamEnd::Done
    }

    /// Processes one event; false when it should never have come.
    fn take(&mut self, event: &FrozenEvent, followed: &mut FollowedTask, letter: Option<&OutgoingMessage>) -> bool {
        let whole = match event.thaw() {
            Some(Event::Task(task)) => Some(task),
            Some(_) => None,
            None => {
                self.context
                    .observations
                    .record_violation("every_image_was_true_once", format!("unreadable: {:?}", event.json));
                return false;
            }
        };
        // A snapshot replaces everything up to its number; any other event must be the next one.
        let snapshot = whole.as_ref().filter(|_| followed.last.is_none());
        let expected = followed.last.map_or(Seq(1), Seq::next);
        if snapshot.is_none() && event.seq != expected {
            let detail = format!("client {} was shown event {} instead of {expected}", self.number, event.seq);
            self.context
                .observations
                .record_violation("every_acknowledged_event_is_replayed_once_and_in_order", detail);
            return false;
        }
        let task = match (&whole, followed.task) {
            (_, Some(task)) => task,
            (Some(task), None) => task.id,
            (None, None) => {
                self.context
                    .observations
                    .record_violation("every_stream_begins_with_its_task", format!("{:?}", event.json));
                return false;
            }
        };
        self.note(format_args!("sees event {} of {task}", event.seq));
        (followed.task, followed.last, followed.guessing) = (Some(task), Some(event.seq), false);
        match snapshot {
            // The first event of a log is a task too, and looks like any snapshot.
            Some(task) if event.seq > Seq(1) => self.take_snapshot(event, task, followed, letter),
            Some(task) => {
                self.context.observations.record_event(task.id, event);
                self.take_snapshot(event, task, followed, letter);
            }
            None => self.context.observations.record_event(task, event),
        }
        if let Some(state) = event.state {
            let asks = state == TaskState::InputRequired;
            self.known.iter_mut().filter(|k| k.task == task).for_each(|k| k.asks = asks);
        }
        true
    }

    fn take_snapshot(
        &mut self,
        event: &FrozenEvent,
        task: &Task,
        followed: &mut FollowedTask,
        letter: Option<&OutgoingMessage>,
    ) {
        // `{"task":…}`: the original bytes, not re-encoded ones.
        let json = event.json.slice(8..event.json.len() - 1);
        self.context.observations.record_image(self.number, task.id, json, Some(event.seq));
        match letter {
            Some(letter) if !followed.accepted => self.accept(letter, task),
            _ => self.learn(followed.agent, task, None),
        }
        followed.accepted = true;
    }

    /// A stream ends when its task rests, not before.
    fn check_end(&self, followed: &FollowedTask, state: Option<TaskState>) {
        let resting = state.is_none_or(|s| s.is_settled() || s.is_interrupted());
        if !resting {
            let detail = format!("client {} after event {:?} of {:?}", self.number, followed.last, followed.task);
            self.context.observations.record_violation("a_stream_ends_at_rest", detail);
        }
    }
}
