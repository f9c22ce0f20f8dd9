//! Every limit of the engine, with its name, unit and reason.

use std::time::Duration;

/// The limits of one engine. Server-wide; the defaults suit a small machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Parts in one message or artifact. Ten thousand tiny parts cost far more than their bytes.
    pub parts_max: usize,
    /// Tasks with a running agent at the same time. Each holds a future and its task in memory.
    pub live_tasks_max: usize,
    /// Events a task's log may hold, so that a runaway agent ends.
    pub task_events_max: u64,
    /// Bytes a folded task may have. It is held in memory while its agent runs, and written whole with every snapshot.
    pub task_bytes_max: usize,
    /// Bytes that the tasks of one caller may have in the store before it opens and continues no more; 0 for no limit. The disk
    /// belongs to all callers, and one must not be able to fill it.
    pub stored_bytes_max: u64,
    /// Bytes of the tasks on one page of a list, as stored; a page has at least one task. A hundred large tasks in one
    /// answer are in memory together, and are more than most clients read at once.
    pub list_bytes_max: usize,
    /// Up to this size a snapshot is written whenever the task waits for its caller. That is four pages of the file,
    /// less than the step touches anyway, and a reader of such a task has nothing to fold.
    pub snapshot_small_bytes: usize,
    /// Messages in a task's history.
    pub history_messages_max: usize,
    /// Push configurations per task.
    pub push_configs_max: u32,
    /// Deliveries to receivers of push notifications at the same time.
    pub push_workers_max: usize,
    /// Deliveries to one host at the same time, so that a host that hangs leaves room for others.
    pub push_host_workers_max: usize,
    /// The delay of a retry after the first failure; each further failure doubles it …
    pub push_delay_min: Duration,
    /// … up to this, which is also the longest `Retry-After` that is followed.
    pub push_delay_max: Duration,
    /// The most attempts at an event before it becomes a dead letter. With delays that double up to their limit these
    /// take about as long as the time below, which is what decides.
    pub push_attempts_max: u32,
    /// The time after which an undelivered event becomes a dead letter.
    pub push_time_max: Duration,
    /// Failures in a row that open a circuit breaker: that of a host, if it cannot be reached; otherwise that of an
    /// owner at the host.
    pub push_host_failures_max: u32,
    /// The first pause of an open breaker; each further failure doubles it …
    pub push_pause_min: Duration,
    /// … up to this longest pause.
    pub push_pause_max: Duration,
    /// How long an agent may work on one message.
    pub turn_time_max: Duration,
    /// The time that an agent has to clean up after a cancel.
    pub cancel_grace: Duration,
    /// Events an agent may report before it has to wait for their commit.
    pub draft_events_max: usize,
    /// Bytes that an agent may report before it has to wait for their commit.
    pub draft_bytes_max: usize,
    /// Recent events of a live task kept in memory for its watchers; slower ones read the log.
    pub ring_events_max: usize,
    /// Bytes of recent events kept in memory for watchers, per live task.
    pub ring_bytes_max: usize,
    /// Events a watcher that fell behind reads from the log at a time.
    pub replay_events_max: usize,
    /// The time for which a message id counts as a retry key.
    pub implicit_retry_time: Duration,
    /// The most message ids in memory as retry keys.
    pub implicit_retries_max: usize,
    /// The time for which an explicit retry key is kept.
    pub explicit_retry_time: Duration,
    /// Attempts at a turn before its task is failed: each of them has crashed the process.
    pub attempts_max: u32,
    /// The most agents in a row that a request may pass. Agents here and on other servers are counted together, so that
    /// two servers cannot call each other for ever.
    pub hops_max: u32,
    /// The most tasks below one task of a caller, opened by any agents, so that agents that each call two others come
    /// to an end.
    pub calls_per_root_max: u64,
    /// The time after a caller's message in which tasks may still be opened for it.
    pub tree_time_max: Duration,
    /// The most that the agents below one task of a caller may spend, in millionths; 0 for no limit.
    pub spend_per_root_max: u64,
    /// The time for which a handed-over task waits for its activation before it is canceled.
    pub hold_time_max: Duration,
    /// The time for which a stream of an agent that may reply directly waits for its first report: a stream that has
    /// shown a task can show no message. Longer than most agents take to name their task, and short enough for people
    /// who wait for a first sign.
    pub direct_reply_wait: Duration,
    /// The time for which a step is retried while the store refuses writes.
    pub store_patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            parts_max: 1000,
            live_tasks_max: 100_000,
            task_events_max: 1_000_000,
            task_bytes_max: 64 << 20,
            stored_bytes_max: 0,
            // What gRPC clients take as one message unless they are told otherwise.
            list_bytes_max: 4 << 20,
            snapshot_small_bytes: 16 << 10,
            history_messages_max: 10_000,
            push_configs_max: 100,
            push_workers_max: 64,
            push_host_workers_max: 16,
            push_delay_min: Duration::from_secs(1),
            push_delay_max: Duration::from_secs(15 * 60),
            push_attempts_max: 150,
            push_time_max: Duration::from_secs(24 * 3600),
            push_host_failures_max: 5,
            push_pause_min: Duration::from_secs(5),
            push_pause_max: Duration::from_secs(5 * 60),
            turn_time_max: Duration::from_secs(7 * 24 * 3600),
            cancel_grace: Duration::from_secs(5),
            draft_events_max: 256,
            draft_bytes_max: 1 << 20,
            ring_events_max: 256,
            ring_bytes_max: 256 << 10,
            replay_events_max: 128,
            implicit_retry_time: Duration::from_secs(600),
            implicit_retries_max: 200_000,
            explicit_retry_time: Duration::from_secs(24 * 3600),
            attempts_max: 3,
            hops_max: 8,
            calls_per_root_max: 256,
            tree_time_max: Duration::from_secs(24 * 3600),
            spend_per_root_max: 0,
            hold_time_max: Duration::from_secs(300),
            direct_reply_wait: Duration::from_secs(1),
            store_patience: Duration::from_secs(30),
        }
    }
}

/// A snapshot is due after this many events …
pub const SNAPSHOT_EVENTS: u64 = 64;
/// … or this many bytes since the last one, but never before the log has also grown by [`SNAPSHOT_GROWTH`] times the
/// last snapshot: otherwise a long artifact would be written again and again, in the square of its length.
pub const SNAPSHOT_BYTES: usize = 256 << 10;
/// See [`SNAPSHOT_BYTES`].
pub const SNAPSHOT_GROWTH: usize = 2;
/// A task that waits for its caller gets a snapshot as well, so that it is read without its whole log. A task larger
/// than [`Limits::snapshot_small_bytes`] gets one only once the log since the last one exceeds this share of it (one
/// half). All such snapshots together are then at most three times the log, and a tiny message to a large task costs
/// what the message costs. A reader of the task folds at most half as much again.
pub const SNAPSHOT_SHARE: usize = 2;
