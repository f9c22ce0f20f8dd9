//! A text to any agent, a text back: `cargo run -p sabir --example call_agent -- URL TEXT`.
//!
//! The agent may speak any dialect. Options: `--api-key-env NAME`, `--secret-env NAME`
//! (agent-native), `--user-email E`, `--org-domain D`, `--blocking`,
//! `--public-only` (refuse agents on private networks).

use sabir::client::{CallOptions, Egress, Secret, call_agent};
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(url), Some(text)) = (words.next(), words.next()) else {
        return Err("usage: call_agent URL TEXT [--api-key-env NAME] [--user-email E] [--org-domain D]".into());
    };
    let mut options = CallOptions { egress: Egress::anywhere(), ..CallOptions::default() };
    while let Some(option) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{option} wants a value"));
        match option.as_str() {
            // A key on a command line can be read by everyone on the machine; the name of a variable cannot be abused.
            "--api-key-env" => options.api_key = Some(Secret::new(std::env::var(value()?)?)),
            "--secret-env" => options.shared_secret = Some(Secret::new(std::env::var(value()?)?)),
            "--user-email" => options.user_email = Some(value()?),
            "--org-domain" => options.org_domain = Some(value()?),
            "--blocking" => options.blocking = true,
            "--public-only" => options.egress = Egress::public(),
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    println!("{}", call_agent(&url, &text, &options).await?);
    Ok(())
}
