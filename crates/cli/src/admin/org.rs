//! `sabir org …`: organisations whose tokens are signed with a secret of their own.

use super::{ServerTarget, print_json};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::output::Output;
use crate::problem::{Outcome, Problem};
use clap::Args;
use sabir_server::admin::{AddOrganisation, ListOrganisations, RemoveOrganisation, SecretRef};

/// Take tokens of an organisation, signed with a secret of its own.
///
/// What is kept is where the secret is found, never the secret: an environment variable of the server, or a file that it
/// can read. For a domain that is there already, the new place replaces the old one.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir org add example.com --secret env:EXAMPLE_A2A_SECRET\n  \
    sabir org add example.com --secret file:/run/secrets/example")]
pub(crate) struct OrgAdd {
    /// The domain of the organisation.
    domain: String,
    /// Where its secret is found: env:NAME or file:PATH.
    #[arg(long, value_name = "REFERENCE")]
    secret: String,
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for OrgAdd {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let wrong = |what: String| Problem::usage(format!("--secret: {what}")).hint("sabir org add --help");
        let secret = match SecretRef::parse(&self.secret).map_err(|fault| wrong(fault.to_string()))? {
            // A server elsewhere has other files.
            named if self.server.is_remote() => named,
            // The server runs in another directory, so a path counts from where it was typed.
            SecretRef::File(path) => {
                SecretRef::File(std::path::absolute(path).map_err(|error| wrong(error.to_string()))?)
            }
            named @ SecretRef::Env(_) => named,
        };
        if !self.server.is_remote() {
            tell_of_missing(&out, &secret);
        }
        let added = self.server.ask(AddOrganisation { domain: self.domain, secret: secret.to_string() })?;
        self.server.note_store(&out)?;
        print_json(&out, &added)?;
        out.text(|fields| {
            fields.field("Domain", &added.domain);
            fields.field("Secret", &added.secret);
            fields.maybe("Replaced", added.replaced.as_deref());
        })?;
        Ok(Exit::Done)
    }
}

/// Says where a secret cannot be read from here.
fn tell_of_missing(out: &Output, secret: &SecretRef) {
    match secret {
        SecretRef::File(path) if !path.is_file() => {
            out.warn(&format!("there is no file {}; its tokens are refused until there is one", path.display()));
        }
        SecretRef::Env(name) if std::env::var_os(name).is_none() => {
            out.note(&format!("{name} is not set here; the server needs it when it starts"));
        }
        _ => {}
    }
}

/// List the organisations.
#[derive(Debug, Args)]
pub(crate) struct OrgList {
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for OrgList {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let list = self.server.ask(ListOrganisations {})?;
        print_json(&out, &list)?;
        out.text(|fields| {
            for one in &list.organisations {
                fields.field("Domain", &one.domain);
                fields.field("Secret", &one.secret);
                fields.field("Added", &one.added_at.to_string());
            }
            fields.field("Total", &list.organisations.len().to_string());
        })?;
        Ok(Exit::Done)
    }
}

/// Take no more tokens of an organisation.
#[derive(Debug, Args)]
pub(crate) struct OrgRemove {
    /// The domain of the organisation.
    domain: String,
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for OrgRemove {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let removed = self.server.ask(RemoveOrganisation { domain: self.domain })?;
        print_json(&out, &removed)?;
        out.text(|fields| fields.field("Removed", &removed.domain))?;
        Ok(Exit::Done)
    }
}
