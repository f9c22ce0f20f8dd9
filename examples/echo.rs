//! The smallest agent: `cargo run -p sabir --example echo`, then talk to http://127.0.0.1:4000.
//! Ctrl-C stops it.

use sabir::{Agent, Context, Ending, Failure, Service};

struct Echo;

impl Agent for Echo {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let parts = cx.message().parts.clone();
        cx.artifact("echo", parts).await?;
        Ok(Ending::complete())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    sabir::init_logging();
    Service::from_env()?.agent("echo", Echo).serve().await?;
    Ok(())
}
