//! How a client follows a task: it reads a stream, and reconnects when that breaks off.
//!
//! The client checks event numbers. It must receive the next event, or a snapshot with the number at which it was
//! taken; after a break it continues from its last event.

use super::client::{Client, Letter, Verdict};
use super::door::{Frame, Lost, Stream, first};
use sabir_engine::watch::Item;
use sabir_proto::{Event, Fault, FrozenEvent, Seq, Subscribe, Task, TaskId, TaskState, Tenant, Terms};
use std::time::Duration;

/// How long a client waits on a silent stream before it reads the task.
const SILENCE: Duration = Duration::from_secs(90);

/// The position of a client in the events of a task.
struct Followed {
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
enum Ended {
    /// The task rests, or nothing more is to come.
    Done,
    /// The stream was interrupted.
    Broken,
}

impl Client {
    /// Streams a message until the task rests.
    pub(super) async fn follow_letter(&mut self, letter: Letter) {
        let began = self.now();
        let mut followed = Followed { agent: letter.agent, task: None, last: None, accepted: false, guessing: false };
        loop {
            // Once it has events, it may ask for the rest by the message or by the task.
            let by_letter = followed.task.is_none() || (letter.keyed && self.chance.once_in(2));
            self.note(format_args!("streams {} after {:?}, by letter: {by_letter}", letter.id(), followed.last));
            let stream = match followed.task {
                Some(task) if !by_letter => self.subscribe(followed.agent, task, followed.last),
                _ => self.stream(&letter, followed.last),
            };
            let ended = match stream {
                Ok(stream) => self.read(stream, by_letter, &mut followed, Some(&letter)).await,
                Err(Lost) => Ended::Broken,
            };
            let lost_for_good = followed.task.is_none() && !letter.keyed;
            if matches!(ended, Ended::Done) || lost_for_good {
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
        let mut followed = Followed { agent, task: Some(task), last, accepted: true, guessing: last.is_some() };
        loop {
            self.note(format_args!("subscribes to {task} after {:?}", followed.last));
            let ended = match self.subscribe(agent, task, followed.last) {
                Ok(stream) => self.read(stream, false, &mut followed, None).await,
                Err(Lost) => Ended::Broken,
            };
            if matches!(ended, Ended::Done) || !self.try_again(began, "subscribing").await {
                return;
            }
        }
    }

    fn stream(&self, letter: &Letter, last: Option<Seq>) -> Result<Stream, Lost> {
        let (resident, scope) = (self.resident(letter.agent), self.scope(letter.agent));
        let request = Box::new(letter.request.clone());
        let terms = Terms { last_event_id: last, ..letter.terms.clone() };
        let work = |engine: sabir_engine::Engine| -> sabir_engine::BoxFuture<'static, _> {
            Box::pin(async move { engine.stream(&resident, scope, request, &terms).await })
        };
        self.around.door.stream(work)
    }

    fn subscribe(&self, agent: usize, task: TaskId, last: Option<Seq>) -> Result<Stream, Lost> {
        let scope = self.scope(agent);
        let call = Subscribe { tenant: Tenant::none(), id: task.into() };
        let terms = Terms { last_event_id: last, ..Terms::default() };
        self.around.door.stream(|engine| Box::pin(async move { engine.subscribe(&scope, &call, &terms).await }))
    }

    /// Reads a stream to its end, or disconnects before.
    async fn read(
        &mut self,
        mut stream: Stream,
        ends_with_a_question: bool,
        followed: &mut Followed,
        letter: Option<&Letter>,
    ) -> Ended {
        let slow = self.chance.once_in(self.around.faults.slow_once_in);
        let hangs_up = self.chance.once_in(self.around.faults.lost_once_in);
        let mut state = None;
        loop {
            if slow {
                self.rest(1500).await;
            }
            if hangs_up && self.chance.once_in(6) {
                self.note(format_args!("hangs up after {:?}", followed.last));
                return Ended::Broken;
            }
            let patience = self.around.executor.sleep(SILENCE);
            let Some(frame) = first(stream.next(), patience).await else { return self.after_silence(followed).await };
            match frame {
                Err(Lost) => return Ended::Broken,
                Ok(Frame::Open | Frame::Item(Item::Reply(_))) => {}
                Ok(Frame::Refused(fault)) => {
                    self.note(format_args!("has its stream refused: {fault}"));
                    if let Some(letter) = letter.filter(|_| !followed.accepted) {
                        self.check_refusal(letter, &fault);
                    }
                    return self.refused(&fault, followed).await;
                }
                Ok(Frame::End) => {
                    self.check_end(followed, state);
                    return Ended::Done;
                }
                Ok(Frame::Item(Item::Event(event))) => {
                    if !self.take(&event, followed, letter) {
                        return Ended::Done;
                    }
                    state = event.state.or(state);
                    // A subscription stays open for the next turn; this client does not.
                    if state == Some(TaskState::InputRequired) && !ends_with_a_question {
                        return Ended::Done;
                    }
                }
            }
        }
    }

    /// After a long silence: fine while the task asks for an answer; otherwise the client retries.
    async fn after_silence(&mut self, followed: &Followed) -> Ended {
        let Some(task) = followed.task else { return Ended::Broken };
        self.note(format_args!("hears nothing of {task} after {:?}", followed.last));
        self.look(followed.agent, task).await;
        let asks = self.known.iter().any(|known| known.task == task && known.asks);
        if asks { Ended::Done } else { Ended::Broken }
    }

    async fn refused(&mut self, fault: &Fault, followed: &Followed) -> Ended {
        if matches!(fault, Fault::InvalidParams(_)) && followed.guessing {
            return Ended::Done;
        }
        if self.judge(fault, "streaming") == Verdict::Again {
            return Ended::Broken;
        }
        if let Some(task) = followed.task {
            self.look(followed.agent, task).await;
        }
        Ended::Done
    }

    /// Processes one event; false when it should never have come.
    fn take(&mut self, event: &FrozenEvent, followed: &mut Followed, letter: Option<&Letter>) -> bool {
        let whole = match event.thaw() {
            Some(Event::Task(task)) => Some(task),
            Some(_) => None,
            None => {
                self.around.ledger.broken("every_image_was_true_once", format!("unreadable: {:?}", event.json));
                return false;
            }
        };
        // A snapshot replaces everything up to its number; any other event must be the next one.
        let snapshot = whole.as_ref().filter(|_| followed.last.is_none());
        let expected = followed.last.map_or(Seq(1), Seq::next);
        if snapshot.is_none() && event.seq != expected {
            let detail = format!("client {} was shown event {} instead of {expected}", self.number, event.seq);
            self.around.ledger.broken("every_acknowledged_event_is_replayed_once_and_in_order", detail);
            return false;
        }
        let task = match (&whole, followed.task) {
            (_, Some(task)) => task,
            (Some(task), None) => task.id,
            (None, None) => {
                self.around.ledger.broken("every_stream_begins_with_its_task", format!("{:?}", event.json));
                return false;
            }
        };
        self.note(format_args!("sees event {} of {task}", event.seq));
        (followed.task, followed.last, followed.guessing) = (Some(task), Some(event.seq), false);
        match snapshot {
            // The first event of a log is a task too, and looks like any snapshot.
            Some(task) if event.seq > Seq(1) => self.take_snapshot(event, task, followed, letter),
            Some(task) => {
                self.around.ledger.event(task.id, event);
                self.take_snapshot(event, task, followed, letter);
            }
            None => self.around.ledger.event(task, event),
        }
        if let Some(state) = event.state {
            let asks = state == TaskState::InputRequired;
            self.known.iter_mut().filter(|k| k.task == task).for_each(|k| k.asks = asks);
        }
        true
    }

    fn take_snapshot(&mut self, event: &FrozenEvent, task: &Task, followed: &mut Followed, letter: Option<&Letter>) {
        // `{"task":…}`: the original bytes, not re-encoded ones.
        let json = event.json.slice(8..event.json.len() - 1);
        self.around.ledger.image(self.number, task.id, json, Some(event.seq));
        match letter {
            Some(letter) if !followed.accepted => self.accept(letter, task),
            _ => self.learn(followed.agent, task, None),
        }
        followed.accepted = true;
    }

    /// A stream ends when its task rests, not before.
    fn check_end(&self, followed: &Followed, state: Option<TaskState>) {
        let resting = state.is_none_or(|s| s.is_settled() || s.is_interrupted());
        if !resting {
            let detail = format!("client {} after event {:?} of {:?}", self.number, followed.last, followed.task);
            self.around.ledger.broken("a_stream_ends_at_rest", detail);
        }
    }
}
