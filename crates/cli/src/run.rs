//! Commands that run something.

mod banner;
pub(crate) mod demo;
pub(crate) mod init;
pub(crate) mod serve;

use tokio::runtime::{Builder, Runtime};

/// The stack size of a thread. One poll may go from the socket down to the call of a remote agent, and the stack frames
/// of a debug build are large. Unused stack costs nothing.
const STACK_BYTES: usize = 8 << 20;

/// Builds the multi-threaded runtime of a server.
pub(crate) fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().thread_stack_size(STACK_BYTES).enable_all().build()
}
