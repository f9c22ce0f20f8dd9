//! An agent with its tests: `cargo test -p sabir --example testing`, or `cargo run -p sabir --example testing` to serve it.
//!
//! The agent asks how many copies to print and prints them one by one. After a crash it goes on with the copy it was at.

use sabir::{Agent, Context, Ending, Execution, Failure, Recovery, Service};
use std::time::Duration;

struct Printer;

impl Agent for Printer {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        if cx.before().is_none() {
            return Ok(Ending::ask_input("How many copies?"));
        }
        let copies: u8 = cx.message().joined_text().trim().parse()?;
        let printed = cx.checkpoint().and_then(|data| data.first().copied()).unwrap_or(0);
        for copy in printed + 1..=copies {
            cx.status(format!("printing copy {copy}")).await?;
            cx.sleep(Duration::from_secs(60)).await;
            cx.set_checkpoint(vec![copy]);
        }
        Ok(Ending::complete_with(format!("Printed {copies} copies.")))
    }

    fn execution(&self) -> Execution {
        Execution { recovery: Recovery::Resume, ..Execution::default() }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    sabir::init_logging();
    Service::from_env()?.agent("printer", Printer).serve().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir::testing::TestEngine;

    #[tokio::test]
    async fn it_prints_as_many_copies_as_it_is_told() {
        let engine = TestEngine::start(|| Printer).await;
        let asked = engine.send("please print").await;
        assert_eq!(asked.ending(), Ending::ask_input("How many copies?"));

        let printing = asked.begin_answer("2").await;
        // Nobody waits for two minutes in a test.
        assert!(engine.skip_sleep().await > Duration::from_secs(50));
        engine.skip_sleep().await;
        let printed = printing.finish().await;
        assert_eq!(printed.statuses(), ["printing copy 1", "printing copy 2"]);
        assert_eq!(printed.ending(), Ending::complete_with("Printed 2 copies."));
    }

    #[tokio::test]
    async fn what_is_no_number_fails_the_task() {
        let engine = TestEngine::start(|| Printer).await;
        let failed = engine.send("please print").await.answer("a few").await;
        assert_eq!(failed.ending(), Ending::fail("invalid digit found in string"));
    }

    #[tokio::test]
    async fn after_a_crash_it_goes_on_with_the_copy_it_was_at() {
        let engine = TestEngine::start(|| Printer).await;
        let mut printing = engine.send("please print").await.begin_answer("3").await;
        engine.skip_sleep().await;
        printing.until_status("printing copy 2").await;
        engine.crash().await;
        for _ in 0..2 {
            engine.skip_sleep().await;
        }
        let printed = printing.finish().await;
        let statuses = ["printing copy 1", "printing copy 2", "printing copy 2", "printing copy 3"];
        assert_eq!(printed.statuses(), statuses);
        assert_eq!(printed.ending(), Ending::complete_with("Printed 3 copies."));
    }

    #[tokio::test]
    async fn a_cancel_stops_the_printer() {
        let engine = TestEngine::start(|| Printer).await;
        let mut printing = engine.send("please print").await.begin_answer("200").await;
        printing.until_status("printing copy 1").await;
        let canceled = printing.cancel().await;
        assert_eq!(canceled.ending(), Ending::Cancel(Vec::new()));
        assert_eq!(canceled.statuses(), ["printing copy 1"]);
    }
}
