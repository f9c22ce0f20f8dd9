//! Commands that run something.

mod banner;
pub(crate) mod demo;
pub(crate) mod init;
pub(crate) mod serve;

use tokio::runtime::{Builder, Runtime};

/// Stack of a thread. A request is polled from its socket down to the call of an agent elsewhere in one go, and in a debug
/// build nothing of that is laid out with care. What is not used costs nothing.
const STACK_BYTES: usize = 8 << 20;

/// Threads to serve with.
pub(crate) fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().thread_stack_size(STACK_BYTES).enable_all().build()
}
