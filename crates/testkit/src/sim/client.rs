//! The simulated clients: they send and retry, answer questions, cancel, and read.
//!
//! A client retries for a limited time: a call without an answer within [`PATIENCE_MS`] is a broken promise, whatever
//! faults were injected.

use super::door::{Door, Lost, Luck, both};
use super::executor::Executor;
use super::faults::Faults;
use super::ledger::{Ledger, Named};
use super::log::SimLog;
use super::receivers::{HOSTS, Receivers};
use super::trace::Trace;
use crate::chance::Chance;
use crate::story::push_config;
use sabir_engine::{BoxFuture, Engine, Resident};
use sabir_proto::{
    Caller, CancelTask, Fault, FrozenTask, Message, MessageId, PushConfig, Role, SendConfiguration, SendMessage, Sent,
    Task, TaskId, TaskState, Tenant, Terms,
};
use sabir_store::Scope;
use std::sync::Arc;
use std::time::Duration;

/// How long a client waits and retries, in milliseconds. Less than the ten minutes for which a message id counts.
const PATIENCE_MS: u64 = 8 * 60 * 1000;

/// Added to the number of a client for its second, concurrent observer.
const TWIN: usize = 1000;

/// What all clients of a simulation share.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub(super) executor: Executor,
    pub(super) door: Door,
    pub(super) log: Arc<SimLog>,
    pub(super) ledger: Ledger,
    pub(super) trace: Trace,
    pub(super) faults: Faults,
    pub(super) residents: Arc<Vec<Arc<Resident>>>,
    pub(super) receivers: Receivers,
}

/// One simulated client.
pub(super) struct Client {
    pub(super) number: usize,
    pub(super) around: Surroundings,
    pub(super) chance: Chance,
    /// The tasks that it has learned of.
    pub(super) known: Vec<Known>,
}

/// A task a client knows of.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) agent: usize,
    pub(super) task: TaskId,
    /// Whether it waits for an answer, as far as the client knows.
    pub(super) asks: bool,
    /// The message that opened it and when, if it may be sent again.
    letter: Option<(Letter, u64)>,
}

/// A message to send, the same at every attempt.
#[derive(Debug, Clone)]
pub(super) struct Letter {
    pub(super) agent: usize,
    pub(super) request: SendMessage,
    pub(super) terms: Terms,
    /// Whether it has a retry key.
    pub(super) keyed: bool,
}

impl Letter {
    pub(super) fn id(&self) -> &MessageId {
        &self.request.message.message_id
    }
}

/// Whether a client should retry after a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Again,
    Final,
}

impl Client {
    /// Runs this many random actions.
    pub(super) async fn live(mut self, deeds: u64) {
        for _ in 0..deeds {
            self.rest(2000).await;
            match self.chance.below(19) {
                0..=5 => {
                    let letter = self.compose(None);
                    self.send(letter).await;
                }
                6..=8 => self.answer_a_question().await,
                9 => self.cancel().await,
                10 => self.get().await,
                11 => self.walk().await,
                12 | 13 => self.watch_along().await,
                14 => self.send_again().await,
                15 => self.reuse_a_key().await,
                16 => self.pry().await,
                17 => self.send_twins().await,
                _ => self.rest(20_000).await,
            }
        }
        self.note(format_args!("is done"));
    }

    pub(super) fn note(&self, what: std::fmt::Arguments<'_>) {
        let (now, line) = (self.now(), format!("client {} {what}", self.number));
        self.around.trace.note(now, format_args!("{line}"));
        self.around.ledger.lock().doing.insert(self.number, format!("{now} ms: {line}"));
    }

    pub(super) fn now(&self) -> u64 {
        self.around.executor.now()
    }

    pub(super) async fn rest(&mut self, ms_max: u64) {
        let ms = self.chance.between(0, ms_max);
        self.around.executor.sleep(Duration::from_millis(ms)).await;
    }

    pub(super) fn resident(&self, agent: usize) -> Arc<Resident> {
        self.around.residents[agent].clone()
    }

    /// The client's owner scope at an agent. Every two clients are one caller on two machines.
    pub(super) fn scope(&self, agent: usize) -> Arc<Scope> {
        let caller = Caller::named(&format!("caller-{}", self.number / 2));
        Arc::new(Scope { tenant: Tenant::none(), caller, agent: self.around.residents[agent].name.clone() })
    }

    /// A push configuration for one of the receiver hosts.
    fn hook(&mut self) -> PushConfig {
        PushConfig { url: Receivers::url(self.chance.below(HOSTS)), ..push_config("hook") }
    }

    fn luck(&mut self) -> Luck {
        if !self.chance.once_in(self.around.faults.lost_once_in) {
            return Luck::Good;
        }
        let after = Duration::from_millis(self.chance.between(0, 400));
        self.chance.pick(&[Luck::Deaf, Luck::Leaves(after), Luck::Forgets(after)])
    }

    pub(super) async fn call<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(Engine) -> BoxFuture<'static, T>,
    ) -> Result<T, Lost> {
        let luck = self.luck();
        self.around.door.call(luck, work).await
    }

    /// Waits before the next attempt; false after too long, which is recorded as a broken promise.
    pub(super) async fn try_again(&mut self, began: u64, what: &str) -> bool {
        if self.now() - began > PATIENCE_MS {
            let detail = format!("client {} gave up on {what}", self.number);
            self.around.ledger.broken("every_client_that_waits_gets_an_answer", detail);
            return false;
        }
        // Sometimes at once, while the first copy is still on its way.
        let ms_max = self.chance.pick(&[3, 300, 6000]);
        self.rest(ms_max).await;
        true
    }

    /// Whether a fault is worth a retry. Faults that no client should ever get are broken promises.
    pub(super) fn judge(&self, fault: &Fault, what: &str) -> Verdict {
        match fault {
            Fault::Unavailable(_) => Verdict::Again,
            Fault::UnsupportedOperation(_)
            | Fault::TaskSettled { .. }
            | Fault::TaskNotCancelable { .. }
            | Fault::Booking(_)
            | Fault::NothingToSubscribe { .. } => Verdict::Final,
            _ => {
                let detail = format!("client {}: {what}: {fault}", self.number);
                self.around.ledger.broken("nobody_is_refused_without_reason", detail);
                Verdict::Final
            }
        }
    }

    /// A new message, to some agent or in answer to a task.
    fn compose(&mut self, answers: Option<&Known>) -> Letter {
        let agent = answers.map_or_else(|| self.chance.below(self.around.residents.len()), |known| known.agent);
        let (unique, by_hand) = (self.chance.uuid(), format!("c{}-{}", self.number, self.chance.bits()));
        let mut terms = Terms::default();
        let (id, keyed) = match self.chance.below(5) {
            0 => (by_hand, false),
            1 | 2 => {
                terms.idempotency_key = Some(unique);
                (by_hand, true)
            }
            _ => (unique, true),
        };
        let id = MessageId::parse(&id).expect("letters and digits make a legal id");
        let text = answers.map_or_else(|| format!("do {}", self.chance.between(1, 6)), |_| "an answer".into());
        let mut message = Message::text(id, Role::User, text);
        message.task_id = answers.map(|known| known.task.into());
        // Few names, and the second machine of the same caller uses the same ones.
        let named = answers.is_none() && self.chance.once_in(2);
        let alias = named.then(|| self.chance.pick(&["job", "errand"]).into());
        // Only in a message that certainly opens a task, so that the receiver gets all events from the first one on.
        let opens = answers.is_none() && !named;
        let push = opens && self.resident(agent).push && self.chance.once_in(3);
        let configuration = SendConfiguration {
            task_push_notification_config: push.then(|| self.hook()),
            return_immediately: self.chance.once_in(4),
            ..SendConfiguration::default()
        };
        let request =
            SendMessage { tenant: Tenant::none(), message, configuration, metadata: None, alias, wants_task: false };
        self.around.ledger.sending(&request.message.message_id, keyed);
        Letter { agent, request, terms, keyed }
    }

    /// Sends a message with *Send* or *Stream* until it is answered.
    async fn send(&mut self, letter: Letter) {
        if self.chance.once_in(2) {
            self.follow_letter(letter).await;
        } else {
            self.ask(letter).await;
        }
    }

    /// Sends a message until there is an answer.
    async fn ask(&mut self, letter: Letter) {
        let began = self.now();
        loop {
            let (agent, name) = (&self.resident(letter.agent).name, letter.request.alias.as_deref());
            self.note(format_args!("sends {} to {agent} as {}", letter.id(), name.unwrap_or("nobody's")));
            let (resident, scope) = (self.resident(letter.agent), self.scope(letter.agent));
            let (request, terms) = (Box::new(letter.request.clone()), letter.terms.clone());
            let answer =
                self.call(|engine| Box::pin(async move { engine.send(&resident, scope, request, &terms).await }));
            match answer.await {
                Ok(Ok(Sent::Task(image, _))) => return self.take_answer(self.number, &letter, &image),
                Ok(Ok(Sent::Message(_))) => return,
                Ok(Err(fault)) => {
                    self.note(format_args!("is refused: {fault}"));
                    self.check_refusal(&letter, &fault);
                    if self.judge(&fault, "sending") == Verdict::Final || !letter.keyed {
                        return;
                    }
                }
                // It may have arrived; without a key it must not be sent again.
                Err(Lost) if !letter.keyed => return,
                Err(Lost) => {}
            }
            if !self.try_again(began, &format!("sending {}", letter.id())).await {
                return;
            }
        }
    }

    /// Checks that a settled task is no reason to refuse a message to its alias.
    pub(super) fn check_refusal(&self, letter: &Letter, fault: &Fault) {
        if let (Some(name), Fault::TaskSettled { .. }) = (&letter.request.alias, fault) {
            let detail = format!("{} was sent to {name} and refused: {fault}", letter.id());
            self.around.ledger.broken("a_name_begins_anew_once_its_task_has_settled", detail);
        }
    }

    /// Sends two messages under one alias at the same time.
    async fn send_twins(&mut self) {
        let (mut first, mut second) = (self.compose(None), self.compose(None));
        second.agent = first.agent;
        for letter in [&mut first, &mut second] {
            letter.request.alias = Some("twins".into());
            letter.request.configuration.task_push_notification_config = None;
        }
        self.note(format_args!("sends {} and {} as twins", first.id(), second.id()));
        let send = |letter: &Letter| {
            let (resident, scope) = (self.resident(letter.agent), self.scope(letter.agent));
            let (request, terms, door) = (Box::new(letter.request.clone()), letter.terms.clone(), &self.around.door);
            door.call(Luck::Good, |engine| {
                Box::pin(async move { engine.send(&resident, scope, request, &terms).await })
            })
        };
        let answers = both(send(&first), send(&second)).await;
        // Concurrent answers have no order, so the second one gets an observer of its own.
        for (observer, letter, answer) in [(self.number, &first, answers.0), (TWIN + self.number, &second, answers.1)] {
            match answer {
                Ok(Ok(Sent::Task(image, _))) => self.take_answer(observer, letter, &image),
                Ok(Err(fault)) => {
                    self.check_refusal(letter, &fault);
                    self.judge(&fault, "sending twins");
                }
                Ok(Ok(Sent::Message(_))) | Err(Lost) => {}
            }
        }
    }

    fn take_answer(&mut self, observer: usize, letter: &Letter, image: &FrozenTask) {
        let Some(task) = self.around.ledger.answer(observer, image) else { return };
        self.note(format_args!("is answered by {}, {}", task.id, task.status.state));
        self.accept(letter, &task);
        let resting = task.status.state.is_settled() || task.status.state.is_interrupted();
        if !resting && !letter.request.configuration.return_immediately {
            let detail = format!("{} was answered by task {} while {}", letter.id(), task.id, task.status.state);
            self.around.ledger.broken("a_send_is_answered_at_rest", detail);
        }
    }

    /// Records that a task has a message, and checks its history.
    pub(super) fn accept(&mut self, letter: &Letter, task: &Task) {
        if !task.history.iter().any(|m| m.message_id == *letter.id()) {
            let detail = format!("task {} answered {} without having heard it", task.id, letter.id());
            self.around.ledger.broken("every_answer_has_its_message", detail);
        }
        self.around.ledger.answered(letter.id(), task.id);
        if let Some(name) = &letter.request.alias {
            let named = Named { scope: self.scope(letter.agent), name: name.clone() };
            self.around.ledger.named(named, task.id);
        }
        let opened = letter.request.message.task_id.is_none();
        let kept = (letter.keyed && opened).then(|| (letter.clone(), self.now()));
        self.learn(letter.agent, task, kept);
    }

    pub(super) fn learn(&mut self, agent: usize, task: &Task, letter: Option<(Letter, u64)>) {
        let asks = task.status.state == TaskState::InputRequired;
        match self.known.iter_mut().find(|known| known.task == task.id) {
            Some(known) => known.asks = asks,
            None => self.known.push(Known { agent, task: task.id, asks, letter }),
        }
    }

    pub(super) fn any_known(&mut self) -> Option<Known> {
        let at = self.chance.below(self.known.len());
        self.known.get(at).cloned()
    }

    async fn answer_a_question(&mut self) {
        let Some(known) = self.known.iter().find(|known| known.asks).cloned() else { return };
        self.known.iter_mut().filter(|k| k.task == known.task).for_each(|k| k.asks = false);
        let letter = self.compose(Some(&known));
        self.send(letter).await;
    }

    /// Sends the same message once more, long after it was answered.
    async fn send_again(&mut self) {
        let Some(Known { letter: Some((letter, sent)), .. }) = self.any_known() else { return };
        if self.now() - sent < PATIENCE_MS / 2 {
            self.send(letter).await;
        }
    }

    /// Sends another message with a key in use: a conflict, and no harm to the first message.
    async fn reuse_a_key(&mut self) {
        let Some(Known { letter: Some((mut letter, _)), .. }) = self.any_known() else { return };
        if letter.terms.idempotency_key.is_none() {
            return;
        }
        self.note(format_args!("reuses the key of {}", letter.id()));
        letter.request.message.parts = vec![sabir_proto::Part::text("something else")];
        let (resident, scope) = (self.resident(letter.agent), self.scope(letter.agent));
        let (request, terms) = (Box::new(letter.request.clone()), letter.terms.clone());
        let answer = self.call(|engine| Box::pin(async move { engine.send(&resident, scope, request, &terms).await }));
        let answer = answer.await;
        if !matches!(answer, Ok(Err(Fault::RetryConflict | Fault::Unavailable(_))) | Err(Lost)) {
            let detail = format!("the key of {} was taken twice: {answer:?}", letter.id());
            self.around.ledger.broken("an_explicit_key_means_one_message", detail);
        }
    }

    async fn cancel(&mut self) {
        let Some(known) = self.any_known() else { return };
        let began = self.now();
        loop {
            self.note(format_args!("cancels {}", known.task));
            let (scope, resident) = (self.scope(known.agent), self.resident(known.agent));
            let call = CancelTask { tenant: Tenant::none(), id: known.task.into(), metadata: None };
            let answer = self.call(|engine| Box::pin(async move { engine.cancel(&scope, &resident, &call).await }));
            match answer.await {
                Ok(Ok(image)) => {
                    let task = self.around.ledger.answer(self.number, &image);
                    if task.is_none_or(|task| task.status.state != TaskState::Canceled) {
                        let detail = format!("task {} was not canceled but said to be", known.task);
                        self.around.ledger.broken("every_image_was_true_once", detail);
                    }
                    return;
                }
                Ok(Err(fault)) if self.judge(&fault, "canceling") == Verdict::Final => return,
                Ok(Err(_)) | Err(Lost) => {}
            }
            if !self.try_again(began, "canceling").await {
                return;
            }
        }
    }
}
