//! Every bound of the engine: a name, a unit, a reason.

use std::time::Duration;

/// What one engine allows. Server-wide; the defaults suit a small machine.
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
    /// Bytes of the tasks on one page of a list, as they are stored; a page has at least one. A hundred large tasks in one
    /// answer are held in memory together, and are more than most clients read at once.
    pub list_bytes_max: usize,
    /// Up to this size a snapshot is written whenever the task waits for its caller. That is four pages of the file, less
    /// than the step touches anyway; and a reader of such a task has nothing to fold.
    pub snapshot_small_bytes: usize,
    /// Messages in a task's history.
    pub history_messages_max: usize,
    /// Push configurations per task.
    pub push_configs_max: u32,
    /// Deliveries to receivers of push notifications at the same time.
    pub push_workers_max: usize,
    /// The same to one host, so that one that hangs leaves room for others.
    pub push_host_workers_max: usize,
    /// How long after its first failure a delivery is tried again; each failure doubles it …
    pub push_delay_min: Duration,
    /// … up to this, which is also as long as a receiver's wish to be left alone is honoured.
    pub push_delay_max: Duration,
    /// How often an event is tried before it becomes a dead letter. With delays that double up to their limit these last
    /// for about as long as the time below, which is what decides.
    pub push_attempts_max: u32,
    /// How long an event is tried before it becomes a dead letter.
    pub push_time_max: Duration,
    /// Failures in a row after which a receiver is left alone: a host by all, if nobody is there; by one owner otherwise.
    pub push_host_failures_max: u32,
    /// For how long, at first; each failure after that doubles it …
    pub push_pause_min: Duration,
    /// … up to this.
    pub push_pause_max: Duration,
    /// How long an agent may work on one message.
    pub turn_time_max: Duration,
    /// How long an agent gets to clean up after it was canceled.
    pub cancel_grace: Duration,
    /// Events an agent may report before it has to wait for their commit.
    pub draft_events_max: usize,
    /// The same in bytes.
    pub draft_bytes_max: usize,
    /// Recent events of a live task kept in memory for its watchers; slower ones read the log.
    pub ring_events_max: usize,
    /// The same in bytes.
    pub ring_bytes_max: usize,
    /// Events a watcher that fell behind reads from the log at a time.
    pub replay_events_max: usize,
    /// How long a message id serves as a retry key.
    pub implicit_retry_time: Duration,
    /// How many message ids are remembered as retry keys.
    pub implicit_retries_max: usize,
    /// How long an explicit retry key is kept.
    pub explicit_retry_time: Duration,
    /// How often a turn is begun before its task is failed: it has crashed the process each time.
    pub attempts_max: u32,
    /// Agents that a request may pass through, one on behalf of the other, before the next is refused. Here and elsewhere
    /// are counted together, so that two servers cannot play ball for ever.
    pub hops_max: u32,
    /// Tasks that may be opened below one task of a caller, by whatever agents, so that those who each call two others end.
    pub calls_per_root_max: u64,
    /// How long after a caller's message tasks may still be opened on its behalf.
    pub tree_time_max: Duration,
    /// What the agents below one task of a caller may say they have spent, in millionths; 0 for no limit.
    pub spend_per_root_max: u64,
    /// How long a task that was handed to us waits for its sender to let go of it before it is canceled.
    pub hold_time_max: Duration,
    /// How long a stream shows nothing while nothing is heard of an agent that may answer with a message instead of a task:
    /// a stream that has shown a task can show no message. Longer than most agents take to name their task, and short enough
    /// for people who wait for a first sign.
    pub direct_reply_wait: Duration,
    /// How long a step is tried again while the store refuses writes.
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
/// A task that waits for its caller gets a snapshot as well, so that it is read without its whole log. One larger than
/// [`Limits::snapshot_small_bytes`] gets it only once the log since the last one has outgrown this share of it (one half).
/// All such snapshots together are then at most three times the log, and a tiny message to a large task costs what the
/// message costs. A reader of the task folds at most half as much again.
pub const SNAPSHOT_SHARE: usize = 2;
