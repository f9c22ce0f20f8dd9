//! The agent that plays the scenarios.

use super::authorisations::DelayedAuthorisation;
use super::control::{DemoControl, InjectedFault};
use super::samples;
use super::scenario::Scenario;
use sabir_engine::{Agent, Context, Ending, Execution, Failure, Recovery};
use sabir_proto::{Artifact, ArtifactId, Part};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// The time between two progress reports: short enough to look live, long enough to be read.
const PACE: Duration = Duration::from_millis(500);
/// Longest work that may be asked for, in seconds.
const SECONDS_MAX: f64 = 3600.0;
/// Largest artifact that may be asked for, in KiB. The server holds a task in memory while its agent runs.
const KIB_MAX: usize = 16 << 10;
/// Chunks of `drop`, and the one that gets lost.
const DROP_CHUNKS: u32 = 8;
const DROP_AT: u32 = 3;

/// Plays the scenario that a message asks for.
pub(super) struct DemoAgent {
    pub(super) control: Arc<DemoControl>,
}

impl Agent for DemoAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let said = cx.message().joined_text();
        if cx.before().is_some() {
            cx.artifact("reply", cx.message().parts.clone()).await?;
            return Ok(Ending::complete_with("Thank you, that is all I needed."));
        }
        let mut words = said.split_whitespace();
        let scenario = Scenario::named(words.next().unwrap_or(""));
        self.play(cx, scenario, words.next()).await
    }

    fn execution(&self) -> Execution {
        // Instant, or a direct reply would be a task first. An injected fault does no harm if its task is never
        // committed.
        Execution { instant: true, recovery: Recovery::Fail, ..Execution::default() }
    }
}

impl DemoAgent {
    async fn play(&self, cx: &Context, scenario: Scenario, word: Option<&str>) -> Result<Ending, Failure> {
        let seconds = |usual: f64, range: RangeInclusive<f64>| number(word, usual, range).map(Duration::from_secs_f64);
        Ok(match scenario {
            Scenario::Echo => {
                cx.artifact("echo", cx.message().parts.clone()).await?;
                Ending::complete()
            }
            Scenario::Message => Ending::reply("This is a message. There is no task."),
            Scenario::Slow => slow(cx, seconds(3.0, 0.0..=SECONDS_MAX)?).await?,
            Scenario::Fail => Ending::fail("This failed, as it was asked to."),
            Scenario::Reject => Ending::reject("This is not wanted, as it was asked for."),
            Scenario::Ask => Ending::ask_input("What is your favourite colour?"),
            Scenario::Auth => {
                let after = word.map(|_| seconds(0.0, 1.0..=SECONDS_MAX)).transpose()?;
                self.ask_auth(cx, after)
            }
            Scenario::Unspecified => self.unspecified(cx, seconds(3.0, 0.0..=SECONDS_MAX)?).await?,
            Scenario::Files => {
                let hostile = word.is_some_and(|word| word.eq_ignore_ascii_case("hostile"));
                let files = if hostile { samples::hostile() } else { samples::files(self.control.base()) };
                for artifact in files {
                    cx.chunk(artifact, false, true).await?;
                }
                Ending::complete()
            }
            Scenario::Drop => self.broken_stream(cx).await?,
            Scenario::Refused => {
                // The interceptor recognises the answer by these words and refuses it.
                self.control.inject(InjectedFault::Refuse, cx.turn_id());
                Ending::reply(format!("refused: {}", cx.turn_id()))
            }
            Scenario::Tenant => {
                let tenant = cx.tenant();
                let known = if tenant.is_none() { "no tenant".into() } else { format!("tenant: {}", tenant.as_str()) };
                cx.artifact("tenant", vec![Part::text(known)]).await?;
                Ending::complete()
            }
            Scenario::Escape => {
                cx.artifact("escape", vec![Part::text(samples::ESCAPES)]).await?;
                Ending::complete_with(samples::ESCAPES)
            }
            Scenario::Big => {
                let kib = number(word, 64, 1..=KIB_MAX)?;
                cx.artifact("big", vec![Part::text(samples::text_of_kib(kib))]).await?;
                Ending::complete()
            }
            Scenario::Hold => {
                cx.status("working until I am cancelled").await?;
                loop {
                    cx.sleep(Duration::from_secs(3600)).await;
                }
            }
            Scenario::Secret => Ending::complete_with("You have read the extended card."),
        })
    }

    fn ask_auth(&self, cx: &Context, after: Option<Duration>) -> Ending {
        let Some(after) = after else {
            return Ending::ask_auth("Please authorise this. A reply will do.");
        };
        self.control.authorise_later(DelayedAuthorisation { task: cx.task_id(), tenant: cx.tenant().clone(), after });
        let seconds = after.as_secs_f64();
        Ending::ask_auth(format!(
            "Please authorise this. It is authorised elsewhere in {seconds} s; a reply will do, too."
        ))
    }

    async fn unspecified(&self, cx: &Context, time: Duration) -> Result<Ending, Failure> {
        let wish = self.control.inject_while(InjectedFault::Blur, cx.task_id().to_string());
        cx.status("who knows").await?;
        cx.sleep(time).await;
        drop(wish);
        Ok(Ending::complete_with("Now it is certain."))
    }

    async fn broken_stream(&self, cx: &Context) -> Result<Ending, Failure> {
        cx.status("this stream will break once").await?;
        // Held to the end: a stream that opens late breaks as well, if no other has broken.
        let mut wish = None;
        for n in 1..=DROP_CHUNKS {
            cx.sleep(PACE).await;
            if n == DROP_AT {
                wish = Some(self.control.inject_while(InjectedFault::Cut, cx.task_id().to_string()));
            }
            piece(cx, n, DROP_CHUNKS).await?;
        }
        drop(wish);
        Ok(Ending::complete_with("A client that came back has missed nothing."))
    }
}

async fn slow(cx: &Context, time: Duration) -> Result<Ending, Failure> {
    let pieces = u32::try_from(time.as_millis().div_ceil(PACE.as_millis())).unwrap_or(u32::MAX).max(1);
    cx.status("working").await?;
    for n in 1..=pieces {
        cx.sleep(time / pieces).await;
        piece(cx, n, pieces).await?;
    }
    Ok(Ending::complete_with(format!("Done after {} s.", time.as_secs_f64())))
}

/// One of the chunks that an artifact grows by.
async fn piece(cx: &Context, n: u32, of: u32) -> Result<(), Failure> {
    let id = ArtifactId::parse("progress")?;
    cx.chunk(Artifact::new(id, vec![Part::text(format!("{n} of {of}\n"))]), n > 1, n == of).await?;
    Ok(())
}

/// A number that may follow the first word.
fn number<N>(word: Option<&str>, usual: N, range: RangeInclusive<N>) -> Result<N, Failure>
where
    N: FromStr + PartialOrd + fmt::Display,
{
    let Some(word) = word else { return Ok(usual) };
    let shown: String = word.chars().filter(|c| !c.is_control()).take(32).collect();
    let wrong = || Failure(format!("{shown:?} is not a number from {} to {}", range.start(), range.end()));
    word.parse().ok().filter(|number| range.contains(number)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_one_within_its_range_or_the_usual_one() {
        let check = |word| number(word, 3.0, 0.0..=10.0).ok();
        assert_eq!(check(None), Some(3.0));
        assert_eq!((check(Some("2")), check(Some("0.5")), check(Some("10"))), (Some(2.0), Some(0.5), Some(10.0)));
        assert_eq!(number(Some("2.5"), 3, 0..=10).ok(), None);
        for wrong in ["", "ten", "-1", "10.1", "NaN", "inf", "1s"] {
            assert_eq!(check(Some(wrong)), None, "{wrong}");
        }
    }
}
