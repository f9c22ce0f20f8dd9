//! The smallest agent: it returns the parts of the message.

use sabir_engine::{Agent, Context, Ending, Execution, Failure, Recovery};

/// Answers every message with one artifact that has its parts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Echo;

impl Agent for Echo {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let parts = cx.message().parts.clone();
        cx.artifact("echo", parts).await?;
        Ok(Ending::complete())
    }

    fn execution(&self) -> Execution {
        Execution { instant: true, recovery: Recovery::Restart, ..Execution::default() }
    }
}
