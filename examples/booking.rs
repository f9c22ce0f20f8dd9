//! An agent with a question, progress, and work that survives a crash: `cargo run -p sabir --example booking`.
//!
//! Kill it in the middle of a booking and start it again: it goes on with the table it was at, because each step leaves
//! a checkpoint.

use sabir::{Agent, Context, Ending, Execution, Failure, Part, Recovery, Service};
use std::time::Duration;

struct Booking;

const TABLES: [&str; 3] = ["by the window", "in the garden", "at the bar"];

impl Agent for Booking {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        // The first turn asks; the answer begins the second.
        if cx.before().is_none() {
            return Ok(Ending::ask_input("For which day?"));
        }
        let day = cx.message().joined_text();
        let tried = cx.checkpoint().and_then(|data| data.first().copied()).unwrap_or(0);
        for (number, table) in TABLES.iter().enumerate().skip(usize::from(tried)) {
            cx.status(format!("trying the table {table}")).await?;
            cx.set_checkpoint(vec![u8::try_from(number)? + 1]);
            cx.sleep(Duration::from_millis(300)).await;
        }
        cx.artifact("booking", vec![Part::text(format!("a table {} on {day}", TABLES[TABLES.len() - 1]))]).await?;
        Ok(Ending::complete_with("Booked."))
    }

    fn execution(&self) -> Execution {
        Execution { recovery: Recovery::Resume, ..Execution::default() }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    sabir::init_logging();
    Service::from_env()?.agent("booking", Booking).serve().await?;
    Ok(())
}
