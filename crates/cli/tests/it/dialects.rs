//! Every dialect against the running program: what each can do alone, and that all of them speak of the same tasks.
//!
//! | Module | What it contains |
//! |---|---|
//! | `dialect_client` | the same messages in each dialect: writes requests, reads answers |
//! | `send`, `stream`, `cancellation`, `push` | each dialect alone |
//! | `shared_tasks`, `task_names`, `retries` | one task in all of them; names; retries |
//! | `detection` | which dialect a request is taken for |
//! | `invalid_requests` | what none of them takes |

mod cancellation;
mod detection;
pub(crate) mod dialect_client;
mod invalid_requests;
mod push;
mod retries;
mod send;
mod shared_tasks;
mod stream;
mod task_names;

use crate::test_server::TestServer;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The path of the scripted agent.
pub(crate) const DESK_PATH: &str = "/agents/desk";

/// The agents of these tests: `demo` echoes, `desk` follows a script and takes webhooks.
pub(crate) const OFFICE_CONFIG: &str = r#"
[limits]
cancel_grace_seconds = 1

[[agent]]
name = "demo"
kind = "echo"
default = true

[[agent]]
name = "other"
kind = "echo"

[[agent]]
name = "desk"
kind = "script"
[agent.card.capabilities]
push_notifications = true
[[agent.rule]]
when = { text_contains = "book" }
do = [{ status = "looking" }, { ask_input = "Which day?" }]
then = [{ complete = "Booked." }]
[[agent.rule]]
when = { text_contains = "twice" }
do = [{ artifact = { id = "first", text = "1" } }, { ask_input = "More?" }]
then = [{ artifact = { id = "second", text = "2" } }, { complete = "Both." }]
[[agent.rule]]
when = { text_contains = "chat" }
do = [{ message = "Just so." }]
[[agent.rule]]
when = { text_contains = "forever" }
do = [{ status = "at it" }, { wait_ms = 86400000 }]
[[agent.rule]]
when = { text_contains = "words" }
do = [{ status = "thinking" }, { complete = "Only words." }]
[[agent.rule]]
when = { text_contains = "thing" }
do = [{ artifact = { id = "made", text = "Only a thing." } }]
[[agent.rule]]
when = { text_contains = "quick" }
do = [
    { status = "quickly" },
    { artifact = { id = "q", text = "a" } },
    { artifact = { id = "q", text = "b", append = true, last_chunk = true } },
    { artifact = { id = "r", text = "c" } },
    { complete = "done" },
]
[[agent.rule]]
when = { text_contains = "slow" }
do = [
    { status = "slowly" },
    { artifact = { id = "s", text = "a" } }, { wait_ms = 400 },
    { artifact = { id = "s", text = "b", append = true, last_chunk = true } },
    { complete = "done" },
]
[[agent.rule]]
when = { text_contains = "sign" }
do = [{ ask_auth = "Who are you?" }]
then = [{ complete = "Welcome." }]
[[agent.rule]]
when = { text_contains = "break" }
do = [{ fail = "It broke." }]
[[agent.rule]]
do = [{ reject = "No." }]
"#;

/// One server for all tests here that neither list nor count nor restart.
pub(crate) fn office_server() -> Arc<TestServer> {
    static SHARED: Mutex<Weak<TestServer>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let sabir = Arc::new(TestServer::start(OFFICE_CONFIG));
        *shared = Arc::downgrade(&sabir);
        sabir
    })
}
