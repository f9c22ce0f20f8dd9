//! `sabir org …`: organisations whose tokens are signed with a secret of their own.

use super::{ServerFiles, wait};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{ErrorCode, Outcome, Problem};
use clap::Args;
use sabir_server::admin::{Domain, Expect, Organisation, SecretRef};
use serde_json::{Value, json};

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
    server: ServerFiles,
}

impl Verb for OrgAdd {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let domain = parse_domain(&self.domain)?;
        let wrong = |what: String| Problem::usage(format!("--secret: {what}")).hint("sabir org add --help");
        let secret = match SecretRef::parse(&self.secret).map_err(|fault| wrong(fault.to_string()))? {
            // The server runs somewhere else, so a path counts from where it was typed.
            SecretRef::File(path) => {
                SecretRef::File(std::path::absolute(path).map_err(|error| wrong(error.to_string()))?)
            }
            named @ SecretRef::Env(_) => named,
        };
        match &secret {
            SecretRef::File(path) if !path.is_file() => {
                out.warn(&format!("there is no file {}; its tokens are refused until there is one", path.display()));
            }
            SecretRef::Env(name) if std::env::var_os(name).is_none() => {
                out.note(&format!("{name} is not set here; the server needs it when it starts"));
            }
            _ => {}
        }
        let admin = self.server.open(Expect::Any)?;
        let replaced = wait(admin.add_organisation(domain.clone(), secret.clone()))?;
        out.note(&format!("Store: {}", admin.path().display()));
        if out.is_json() {
            let replaced = replaced.map(|old| old.secret.to_string());
            let said = json!({"domain": domain.as_str(), "secret": secret.to_string(), "replaced": replaced});
            out.document(&said.to_string())?;
            return Ok(Exit::Done);
        }
        out.text(|fields| {
            fields.field("Domain", domain.as_str());
            fields.field("Secret", &secret.to_string());
            fields.maybe("Replaced", replaced.map(|old| old.secret.to_string()).as_deref());
        })?;
        Ok(Exit::Done)
    }
}

/// List the organisations.
#[derive(Debug, Args)]
pub(crate) struct OrgList {
    #[command(flatten)]
    server: ServerFiles,
}

impl Verb for OrgList {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let all = wait(self.server.open(Expect::Existing)?.organisations())?;
        if out.is_json() {
            let all: Vec<Value> = all.iter().map(organisation_json).collect();
            out.document(&json!({"organisations": all}).to_string())?;
            return Ok(Exit::Done);
        }
        out.text(|fields| {
            for one in &all {
                fields.field("Domain", one.domain.as_str());
                fields.field("Secret", &one.secret.to_string());
                fields.field("Added", &one.added_at.to_string());
            }
            fields.field("Total", &all.len().to_string());
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
    server: ServerFiles,
}

impl Verb for OrgRemove {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let domain = parse_domain(&self.domain)?;
        let removed = wait(self.server.open(Expect::Existing)?.remove_organisation(domain.clone()))?;
        let Some(removed) = removed else {
            let unknown = format!("there is no organisation {domain}");
            let problem = Problem::new(ErrorCode::Vendor("SABIR_ERR_UNKNOWN_ORGANISATION"), unknown);
            return Err(problem.hint("sabir org list shows all of them").into());
        };
        if out.is_json() {
            out.document(&organisation_json(&removed).to_string())?;
        }
        out.text(|fields| fields.field("Removed", removed.domain.as_str()))?;
        Ok(Exit::Done)
    }
}

fn parse_domain(text: &str) -> Result<Domain, Problem> {
    let wrong = || Problem::usage(format!("{text:?} is no domain, such as example.com"));
    Domain::parse(text).ok_or_else(|| wrong().hint("sabir org --help"))
}

fn organisation_json(one: &Organisation) -> Value {
    json!({"domain": one.domain.as_str(), "secret": one.secret.to_string(), "addedAt": one.added_at})
}
