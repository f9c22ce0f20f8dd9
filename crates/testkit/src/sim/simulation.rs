//! The simulation: processes that start, crash and restart, and the loop that decides when.

use super::checks;
use super::client::{Client, SimContext};
use super::endpoint::ProcessEndpoint;
use super::executor::{Executor, Job, JobGroup, StepResult};
use super::faults::{Faults, Sabotage};
use super::log::SimLog;
use super::observations::Observations;
use super::receivers::Receivers;
use super::trace::{Digest, Trace};
use super::{Options, Violation};
use crate::agents::{BookingAgent, TurnTracker, scripted_agents};
use crate::host::SimHost;
use crate::seeded_rng::SeededRng;
use sabir_engine::{Engine, HostedAgent, Limits, Metrics};
use sabir_proto::AgentName;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The job groups of the simulation itself and of its clients; those of processes come after them.
const WORLD: JobGroup = 0;
const CLIENTS: JobGroup = 1;
/// The most that time moves at once while steps wait for their commit, in milliseconds.
const HELD_MS_MAX: u64 = 500;
/// The same while reads wait for an answer, and how often one of them gets it.
const LATE_MS_MAX: u64 = 100;
const ANSWERED_ONCE_IN: u64 = 4;
/// After a longer full time, the disk has room for at least as long, so that a retry every five seconds succeeds.
/// Otherwise no promise could be kept that is shorter than all faults together.
const FREE_DISK_MS_MIN: u64 = 6000;
/// With [`Sabotage::TwoOwners`], the second process starts once in so many steps.
const SECOND_OWNER_ONCE_IN: u64 = 300;
/// The longest run, in simulated milliseconds.
const LIFETIME_MS: u64 = 2 * 3600 * 1000;
/// The most steps of a run: more mean an endless loop.
const STEPS_MAX: u64 = 2_000_000;

/// The scripted agents and the booking agent.
fn all_agents(roster: &TurnTracker) -> Vec<Arc<HostedAgent>> {
    let mut all = scripted_agents(roster);
    let name = AgentName::parse("books").expect("a plain word is a legal name");
    let (agent, tools) = (Arc::new(BookingAgent(roster.clone())), sabir_proto::ToolMode::Full);
    all.push(Arc::new(HostedAgent { name, agent, push: true, tool_mode: tools }));
    all
}

/// The simulation of one seed.
pub(super) struct Simulation {
    seed: u64,
    options: Options,
    context: SimContext,
    tracker: TurnTracker,
    rng: SeededRng,
    /// The group of the serving process; `alive` also has earlier ones that were not ended.
    group: JobGroup,
    alive: Vec<JobGroup>,
    /// The next process is to be started.
    start_due: Arc<AtomicBool>,
    restart: Option<Job>,
    /// A process has stopped in order.
    stopped: Arc<AtomicBool>,
    ends_count: u32,
    steps: u64,
}

impl Simulation {
    pub(super) fn new(seed: u64, options: Options) -> Self {
        let mut rng = SeededRng::new(seed);
        let executor = Executor::new(rng.bits());
        let tracker = TurnTracker::default();
        let context = SimContext {
            endpoint: ProcessEndpoint::new(executor.clone()),
            log: Arc::new(SimLog::new(options)),
            observations: Observations::default(),
            trace: Trace::default(),
            faults: Faults::draw(&mut rng),
            residents: Arc::new(all_agents(&tracker)),
            receivers: Receivers::new(executor.clone(), rng.fork()),
            executor,
        };
        Self {
            seed,
            options,
            context,
            tracker,
            rng,
            group: CLIENTS,
            alive: Vec::new(),
            start_due: Arc::default(),
            restart: None,
            stopped: Arc::default(),
            ends_count: 0,
            steps: 0,
        }
    }

    /// Runs the simulation from the first process to the last check.
    pub(super) fn run(mut self) -> Result<Digest, Violation> {
        self.start();
        let full = self.fill_the_disk_now_and_then();
        let clients = self.rng.between(3, 8);
        for number in 0..clients {
            let number = usize::try_from(number).unwrap_or(0);
            let client = Client { number, context: self.context.clone(), rng: self.rng.fork(), known: Vec::new() };
            let deeds = self.rng.between(5, 25);
            self.context.executor.spawn(CLIENTS, Box::pin(client.run(deeds)));
        }
        self.run_until("every_client_that_waits_gets_an_answer", |world| world.context.executor.alive(CLIENTS) == 0)?;
        self.context.executor.abort(full);
        self.stop_faults()?;
        // Checked before a restart as well: no task needs one to come to an end.
        self.run_checks(&[checks::NO_TASK_IS_LEFT_BEHIND])?;
        self.crash();
        self.stop_faults()?;
        self.run_checks(checks::ALL)
    }

    /// Ends all faults, and waits until every agent, child and delivery has finished.
    fn stop_faults(&mut self) -> Result<(), Violation> {
        self.context.faults.crash_once_in = 0;
        self.context.faults.stop_once_in = 0;
        self.context.faults.hold_once_in = 0;
        self.context.faults.late_once_in = 0;
        self.context.log.set_full(false);
        self.context.log.set_answering_late(false);
        self.context.receivers.stop_faults();
        self.run_until("every_agent_comes_to_an_end", |world| {
            world.context.log.waiting() == 0
                && world.context.endpoint.engine().is_some_and(|engine| engine.running() == 0)
        })?;
        self.run_until("a_task_that_is_given_up_leaves_no_child_behind", |world| world.context.log.orphans() == 0)?;
        self.run_until("every_event_owed_is_delivered_or_given_up", |world| {
            let at_rest = |engine: &Engine| engine.deliveries_in_flight() == 0;
            world.context.endpoint.engine().as_ref().is_some_and(at_rest) && !world.context.log.has_deliveries()
        })
    }

    fn run_until(&mut self, promise: &'static str, done: impl Fn(&Self) -> bool) -> Result<(), Violation> {
        while !done(self) {
            let went_on = self.tick()?;
            let too_long = self.context.executor.now() > LIFETIME_MS || self.steps > STEPS_MAX;
            if too_long || (!went_on && !done(self)) {
                let doing = &self.context.observations.lock().last_actions;
                let detail = format!("no end after {} steps; last seen: {doing:#?}", self.steps);
                return Err(self.violation(promise, detail));
            }
        }
        Ok(())
    }

    /// Does one step; false when none is possible.
    fn tick(&mut self) -> Result<bool, Violation> {
        self.steps += 1;
        self.check_running()?;
        if self.start_due.swap(false, Ordering::Relaxed) {
            self.start();
        }
        let faults = &self.context.faults;
        let may_end = self.ends_count < faults.ends_max;
        if self.stopped.swap(false, Ordering::Relaxed) || (may_end && self.rng.once_in(faults.crash_once_in)) {
            self.crash();
        } else if may_end && self.rng.once_in(faults.stop_once_in) {
            self.stop();
        }
        let second = self.options.sabotage == Some(Sabotage::TwoOwners) && self.alive.len() == 1;
        if second && self.rng.once_in(SECOND_OWNER_ONCE_IN) {
            self.start();
        }
        let (log, faults) = (&self.context.log, &self.context.faults);
        log.set_holding(self.rng.once_in(faults.hold_once_in));
        log.set_answering_late(self.rng.once_in(faults.late_once_in));
        let (waiting, unanswered) = (log.waiting(), log.unanswered());
        // A slow disk is not a dead one: time moves only a little while it works.
        let overdue = faults.hold_once_in == 0 || self.context.executor.gap().is_none_or(|ms| ms > HELD_MS_MAX);
        if waiting > 0 && (overdue || self.rng.once_in(faults.commit_once_in)) {
            let steps = 1 + self.rng.below(waiting);
            self.note(format_args!("commits {steps} of {waiting}"));
            self.context.log.commit(steps);
        }
        let overdue = self.context.executor.gap().is_none_or(|ms| ms > LATE_MS_MAX);
        if unanswered > 0 && (overdue || self.rng.once_in(ANSWERED_ONCE_IN)) {
            self.context.log.answer(1 + self.rng.below(unanswered));
        }
        match self.context.executor.step() {
            StepResult::Ran(Job(job)) => self.context.trace.mix(&job.to_be_bytes()),
            StepResult::TimeMoved(now) => self.context.trace.mix(&now.to_be_bytes()),
            StepResult::Idle => return Ok(waiting + unanswered > 0),
        }
        Ok(true)
    }

    /// Checks what must hold all the time.
    fn check_running(&self) -> Result<(), Violation> {
        if let Some((promise, detail)) = self.context.observations.lock().violation.clone() {
            return Err(self.violation(promise, detail));
        }
        if let Some(detail) = self.context.receivers.broken() {
            return Err(self.violation("one_delivery_at_a_time_to_a_configuration", detail));
        }
        if let Some(turn) = self.tracker.concurrent_turns().first() {
            return Err(self.violation("one_owner_per_task", format!("two agents at work on {turn}")));
        }
        if let Some(turn) = self.tracker.changed_pasts().first() {
            return Err(self.violation("every_attempt_of_a_turn_has_the_same_past", turn.clone()));
        }
        // A serving process has resumed every task and drops none, also while the disk is full.
        if let Some(engine) = self.context.endpoint.engine() {
            let (unfinished, running) = (self.context.log.unfinished_tasks(), engine.running());
            if unfinished > running {
                let detail = format!("{unfinished} tasks are unfinished, {running} of them have an owner");
                return Err(self.violation("every_unfinished_task_has_an_owner", detail));
            }
        }
        Ok(())
    }

    /// Starts a process: it opens the log, recovers, and begins to listen.
    fn start(&mut self) {
        self.group += 1;
        self.alive.push(self.group);
        self.note(format_args!("process {} starts", self.group));
        let skew = self.rng.between(0, 2 * self.context.faults.skew_ms_max);
        let skew_ms = i64::try_from(skew).unwrap_or(0) - i64::try_from(self.context.faults.skew_ms_max).unwrap_or(0);
        let host = SimHost::with_skew(self.context.executor.clone(), self.group, self.rng.fork(), skew_ms);
        let (around, group) = (self.context.clone(), self.group);
        self.context.executor.spawn(group, Box::pin(serve(around, Arc::new(host), group)));
    }

    /// Asks the process to stop: it accepts no calls, and ends once its agents have.
    fn stop(&mut self) {
        let Some(engine) = self.context.endpoint.engine() else { return };
        self.note(format_args!("process {} stops", self.group));
        self.context.endpoint.close();
        let stopped = self.stopped.clone();
        let stop = async move {
            engine.stop().await;
            stopped.store(true, Ordering::Relaxed);
        };
        self.context.executor.spawn(self.group, Box::pin(stop));
    }

    /// Kills all processes at once.
    fn crash(&mut self) {
        self.ends_count += 1;
        self.note(format_args!("the process ends, with {} steps on their way", self.context.log.waiting()));
        self.context.endpoint.close();
        for group in std::mem::take(&mut self.alive) {
            self.context.executor.abort_group(group);
        }
        self.context.log.crash();
        let (due, executor) = (self.start_due.clone(), self.context.executor.clone());
        let pause = Duration::from_millis(self.rng.between(0, 3000));
        let restart = async move {
            executor.sleep(pause).await;
            due.store(true, Ordering::Relaxed);
        };
        // It may have died during its start; then one restart is planned, not two.
        if let Some(restart) = self.restart.replace(self.context.executor.spawn(WORLD, Box::pin(restart))) {
            self.context.executor.abort(restart);
        }
        self.start_due.store(false, Ordering::Relaxed);
        self.stopped.store(false, Ordering::Relaxed);
    }

    fn fill_the_disk_now_and_then(&mut self) -> Job {
        let (around, mut chance) = (self.context.clone(), self.rng.fork());
        let work = async move {
            for _ in 0..around.faults.full_times {
                let quiet = chance.between(0, 2000 * around.faults.full_seconds);
                around.executor.sleep(Duration::from_millis(quiet)).await;
                around.trace.note(around.executor.now(), format_args!("the disk is full"));
                around.log.set_full(true);
                let full = chance.between(1, around.faults.full_ms_max);
                around.executor.sleep(Duration::from_millis(full)).await;
                around.trace.note(around.executor.now(), format_args!("the disk has room again"));
                around.log.set_full(false);
                if full > FREE_DISK_MS_MIN {
                    around.executor.sleep(Duration::from_millis(FREE_DISK_MS_MIN)).await;
                }
            }
        };
        self.context.executor.spawn(WORLD, Box::pin(work))
    }

    fn run_checks(&self, checks: &[checks::Check]) -> Result<Digest, Violation> {
        self.check_running()?;
        let evidence = checks::Evidence::gather(&self.context);
        for (promise, check) in checks {
            check(&evidence).map_err(|detail| self.violation(promise, detail))?;
        }
        evidence.tasks.iter().flat_map(|told| &told.events).for_each(|event| self.context.trace.mix(&event.json));
        Ok(self.context.trace.digest())
    }

    fn note(&self, what: std::fmt::Arguments<'_>) {
        self.context.trace.note(self.context.executor.now(), what);
    }

    fn violation(&self, promise: &'static str, detail: String) -> Violation {
        Violation { seed: self.seed, promise, detail, tail: self.context.trace.tail() }
    }
}

async fn serve(around: SimContext, host: Arc<SimHost>, group: JobGroup) {
    let engine = Engine::open(around.log.clone(), host, limits(), Metrics::default()).await;
    let engine = match engine {
        Ok(engine) => engine,
        Err(error) => return around.observations.record_violation("a_process_starts", error.to_string()),
    };
    let by_name = |name: &AgentName| -> Option<Arc<HostedAgent>> {
        around.residents.iter().find(|resident| resident.name == *name).cloned()
    };
    let residents = around.residents.clone();
    engine.set_directory(Arc::new(move |name: &AgentName| {
        residents.iter().find(|resident| resident.name == *name).cloned()
    }));
    match engine.recover(by_name).await {
        Ok((resumed, failed)) => {
            let now = around.executor.now();
            around.trace.note(now, format_args!("process {group} serves; {resumed} turns go on, {failed} failed"));
            engine.start_deliveries(Arc::new(around.receivers.clone()));
            around.endpoint.open(engine, group);
        }
        Err(error) => around.observations.record_violation("a_process_starts", error.to_string()),
    }
}

/// The time after which an event becomes a dead letter.
pub(super) const PUSH_TIME_MAX: Duration = Duration::from_secs(900);

/// Small limits, so that rare situations are frequent here.
fn limits() -> Limits {
    Limits {
        draft_events_max: 6,
        ring_events_max: 5,
        replay_events_max: 4,
        turn_time_max: Duration::from_secs(600),
        push_workers_max: 6,
        push_host_workers_max: 3,
        push_delay_max: Duration::from_secs(20),
        // Dead letters are then made by time, not by chance.
        push_attempts_max: u32::MAX,
        push_time_max: PUSH_TIME_MAX,
        push_pause_min: Duration::from_secs(1),
        push_pause_max: Duration::from_secs(20),
        // Simulated tasks are small; this treats them like large ones.
        snapshot_small_bytes: 0,
        ..Limits::default()
    }
}
