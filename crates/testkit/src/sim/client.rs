//! The simulated clients: they send and retry, answer questions, cancel, and read.
//!
//! A client retries for a limited time: a call without an answer within [`PATIENCE_MS`] is a broken promise, whatever
//! faults were injected.

use super::endpoint::{CallOutcome, NoAnswer, ProcessEndpoint, join_both};
use super::executor::Executor;
use super::faults::Faults;
use super::log::SimLog;
use super::observations::{Observations, OwnedAlias};
use super::receivers::{HOSTS, Receivers};
use super::trace::Trace;
use crate::scripted_task::push_config;
use crate::seeded_rng::SeededRng;
use sabir_engine::{BoxFuture, Engine, HostedAgent};
use sabir_proto::{
    Caller, CancelTask, Fault, FrozenTask, Message, MessageId, PushConfig, Role, SendConfiguration, SendMessage,
    SendReply, ServiceParameters, Task, TaskId, TaskState, Tenant,
};
use sabir_store::Scope;
use std::sync::Arc;
use std::time::Duration;

/// How long a client waits and retries, in milliseconds. Less than the ten minutes for which a message id counts.
const PATIENCE_MS: u64 = 8 * 60 * 1000;

/// Added to the number of a client for its second, concurrent observer.
const SECOND_OBSERVER: usize = 1000;

/// What all clients of a simulation share.
#[derive(Clone)]
pub(super) struct SimContext {
    pub(super) executor: Executor,
    pub(super) endpoint: ProcessEndpoint,
    pub(super) log: Arc<SimLog>,
    pub(super) observations: Observations,
    pub(super) trace: Trace,
    pub(super) faults: Faults,
    pub(super) residents: Arc<Vec<Arc<HostedAgent>>>,
    pub(super) receivers: Receivers,
}

/// One simulated client.
pub(super) struct Client {
    pub(super) number: usize,
    pub(super) context: SimContext,
    pub(super) rng: SeededRng,
    /// The tasks that it has learned of.
    pub(super) known: Vec<KnownTask>,
}

/// A task a client knows of.
#[derive(Debug, Clone)]
pub(super) struct KnownTask {
    pub(super) agent: usize,
    pub(super) task: TaskId,
    /// Whether it waits for an answer, as far as the client knows.
    pub(super) asks: bool,
    /// The message that opened it and when, if it may be sent again.
    opened_by: Option<(OutgoingMessage, u64)>,
}

/// A message to send, the same at every attempt.
#[derive(Debug, Clone)]
pub(super) struct OutgoingMessage {
    pub(super) agent: usize,
    pub(super) request: SendMessage,
    pub(super) terms: ServiceParameters,
    /// Whether it has a retry key.
    pub(super) keyed: bool,
}

impl OutgoingMessage {
    pub(super) fn id(&self) -> &MessageId {
        &self.request.message.message_id
    }
}

/// Whether a client should retry after a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryVerdict {
    Again,
    Final,
}

impl Client {
    /// Runs this many random actions.
    pub(super) async fn run(mut self, deeds: u64) {
        for _ in 0..deeds {
            self.rest(2000).await;
            match self.rng.below(19) {
                0..=5 => {
                    let letter = self.new_message(None);
                    self.send(letter).await;
                }
                6..=8 => self.answer_a_question().await,
                9 => self.cancel().await,
                10 => self.get().await,
                11 => self.list_all_pages().await,
                12 | 13 => self.subscribe_to_known().await,
                14 => self.send_again().await,
                15 => self.reuse_a_key().await,
                16 => self.get_as_stranger().await,
                17 => self.send_two_at_once().await,
                _ => self.rest(20_000).await,
            }
        }
        self.note(format_args!("is done"));
    }

    pub(super) fn note(&self, what: std::fmt::Arguments<'_>) {
        let (now, line) = (self.now(), format!("client {} {what}", self.number));
        self.context.trace.note(now, format_args!("{line}"));
        self.context.observations.lock().last_actions.insert(self.number, format!("{now} ms: {line}"));
    }

    pub(super) fn now(&self) -> u64 {
        self.context.executor.now()
    }

    pub(super) async fn rest(&mut self, ms_max: u64) {
        let ms = self.rng.between(0, ms_max);
        self.context.executor.sleep(Duration::from_millis(ms)).await;
    }

    pub(super) fn resident(&self, agent: usize) -> Arc<HostedAgent> {
        self.context.residents[agent].clone()
    }

    /// The client's owner scope at an agent. Every two clients are one caller on two machines.
    pub(super) fn scope(&self, agent: usize) -> Arc<Scope> {
        let caller = Caller::named(&format!("caller-{}", self.number / 2));
        Arc::new(Scope { tenant: Tenant::none(), caller, agent: self.context.residents[agent].name.clone() })
    }

    /// A push configuration for one of the receiver hosts.
    fn push_receiver(&mut self) -> PushConfig {
        PushConfig { url: Receivers::url(self.rng.below(HOSTS)), ..push_config("hook") }
    }

    fn draw_outcome(&mut self) -> CallOutcome {
        if !self.rng.once_in(self.context.faults.lost_once_in) {
            return CallOutcome::Good;
        }
        let after = Duration::from_millis(self.rng.between(0, 400));
        self.rng.pick(&[CallOutcome::Deaf, CallOutcome::Leaves(after), CallOutcome::Forgets(after)])
    }

    pub(super) async fn call<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(Engine) -> BoxFuture<'static, T>,
    ) -> Result<T, NoAnswer> {
        let luck = self.draw_outcome();
        self.context.endpoint.call(luck, work).await
    }

    /// Waits before the next attempt; false after too long, which is recorded as a broken promise.
    pub(super) async fn try_again(&mut self, began: u64, what: &str) -> bool {
        if self.now() - began > PATIENCE_MS {
            let detail = format!("client {} gave up on {what}", self.number);
            self.context.observations.record_violation("every_client_that_waits_gets_an_answer", detail);
            return false;
        }
        // Sometimes at once, while the first copy is still on its way.
        let ms_max = self.rng.pick(&[3, 300, 6000]);
        self.rest(ms_max).await;
        true
    }

    /// Whether a fault is worth a retry. Faults that no client should ever get are broken promises.
    pub(super) fn judge_refusal(&self, fault: &Fault, what: &str) -> RetryVerdict {
        match fault {
            Fault::Unavailable(_) => RetryVerdict::Again,
            Fault::UnsupportedOperation(_)
            | Fault::TaskSettled { .. }
            | Fault::TaskNotCancelable { .. }
            | Fault::Refused(_)
            | Fault::NothingToSubscribe { .. } => RetryVerdict::Final,
            _ => {
                let detail = format!("client {}: {what}: {fault}", self.number);
                self.context.observations.record_violation("nobody_is_refused_without_reason", detail);
                RetryVerdict::Final
            }
        }
    }

    /// A new message, to some agent or in answer to a task.
    fn new_message(&mut self, answers: Option<&KnownTask>) -> OutgoingMessage {
        let agent = answers.map_or_else(|| self.rng.below(self.context.residents.len()), |known| known.agent);
        let (unique, by_hand) = (self.rng.uuid(), format!("c{}-{}", self.number, self.rng.bits()));
        let mut terms = ServiceParameters::default();
        let (id, keyed) = match self.rng.below(5) {
            0 => (by_hand, false),
            1 | 2 => {
                terms.idempotency_key = Some(unique);
                (by_hand, true)
            }
            _ => (unique, true),
        };
        let id = MessageId::parse(&id).expect("letters and digits make a legal id");
        let text = answers.map_or_else(|| format!("do {}", self.rng.between(1, 6)), |_| "an answer".into());
        let mut message = Message::text(id, Role::User, text);
        message.task_id = answers.map(|known| known.task.into());
        // Few names, and the second machine of the same caller uses the same ones.
        let named = answers.is_none() && self.rng.once_in(2);
        let alias = named.then(|| self.rng.pick(&["job", "errand"]).into());
        // Only in a message that certainly opens a task, so that the receiver gets all events from the first one on.
        let opens = answers.is_none() && !named;
        let push = opens && self.resident(agent).push && self.rng.once_in(3);
        let configuration = SendConfiguration {
            task_push_notification_config: push.then(|| self.push_receiver()),
            return_immediately: self.rng.once_in(4),
            ..SendConfiguration::default()
        };
        let request =
            SendMessage { tenant: Tenant::none(), message, configuration, metadata: None, alias, wants_task: false };
        self.context.observations.record_send(&request.message.message_id, keyed);
        OutgoingMessage { agent, request, terms, keyed }
    }

    /// Sends a message with *Send* or *Stream* until it is answered.
    async fn send(&mut self, letter: OutgoingMessage) {
        if self.rng.once_in(2) {
            self.follow_message(letter).await;
        } else {
            self.ask(letter).await;
        }
    }

    /// Sends a message until there is an answer.
    async fn ask(&mut self, letter: OutgoingMessage) {
        let began = self.now();
        loop {
            let (agent, name) = (&self.resident(letter.agent).name, letter.request.alias.as_deref());
            self.note(format_args!("sends {} to {agent} as {}", letter.id(), name.unwrap_or("nobody's")));
            let (resident, scope) = (self.resident(letter.agent), self.scope(letter.agent));
            let (request, terms) = (Box::new(letter.request.clone()), letter.terms.clone());
            let answer =
                self.call(|engine| Box::pin(async move { engine.send(&resident, scope, request, &terms).await }));
            match answer.await {
                Ok(Ok(SendReply::Task(image, _))) => return self.take_answer(self.number, &letter, &image),
                Ok(Ok(SendReply::Message(_))) => return,
                Ok(Err(fault)) => {
                    self.note(format_args!("is refused: {fault}"));
                    self.check_refusal(&letter, &fault);
                    if self.judge_refusal(&fault, "sending") == RetryVerdict::Final || !letter.keyed {
                        return;
                    }
                }
                // It may have arrived; without a key it must not be sent again.
                Err(NoAnswer) if !letter.keyed => return,
                Err(NoAnswer) => {}
            }
            if !self.try_again(began, &format!("sending {}", letter.id())).await {
                return;
            }
        }
    }

    /// Checks that a settled task is no reason to refuse a message to its alias.
    pub(super) fn check_refusal(&self, letter: &OutgoingMessage, fault: &Fault) {
        if let (Some(name), Fault::TaskSettled { .. }) = (&letter.request.alias, fault) {
            let detail = format!("{} was sent to {name} and refused: {fault}", letter.id());
            self.context.observations.record_violation("a_name_begins_anew_once_its_task_has_settled", detail);
        }
    }

    /// Sends two messages under one alias at the same time.
    async fn send_two_at_once(&mut self) {
        let (mut first, mut second) = (self.new_message(None), self.new_message(None));
        second.agent = first.agent;
        for letter in [&mut first, &mut second] {
            letter.request.alias = Some("twins".into());
            letter.request.configuration.task_push_notification_config = None;
        }
        self.note(format_args!("sends {} and {} as twins", first.id(), second.id()));
        let send = |letter: &OutgoingMessage| {
            let (resident, scope) = (self.resident(letter.agent), self.scope(letter.agent));
            let (request, terms, door) =
                (Box::new(letter.request.clone()), letter.terms.clone(), &self.context.endpoint);
            door.call(CallOutcome::Good, |engine| {
                Box::pin(async move { engine.send(&resident, scope, request, &terms).await })
            })
        };
        let answers = join_both(send(&first), send(&second)).await;
        // Concurrent answers have no order, so the second one gets an observer of its own.
        for (observer, letter, answer) in
            [(self.number, &first, answers.0), (SECOND_OBSERVER + self.number, &second, answers.1)]
        {
            match answer {
                Ok(Ok(SendReply::Task(image, _))) => self.take_answer(observer, letter, &image),
                Ok(Err(fault)) => {
                    self.check_refusal(letter, &fault);
                    self.judge_refusal(&fault, "sending twins");
                }
                Ok(Ok(SendReply::Message(_))) | Err(NoAnswer) => {}
            }
        }
    }

    fn take_answer(&mut self, observer: usize, letter: &OutgoingMessage, image: &FrozenTask) {
        let Some(task) = self.context.observations.record_image_of_answer(observer, image) else { return };
        self.note(format_args!("is answered by {}, {}", task.id, task.status.state));
        self.accept(letter, &task);
        let resting = task.status.state.is_settled() || task.status.state.is_interrupted();
        if !resting && !letter.request.configuration.return_immediately {
            let detail = format!("{} was answered by task {} while {}", letter.id(), task.id, task.status.state);
            self.context.observations.record_violation("a_send_is_answered_at_rest", detail);
        }
    }

    /// Records that a task has a message, and checks its history.
    pub(super) fn accept(&mut self, letter: &OutgoingMessage, task: &Task) {
        if !task.history.iter().any(|m| m.message_id == *letter.id()) {
            let detail = format!("task {} answered {} without having heard it", task.id, letter.id());
            self.context.observations.record_violation("every_answer_has_its_message", detail);
        }
        self.context.observations.record_answer(letter.id(), task.id);
        if let Some(name) = &letter.request.alias {
            let named = OwnedAlias { scope: self.scope(letter.agent), name: name.clone() };
            self.context.observations.record_alias(named, task.id);
        }
        let opened = letter.request.message.task_id.is_none();
        let kept = (letter.keyed && opened).then(|| (letter.clone(), self.now()));
        self.learn(letter.agent, task, kept);
    }

    pub(super) fn learn(&mut self, agent: usize, task: &Task, letter: Option<(OutgoingMessage, u64)>) {
        let asks = task.status.state == TaskState::InputRequired;
        match self.known.iter_mut().find(|known| known.task == task.id) {
            Some(known) => known.asks = asks,
            None => self.known.push(KnownTask { agent, task: task.id, asks, opened_by: letter }),
        }
    }

    pub(super) fn any_known(&mut self) -> Option<KnownTask> {
        let at = self.rng.below(self.known.len());
        self.known.get(at).cloned()
    }

    async fn answer_a_question(&mut self) {
        let Some(known) = self.known.iter().find(|known| known.asks).cloned() else { return };
        self.known.iter_mut().filter(|k| k.task == known.task).for_each(|k| k.asks = false);
        let letter = self.new_message(Some(&known));
        self.send(letter).await;
    }

    /// Sends the same message once more, long after it was answered.
    async fn send_again(&mut self) {
        let Some(KnownTask { opened_by: Some((letter, sent)), .. }) = self.any_known() else { return };
        if self.now() - sent < PATIENCE_MS / 2 {
            self.send(letter).await;
        }
    }

    /// Sends another message with a key in use: a conflict, and no harm to the first message.
    async fn reuse_a_key(&mut self) {
        let Some(KnownTask { opened_by: Some((mut letter, _)), .. }) = self.any_known() else { return };
        if letter.terms.idempotency_key.is_none() {
            return;
        }
        self.note(format_args!("reuses the key of {}", letter.id()));
        letter.request.message.parts = vec![sabir_proto::Part::text("something else")];
        let (resident, scope) = (self.resident(letter.agent), self.scope(letter.agent));
        let (request, terms) = (Box::new(letter.request.clone()), letter.terms.clone());
        let answer = self.call(|engine| Box::pin(async move { engine.send(&resident, scope, request, &terms).await }));
        let answer = answer.await;
        if !matches!(answer, Ok(Err(Fault::RetryConflict | Fault::Unavailable(_))) | Err(NoAnswer)) {
            let detail = format!("the key of {} was taken twice: {answer:?}", letter.id());
            self.context.observations.record_violation("an_explicit_key_means_one_message", detail);
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
                    let task = self.context.observations.record_image_of_answer(self.number, &image);
                    if task.is_none_or(|task| task.status.state != TaskState::Canceled) {
                        let detail = format!("task {} was not canceled but said to be", known.task);
                        self.context.observations.record_violation("every_image_was_true_once", detail);
                    }
                    return;
                }
                Ok(Err(fault)) if self.judge_refusal(&fault, "canceling") == RetryVerdict::Final => return,
                Ok(Err(_)) | Err(NoAnswer) => {}
            }
            if !self.try_again(began, "canceling").await {
                return;
            }
        }
    }
}
