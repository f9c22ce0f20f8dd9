//! `sabir convert`.

use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::input::read_text;
use crate::problem::{ErrorCode, Outcome, Problem};
use anyhow::Context;
use clap::Args;
use sabir_wire::{Dialect, Losses, TextKind, convert};
use std::path::{Path, PathBuf};

/// Largest text that is read, in bytes: as much as a server takes.
const INPUT_BYTES_MAX: u64 = 16 << 20;

/// Translate a message from one dialect of A2A into another, offline.
///
/// Reads one JSON text from a file or from standard input, and writes its translation to standard output. What the other dialect cannot
/// carry is listed on standard error, one line each.
#[derive(Debug, Args)]
#[command(after_help = "Dialects: 1.0, 0.3, 0.2, 0.1, agent-native, xpr\n\n\
    Examples:\n  \
    sabir convert --from 0.3 --to 1.0 request.json\n  \
    sabir convert --from 1.0 --to 0.1 --kind event < event.json\n  \
    curl -s https://agent.example.com/.well-known/agent.json | sabir convert --from 0.3 --to 1.0 --kind card")]
pub(crate) struct Convert {
    /// The dialect of the input.
    #[arg(long, value_name = "DIALECT")]
    from: Dialect,
    /// The dialect of the output.
    #[arg(long, value_name = "DIALECT")]
    to: Dialect,
    /// What the input is: request, reply, event, card or error; without it, what it looks like.
    #[arg(long, value_name = "KIND")]
    kind: Option<TextKind>,
    /// The file to translate; standard input if there is none, or if it is `-`.
    file: Option<PathBuf>,
}

impl Verb for Convert {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let output = self.translate().map_err(|error| {
            Problem::new(ErrorCode::Vendor("SABIR_ERR_CONVERT"), format!("{error:#}")).hint("sabir convert --help")
        })?;
        out.payload(&(output + "\n"))?;
        Ok(Exit::Done)
    }
}

impl Convert {
    fn translate(self) -> anyhow::Result<String> {
        let file = self.file.as_deref().unwrap_or(Path::new("-"));
        let input = read_text(file, INPUT_BYTES_MAX).map_err(anyhow::Error::msg)?;
        let kind = match self.kind {
            Some(kind) => kind,
            None => TextKind::of(&input).context("cannot tell what the input is; --kind says it")?,
        };
        // Named one after the other, so that the same input gives the same output.
        let mut minted = 0;
        let mut mint = || {
            minted += 1;
            sabir_proto::MessageId::parse(&format!("converted-{minted}")).expect("a legal id")
        };
        let mut losses = Losses::new();
        let outcome = convert(self.from, self.to, kind, &input, &mut mint, &mut losses);
        let output = outcome
            .with_context(|| format!("cannot translate this {} from {} to {}", kind.name(), self.from, self.to))?;
        for loss in losses.notes() {
            eprintln!("lost: {loss}");
        }
        if losses.omitted() > 0 {
            eprintln!("lost: {} more", losses.omitted());
        }
        Ok(output)
    }
}
