//! The promises that must hold at the end of a run. The name of a check is its promise.

use super::client::SimContext;
use super::log::{CommitHistory, LedgerContents};
use super::observations::ObservationData;
use super::receivers::{ReceivedEvent, Receivers};
use super::simulation::PUSH_TIME_MAX;
use crate::agents::{ARTIFACT, LONG_ANSWER_CHUNKS, requested_count, streamed_text};
use crate::wait::at_once;
use bytes::Bytes;
use sabir_engine::machine;
use sabir_proto::{Event, FrozenEvent, FrozenTask, MessageId, Seq, Task, TaskId, TaskState};
use sabir_store::{BookingStatus, Delivery, Scope, StoredTask, TaskListQuery, TaskLog};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The name of a promise and the function that checks it.
pub(super) type Check = (&'static str, fn(&Evidence) -> Result<(), String>);

/// No task is unfinished once all clients are done and the store takes writes. (A task that waits for its caller is not
/// unfinished.)
pub(super) const NO_TASK_IS_LEFT_BEHIND: Check = ("nobody_is_left_behind", no_task_is_left_behind);

/// Every promise, in the order in which they are checked.
pub(super) const ALL: &[Check] = &[
    ("every_acknowledged_event_is_replayed_once_and_in_order", every_acknowledged_event_is_replayed),
    ("every_image_was_true_once", every_image_was_true_once),
    ("a_settled_task_never_moves", a_settled_task_never_moves),
    ("time_never_goes_back", time_never_goes_back),
    ("a_retried_send_makes_one_task", a_retried_send_makes_one_task),
    ("every_answer_is_kept", every_answer_is_kept),
    ("a_name_has_one_unfinished_task", a_name_has_one_unfinished_task),
    ("one_child_per_key", one_child_per_key),
    ("a_task_that_is_given_up_leaves_no_child_behind", no_child_is_left_behind),
    ("counters_equal_counts", counters_equal_counts),
    ("every_event_is_delivered_in_order_or_given_up", every_event_is_delivered_in_order_or_given_up),
    ("only_the_dead_get_dead_letters", only_the_dead_get_dead_letters),
    ("resumed_work_is_seamless", resumed_work_is_seamless),
    ("what_is_booked_is_counted_once_and_has_room", what_is_booked_is_counted_once_and_has_room),
    NO_TASK_IS_LEFT_BEHIND,
];

/// A task with its whole log.
pub(super) struct LoggedTask {
    stored: StoredTask,
    task: Task,
    pub(super) events: Vec<FrozenEvent>,
    /// Its image after each event.
    images: Vec<Bytes>,
}

/// Everything that the checks read.
pub(super) struct Evidence {
    log: Arc<dyn TaskLog>,
    observations: ObservationData,
    history: CommitHistory,
    pub(super) tasks: Vec<LoggedTask>,
    received: Vec<ReceivedEvent>,
    dead: Vec<Delivery>,
    receivers: Receivers,
    ledger: Option<LedgerContents>,
}

impl Evidence {
    pub(super) fn gather(around: &SimContext) -> Self {
        let log: Arc<dyn TaskLog> = around.log.clone();
        let history = around.log.history();
        let tasks = history.tasks.iter().filter_map(|id| LoggedTask::read(&*log, *id)).collect();
        let (received, dead, receivers) =
            (around.receivers.received(), around.log.dead_letters(), around.receivers.clone());
        let (observations, ledger) = (around.observations.lock().clone(), around.log.ledger_contents());
        Self { observations, history, tasks, received, dead, receivers, ledger, log }
    }

    fn logged_task(&self, id: TaskId) -> Result<&LoggedTask, String> {
        self.tasks.iter().find(|told| told.stored.id == id).ok_or_else(|| format!("task {id} is not in the log"))
    }
}

impl LoggedTask {
    fn read(log: &dyn TaskLog, id: TaskId) -> Option<Self> {
        let stored = at_once(log.load(id)).ok()??;
        let mut events: Vec<FrozenEvent> = Vec::new();
        loop {
            // Short pages, so that most of them begin in the middle of a step.
            let after = events.last().map_or(Seq(0), |e| e.seq);
            let page = at_once(log.events(id, after, 3)).ok()?;
            if page.is_empty() {
                break;
            }
            events.extend(page);
        }
        let images = images(&events);
        Some(Self { task: machine::thaw(&stored)?, stored, events, images })
    }
}

/// The task image after each event, up to the first unreadable one.
fn images(events: &[FrozenEvent]) -> Vec<Bytes> {
    let Some((Some(Event::Task(mut task)), rest)) = events.split_first().map(|(e, rest)| (e.thaw(), rest)) else {
        return Vec::new();
    };
    let mut images = vec![FrozenTask::freeze(&task).json];
    for event in rest {
        let Some(what) = event.thaw() else { return images };
        task.apply(what, event.thaw_input());
        images.push(FrozenTask::freeze(&task).json);
    }
    images
}

fn every_acknowledged_event_is_replayed(evidence: &Evidence) -> Result<(), String> {
    for told in &evidence.tasks {
        let (id, head) = (told.stored.id, told.stored.head);
        let numbers: Vec<u64> = told.events.iter().map(|e| e.seq.0).collect();
        if numbers != (1..=head.0).collect::<Vec<_>>() {
            return Err(format!("task {id} has events {numbers:?} up to {head}"));
        }
        let current = machine::fold(&told.stored).map(|image| image.json);
        if current.as_ref() != told.images.last() {
            return Err(format!(
                "task {id} does not fold to what is stored: {current:?} from {:?}",
                told.images.last()
            ));
        }
    }
    for ((id, seq), shown) in &evidence.observations.events {
        let told = evidence.logged_task(*id)?;
        let kept = told.events.iter().find(|e| e.seq == *seq);
        if kept.is_none_or(|kept| kept.json != shown.json) {
            return Err(format!("event {seq} of task {id} was shown as {:?} and kept as {kept:?}", shown.json));
        }
    }
    Ok(())
}

/// Every image that a client received was the task at some point of its log, and no client received an older one later.
fn every_image_was_true_once(evidence: &Evidence) -> Result<(), String> {
    let mut floors: BTreeMap<(usize, TaskId), usize> = BTreeMap::new();
    for image in &evidence.observations.images {
        let told = evidence.logged_task(image.task)?;
        let floor = floors.entry((image.client, image.task)).or_default();
        let fits = |at: usize, kept: &Bytes| {
            let numbered = image.at.is_none_or(|seq| told.events[at].seq == seq);
            numbered && (at >= *floor || image.at.is_some()) && *kept == image.json
        };
        let Some(at) = told.images.iter().enumerate().position(|(at, kept)| fits(at, kept)) else {
            let json = String::from_utf8_lossy(&image.json);
            return Err(format!("client {} saw task {} at {:?} as {json}", image.client, image.task, image.at));
        };
        *floor = (*floor).max(at);
    }
    Ok(())
}

fn a_settled_task_never_moves(evidence: &Evidence) -> Result<(), String> {
    if let Some(id) = evidence.history.moved_after_settling.first() {
        return Err(format!("task {id} got a step after it had settled"));
    }
    let settles = |event: &FrozenEvent| event.state.is_some_and(TaskState::is_settled);
    for told in &evidence.tasks {
        let before_last = told.events.len().saturating_sub(1);
        if let Some(event) = told.events[..before_last].iter().find(|e| settles(e)) {
            return Err(format!("task {} goes on after event {}, which settled it", told.stored.id, event.seq));
        }
    }
    Ok(())
}

/// Clocks jump between processes; the times in a task do not go back.
fn time_never_goes_back(evidence: &Evidence) -> Result<(), String> {
    for told in &evidence.tasks {
        let times = told.events.iter().filter_map(|event| match event.thaw()? {
            Event::Task(task) => task.status.timestamp,
            Event::StatusUpdate(update) => update.status.timestamp,
            Event::Message(_) | Event::ArtifactUpdate(_) => None,
        });
        if !times.is_sorted() {
            return Err(format!("task {} has events that are older than those before them", told.stored.id));
        }
    }
    Ok(())
}

/// A message with a retry key is in the history of one task, once.
fn a_retried_send_makes_one_task(evidence: &Evidence) -> Result<(), String> {
    let mut heard: BTreeMap<&MessageId, Vec<TaskId>> = BTreeMap::new();
    for told in &evidence.tasks {
        for message in &told.task.history {
            heard.entry(&message.message_id).or_default().push(told.stored.id);
        }
    }
    for (message, send) in &evidence.observations.sends {
        let tasks = heard.get(message).map_or(&[][..], |tasks| tasks);
        if send.keyed && tasks.len() > 1 {
            return Err(format!("message {message} was heard {} times: {tasks:?}", tasks.len()));
        }
    }
    Ok(())
}

fn every_answer_is_kept(evidence: &Evidence) -> Result<(), String> {
    for (message, send) in &evidence.observations.sends {
        let Some(id) = send.answered else { continue };
        if !evidence.logged_task(id)?.task.history.iter().any(|m| m.message_id == *message) {
            return Err(format!("task {id} answered message {message} and does not know it any more"));
        }
    }
    Ok(())
}

/// An alias moves only from a settled task, and every task returned for it had it.
fn a_name_has_one_unfinished_task(evidence: &Evidence) -> Result<(), String> {
    if let Some(taken) = evidence.history.names_taken_away.first() {
        return Err(taken.clone());
    }
    for (named, task) in &evidence.observations.named {
        let given = evidence.history.names.iter().find(|(known, _)| known == named);
        if !given.is_some_and(|(_, tasks)| tasks.contains(task)) {
            return Err(format!("task {task} answered to {named} and was not given that name: {given:?}"));
        }
    }
    for (named, tasks) in &evidence.history.names {
        let now = at_once(evidence.log.alias(&named.scope, &named.name)).map_err(|e| e.to_string())?;
        if now != tasks.last().copied() {
            return Err(format!("{named} is {now:?} after {tasks:?}"));
        }
        for (n, task) in tasks.iter().rev().enumerate() {
            let names = at_once(evidence.log.aliases_of(*task)).map_err(|e| e.to_string())?;
            if names.iter().any(|name| **name == *named.name) != (n == 0) {
                return Err(format!("task {task} has the names {names:?}, and {named} went through {tasks:?}"));
            }
        }
    }
    Ok(())
}

/// A parent has one child per key, and the log finds it.
fn one_child_per_key(evidence: &Evidence) -> Result<(), String> {
    let mut known: BTreeMap<(TaskId, &str), TaskId> = BTreeMap::new();
    for (child, parent, key) in &evidence.history.children {
        if let Some(other) = known.insert((*parent, key), *child) {
            return Err(format!("task {parent} has the children {other} and {child} under the key {key}"));
        }
        let found = at_once(evidence.log.child(*parent, key)).map_err(|e| e.to_string())?;
        if found != Some(*child) {
            return Err(format!("task {parent} has the child {child} under the key {key}, and the log says {found:?}"));
        }
    }
    Ok(())
}

fn no_child_is_left_behind(evidence: &Evidence) -> Result<(), String> {
    match evidence.history.orphans().next() {
        Some((child, parent)) => Err(format!("task {child} lives on, though task {parent} was given up")),
        None => Ok(()),
    }
}

fn counters_equal_counts(evidence: &Evidence) -> Result<(), String> {
    let name = |scope: &Scope| format!("{} at {}", scope.caller.name(), scope.agent);
    let scopes: BTreeMap<String, &Arc<Scope>> =
        evidence.tasks.iter().map(|told| (name(&told.stored.scope), &told.stored.scope)).collect();
    for (name, scope) in scopes {
        for state in TaskState::ALL.map(Some).into_iter().chain([None]) {
            let fits = |told: &&LoggedTask| told.stored.scope == *scope && state.is_none_or(|s| s == told.stored.state);
            let count = evidence.tasks.iter().filter(fits).count();
            let listing = TaskListQuery {
                scope: scope.clone(),
                context: None,
                state: state.map(Into::into),
                since: None,
                limit: 10_000,
                bytes_max: usize::MAX,
                token: None,
            };
            let listed = at_once(evidence.log.list(listing)).map_err(|e| e.to_string())?;
            if (listed.tasks.len(), usize::try_from(listed.total)) != (count, Ok(count)) {
                let (shown, total) = (listed.tasks.len(), listed.total);
                return Err(format!("{name} has {count} tasks in {state:?}; listed {shown}, counted {total}"));
            }
        }
    }
    Ok(())
}

/// A configuration in the first message of a task gets every event in order, and a repeat only with the same delivery
/// id; a missing event is a dead letter.
fn every_event_is_delivered_in_order_or_given_up(evidence: &Evidence) -> Result<(), String> {
    let mut names: BTreeMap<&str, (TaskId, &str, Seq)> = BTreeMap::new();
    for heard in &evidence.received {
        let what = (heard.task, &*heard.config, heard.seq);
        if *names.entry(&heard.id).or_insert(what) != what {
            return Err(format!("delivery {} was {:?} and {what:?}", heard.id, names[&*heard.id]));
        }
    }
    if names.len() != names.values().collect::<std::collections::BTreeSet<_>>().len() {
        return Err("an event was delivered under two names".into());
    }
    for told in &evidence.tasks {
        let id = told.stored.id;
        if at_once(evidence.log.pushes(id)).map_err(|e| e.to_string())?.is_empty() {
            continue;
        }
        let is_dead = |seq: Seq| evidence.dead.iter().any(|d| d.task == id && d.first <= seq && seq <= d.last);
        let mut next = Seq(1);
        for heard in evidence.received.iter().filter(|heard| heard.task == id) {
            // A crash repeats the event in flight, and so does a lost answer of the receiver.
            let again = heard.seq.next() == next;
            while is_dead(next) && next < heard.seq {
                next = next.next();
            }
            if heard.seq != next && !again {
                return Err(format!("task {id}: event {} arrived where {next} was expected", heard.seq));
            }
            let kept = told.events.iter().find(|event| event.seq == heard.seq);
            if kept.is_none_or(|kept| kept.json != heard.json) {
                return Err(format!("task {id}: event {} arrived as {:?}", heard.seq, heard.json));
            }
            next = next.max(heard.seq.next());
        }
        while is_dead(next) {
            next = next.next();
        }
        if next != told.stored.head.next() {
            return Err(format!("task {id}: events arrived up to {next}, its head is {}", told.stored.head));
        }
    }
    Ok(())
}

/// A receiver that was reachable in time has no dead letters.
fn only_the_dead_get_dead_letters(evidence: &Evidence) -> Result<(), String> {
    let patience = u64::try_from(PUSH_TIME_MAX.as_millis()).unwrap_or(u64::MAX);
    for letter in &evidence.dead {
        let receiver = at_once(evidence.log.receiver(letter.task, &letter.config)).map_err(|e| e.to_string())?;
        let url = receiver.map(|receiver| receiver.config.url).unwrap_or_default();
        if evidence.receivers.dead_until(&url) < patience {
            return Err(format!("{url} came back, and yet: {letter:?}"));
        }
    }
    Ok(())
}

/// Completed agents have done all of their work exactly once, however often they were interrupted.
fn resumed_work_is_seamless(evidence: &Evidence) -> Result<(), String> {
    for told in evidence.tasks.iter().filter(|told| told.stored.state == TaskState::Completed) {
        let chunks =
            requested_count(&told.task.history.first().map(sabir_proto::Message::joined_text).unwrap_or_default());
        let expected = match told.stored.scope.agent.as_str() {
            "streams" | "steady" | "fragile" | "brief" => streamed_text(chunks),
            "floods" => streamed_text(chunks * 10),
            "tells" => streamed_text(LONG_ANSWER_CHUNKS),
            _ => continue,
        };
        let artifact = told.task.artifacts.iter().find(|a| a.artifact_id.as_str() == ARTIFACT);
        let made: String = artifact.iter().flat_map(|a| &a.parts).filter_map(sabir_proto::Part::as_text).collect();
        if made != expected {
            return Err(format!("task {} made {made:?} instead of {expected:?}", told.stored.id));
        }
    }
    Ok(())
}

/// A booking is made and counted with the completed task, and no slot is overbooked.
fn what_is_booked_is_counted_once_and_has_room(evidence: &Evidence) -> Result<(), String> {
    let Some(books) = &evidence.ledger else { return Err("the ledger cannot be read".into()) };
    if books.tally.drift() != 0 || books.metered != books.tally.counted {
        return Err(format!("{:?}, and {} in memory", books.tally, books.metered));
    }
    for slot in &books.slots {
        let live = books.bookings.iter().filter(|booking| booking.details.slot.as_ref() == Some(&slot.id));
        let live = live.filter(|booking| booking.status != BookingStatus::Cancelled).count();
        if slot.taken > slot.capacity || live != slot.taken as usize {
            return Err(format!("{slot:?} has {live} bookings"));
        }
    }
    for told in evidence.tasks.iter().filter(|told| told.stored.scope.agent.as_str() == "books") {
        let (id, done) = (told.stored.id, told.stored.state == TaskState::Completed);
        let booking = books.bookings.iter().find(|booking| booking.id == id);
        if done != booking.is_some_and(|booking| booking.status == BookingStatus::Pending) {
            return Err(format!("task {id} is {}, its booking is {booking:?}", told.stored.state));
        }
    }
    Ok(())
}

fn no_task_is_left_behind(evidence: &Evidence) -> Result<(), String> {
    match evidence.tasks.iter().find(|told| is_unfinished(told.stored.state)) {
        Some(told) => Err(format!("task {} is {} and nobody works on it", told.stored.id, told.stored.state)),
        None => Ok(()),
    }
}

/// Whether a task in this state must have a runner.
pub(super) const fn is_unfinished(state: TaskState) -> bool {
    matches!(state, TaskState::Submitted | TaskState::Working)
}
