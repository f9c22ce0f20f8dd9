//! `sabir demo-server`.

use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{ErrorCode, Outcome, Problem};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use sabir_server::demo::{Access, Demo, Options, Token};
use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};

/// The token of the extended card unless another one is given.
const TEST_TOKEN: &str = "demo-token";

/// Run a local agent to practise on, in every dialect and binding, on one port.
///
/// The first word of a message says what the agent should do; its card lists them all. Nothing is kept: tasks live in
/// memory and end with the process. Ctrl-C stops it.
#[derive(Debug, Args)]
#[command(after_help = "Words that a message may begin with:\n  \
    echo, message, slow N, fail, reject, ask, auth [N], unspecified [N], files, files hostile, drop, 401,\n  \
    tenant, escape, big N, hold; anything else is said back.\n\n\
    Variables: SABIR_LOG sets the log filter (default: warn).")]
pub(crate) struct DemoServer {
    /// Address to listen on. One that other machines can reach needs --bearer-required=TOKEN.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// Port; 0 picks a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Serve only those who bring the test token; without a value it is `demo-token`.
    #[arg(long, value_name = "TOKEN", num_args = 0..=1, require_equals = true, default_missing_value = TEST_TOKEN, value_parser = Token::parse)]
    bearer_required: Option<Token>,
    /// Say in the card that the agent does not stream, and do not.
    #[arg(long)]
    no_streaming: bool,
    /// Sign the card with a key made for this run; its public half is at /.well-known/jwks.json.
    #[arg(long)]
    sign: bool,
    /// What to print once it listens: its address, or its agent card.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: DemoOutput,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DemoOutput {
    Text,
    Json,
}

impl Verb for DemoServer {
    fn run(self, _: Invocation) -> Outcome {
        let failed = |error: anyhow::Error| {
            Problem::new(ErrorCode::Vendor("SABIR_ERR_SERVE"), format!("{error:#}")).hint("sabir demo-server --help")
        };
        self.start().map_err(failed)?;
        Ok(Exit::Done)
    }
}

impl DemoServer {
    fn start(self) -> anyhow::Result<()> {
        sabir_server::init_logging("warn");
        let output = self.output;
        let options = self.options()?;
        let runtime = super::runtime().context("cannot start")?;
        runtime.block_on(serve(options, output))
    }

    fn options(self) -> anyhow::Result<Options> {
        let listen = resolve(&self.host, self.port)?;
        let access = if self.bearer_required.is_some() { Access::Bearer } else { Access::Open };
        let token = match self.bearer_required {
            Some(token) => token,
            None => Token::parse(TEST_TOKEN).map_err(anyhow::Error::msg)?,
        };
        // This token stands in the documentation, so it keeps no caller out.
        if !listen.ip().is_loopback() && token.reveal() == TEST_TOKEN {
            bail!(
                "{} is reachable from other machines; add --bearer-required=TOKEN with a token of your own",
                self.host
            );
        }
        Ok(Options { listen, streaming: !self.no_streaming, token, access, signed: self.sign })
    }
}

fn resolve(host: &str, port: u16) -> anyhow::Result<SocketAddr> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut found = (host, port).to_socket_addrs().with_context(|| format!("--host {host}"))?;
    found.next().with_context(|| format!("--host {host} has no address"))
}

async fn serve(options: Options, output: DemoOutput) -> anyhow::Result<()> {
    let token = options.token.clone();
    let demo = Demo::start(options).await?;
    // Before the address is printed: a stop may follow at once.
    let stop = sabir_server::stop_signal().context("cannot listen for signals")?;
    eprintln!("Test token: {}", token.reveal());
    // At once, and on one line: scripts wait for it.
    let mut stdout = std::io::stdout();
    match output {
        DemoOutput::Text => writeln!(stdout, "Listening: http://{}", demo.address())?,
        DemoOutput::Json => writeln!(stdout, "{}", demo.card())?,
    }
    stdout.flush()?;
    demo.run(stop).await;
    Ok(())
}
