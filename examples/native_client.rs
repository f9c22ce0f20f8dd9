//! Discovery, a message and a stream with an agent-native agent:
//! `cargo run -p sabir --example native_client -- URL [KEY-VARIABLE]`.

use sabir::client::{Client, Credentials, Egress, FollowOptions, PollSchedule, Secret, VersionPolicy, text_message};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let url = words.next().ok_or("usage: native_client URL [KEY-VARIABLE]")?;
    let key = words.next().map(std::env::var).transpose()?.map(Secret::new);
    let client = Client::builder()
        .egress(Egress::anywhere())
        .version(VersionPolicy::Any)
        .credentials(Credentials { bearer: key, ..Credentials::default() })
        .build()?;

    // Discover what it can do.
    let agent = client.connect(&url.parse()?).await?;
    for skill in &agent.card().skills {
        println!("skill: {}", skill.name);
    }

    // A message, and the task it came to.
    let outcome =
        agent.send_and_wait(text_message("Show signups by source this month"), PollSchedule::default()).await?.value;
    println!("success: {}", outcome.is_success());
    println!("reply: {}", outcome.text());

    // The same as it happens.
    let mut events = agent.stream(text_message("Generate a full quarterly report"), FollowOptions::default()).await?;
    while let Some(event) = events.next().await {
        if let Some(state) = event?.value.state() {
            println!("state: {state}");
        }
    }
    Ok(())
}
