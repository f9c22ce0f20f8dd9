//! `sabir init`: a configuration of a few lines that works at once.

use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{ErrorCode, Outcome, Problem};
use crate::render::shell;
use clap::Args;
use sabir_proto::AgentName;
use sabir_server::Config;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

/// Write a small sabir.toml that works at once, for `sabir serve`.
///
/// Without further options the agent says back what it hears. A file that is there already is kept unless --force is
/// given.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir init --exec 'python3 bot.py'\n  \
    sabir init --openai https://api.openai.com/v1 --model gpt-4o\n  \
    sabir init --a2a https://agent.example --name ledger\n  \
    sabir init && sabir serve")]
pub(crate) struct Init {
    /// The agent runs this command for every message.
    #[arg(long, value_name = "CMD", group = "agent")]
    exec: Option<String>,
    /// The agent asks a model behind this OpenAI-compatible URL; its key is read from OPENAI_API_KEY.
    #[arg(long, value_name = "URL", group = "agent", requires = "model")]
    openai: Option<String>,
    /// Which model, for --openai.
    #[arg(long, value_name = "MODEL", requires = "openai")]
    model: Option<String>,
    /// The agent is elsewhere, in any version of A2A, and is served here behind the log.
    #[arg(long, value_name = "URL", group = "agent")]
    a2a: Option<String>,
    /// The name of the agent, which is also its path: /agents/<name>.
    #[arg(long, value_name = "NAME", default_value = "assistant")]
    name: String,
    /// The file to write.
    #[arg(value_name = "FILE", default_value = "sabir.toml")]
    file: PathBuf,
    /// Overwrite the file if it is there already.
    #[arg(long)]
    force: bool,
}

impl Verb for Init {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        AgentName::parse(&self.name)
            .map_err(|fault| Problem::usage(format!("--name: the name {fault}")).hint("sabir init --help"))?;
        let text = self.text();
        // The server reads it before it is written: what it refuses is told here.
        Config::read(&text).map_err(|error| Problem::usage(error.to_string()).hint("sabir init --help"))?;
        let place = self.file.display();
        let mut options = OpenOptions::new();
        options.write(true);
        match self.force {
            true => options.create(true).truncate(true),
            false => options.create_new(true),
        };
        let written = options.open(&self.file).and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                Problem::new(ErrorCode::Vendor("SABIR_ERR_EXISTS"), format!("{place} is there already"))
                    .hint("--force overwrites it; sabir init other.toml writes another file")
            }
            _ => Problem::internal(format!("cannot write {place}: {error}")),
        })?;
        out.text(|fields| {
            fields.field("Written", &place.to_string());
            fields.field("Next", &self.next());
            fields.field("Then", "sabir chat http://127.0.0.1:4000");
        })?;
        Ok(Exit::Done)
    }
}

impl Init {
    /// Makes the line with the key a comment where the model runs on this machine: it asks for none.
    fn key_mark(&self) -> &'static str {
        let local = ["://127.", "://localhost", "://[::1]"];
        let is_local = self.openai.as_deref().is_some_and(|url| local.iter().any(|host| url.contains(host)));
        if is_local { "# " } else { "" }
    }

    /// The command that serves it.
    fn next(&self) -> String {
        let key = if self.openai.is_some() && self.key_mark().is_empty() { "OPENAI_API_KEY=… " } else { "" };
        match self.file.to_str() {
            Some("sabir.toml") => format!("{key}sabir serve"),
            other => format!("{key}sabir serve --config {}", shell(other.unwrap_or("FILE"))),
        }
    }

    fn text(&self) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let name = quoted(&self.name);
        let (agent, about) = match (&self.exec, &self.openai, &self.a2a) {
            (Some(command), _, _) => (
                format!(
                    "kind = \"exec\"                  # the command gets the message on stdin and answers on stdout\n\
                     command = {}\n",
                    quoted(command)
                ),
                "Runs a command for every message",
            ),
            (_, Some(url), _) => (
                format!(
                    "kind = \"openai\"\nurl = {}\n{}bearer = \"env:OPENAI_API_KEY\"\n",
                    quoted(url),
                    self.key_mark()
                ),
                "Answers with a model",
            ),
            (_, _, Some(url)) => (
                format!("kind = \"a2a\"                   # an agent elsewhere, 1.0 or older\nurl = {}\n", quoted(url)),
                "",
            ),
            (None, None, None) => (
                "kind = \"echo\"                  # exec, http, openai, a2a and dispatch do real work\n".into(),
                "Says back what it hears",
            ),
        };
        let openai = match &self.model {
            Some(model) => format!(
                "[agent.openai]\nmodel = {}\nsystem = \"You are a helpful assistant. Be brief.\"\n",
                quoted(model)
            ),
            None => String::new(),
        };
        // The card of an agent elsewhere is its own.
        let card = match about {
            "" => String::new(),
            about => format!("[agent.card]\ndescription = {}   # other agents choose by this\n", quoted(about)),
        };
        format!(
            "# For `sabir serve`. sabir.example.toml has every option with its default.\n\
             [server]\n\
             listen = \"127.0.0.1:4000\"        # this machine only\n\
             # public_url = \"https://agents.example.com\"\n\n\
             [store]\n\
             url = \"sqlite:sabir-data/sabir.db\"   # tasks survive a crash\n\n\
             # [auth]                         # who may call; sabir key create makes keys\n\
             # accept = [\"api_key\"]\n\n\
             [[agent]]\n\
             name = {name}             # served at /agents/<name> …\n\
             default = true                 # … and at /\n\
             {agent}{openai}{card}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    fn init(arguments: &[&str]) -> Init {
        let command = Init::augment_args(Command::new("init"));
        Init::from_arg_matches(&command.get_matches_from([&["init"], arguments].concat())).unwrap()
    }

    #[test]
    fn every_variant_is_a_configuration_that_the_server_reads() {
        for arguments in [
            &[][..],
            &["--exec", "python3 \"my bot.py\""],
            &["--openai", "https://api.example/v1", "--model", "m"],
            &["--a2a", "https://agent.example", "--name", "ledger"],
        ] {
            let text = init(arguments).text();
            let config = Config::read(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(config.agent.len(), 1, "{text}");
        }
        assert_eq!(init(&["other.toml"]).next(), "sabir serve --config other.toml");
    }
}
