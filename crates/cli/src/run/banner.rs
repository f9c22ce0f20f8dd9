//! What `sabir serve` says on standard error once it listens: the agents, where the tasks are, and what to type next.

use sabir_server::{AgentSummary, Summary};
use std::fmt::Write as _;

/// The banner, with a line end after each line.
pub(super) fn banner(summary: &Summary) -> String {
    let mut text = String::new();
    let reach = if summary.is_local { "this machine only" } else { "reachable from other machines" };
    let asks = match (summary.accepted.join(", "), summary.open_agents.join(", ")) {
        (accepted, open) if accepted.is_empty() && summary.is_production && !open.is_empty() => {
            "every call is refused".into()
        }
        (accepted, _) if accepted.is_empty() => "no credential needed".to_owned(),
        (accepted, open) if open.is_empty() => format!("credentials: {accepted}"),
        (accepted, open) => format!("credentials: {accepted}; none for {open}"),
    };
    line(&mut text, format_args!("Sabir {} on {} ({reach}; {asks})", env!("CARGO_PKG_VERSION"), summary.url));
    let width = |of: fn(&AgentSummary) -> &str| summary.agents.iter().map(|agent| of(agent).len()).max().unwrap_or(0);
    let (name, path) = (width(|agent| &agent.name), width(|agent| &agent.path));
    for agent in &summary.agents {
        line(
            &mut text,
            format_args!("  {:name$}  {:path$}  {}  {}", agent.name, agent.path, dialects(agent), agent.description),
        );
    }
    if summary.agents.is_empty() {
        line(&mut text, format_args!("  no agents yet; add one with: sabir agent add URL"));
    }
    match &summary.store {
        Some(path) => {
            let synced =
                if summary.is_synced { "synced to disk before each reply" } else { "not synced before replies" };
            line(&mut text, format_args!("Data: {} ({synced})", path.display()));
        }
        None => line(&mut text, format_args!("Data: in memory; it is lost when the server stops")),
    }
    line(&mut text, format_args!("Catalog: {}/catalog", summary.url));
    for note in &summary.notes {
        line(&mut text, format_args!("note: {note}"));
    }
    for warning in &summary.warnings {
        line(&mut text, format_args!("warning: {warning}"));
    }
    if let Some(agent) = summary.agents.first() {
        line(&mut text, format_args!("Try: sabir chat {}{}", summary.url, agent.path.trim_end_matches('/')));
    }
    text
}

/// The versions by binding: `JSONRPC 1.0 0.3, GRPC 1.0`.
fn dialects(agent: &AgentSummary) -> String {
    let mut bindings: Vec<(&str, Vec<&str>)> = Vec::new();
    for (version, binding) in agent.interfaces.iter().filter_map(|interface| interface.split_once(' ')) {
        match bindings.iter_mut().find(|(known, _)| *known == binding) {
            Some((_, versions)) => versions.push(version),
            None => bindings.push((binding, vec![version])),
        }
    }
    let bindings = bindings.iter().map(|(binding, versions)| format!("{binding} {}", versions.join(" ")));
    bindings.collect::<Vec<_>>().join(", ")
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    let written = writeln!(text, "{line}");
    debug_assert!(written.is_ok(), "writing to a string cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_reads_what_is_served_and_what_to_type_next() {
        let agent = |name: &str, path: &str| AgentSummary {
            name: name.into(),
            path: path.into(),
            description: "Says it back".into(),
            interfaces: vec!["1.0 JSONRPC".into(), "0.3 JSONRPC".into(), "1.0 GRPC".into()],
        };
        let summary = Summary {
            url: "http://127.0.0.1:4000".into(),
            is_local: true,
            agents: vec![agent("echo", "/"), agent("slow", "/agents/slow")],
            store: Some("sabir-data/sabir.db".into()),
            is_synced: true,
            accepted: Vec::new(),
            open_agents: vec!["echo".into(), "slow".into()],
            is_production: false,
            notes: vec!["--data replaces store.url".into()],
            warnings: vec!["x is wrong".into()],
        };
        let version = env!("CARGO_PKG_VERSION");
        let expected = format!(
            "Sabir {version} on http://127.0.0.1:4000 (this machine only; no credential needed)\n\
             \x20 echo  /             JSONRPC 1.0 0.3, GRPC 1.0  Says it back\n\
             \x20 slow  /agents/slow  JSONRPC 1.0 0.3, GRPC 1.0  Says it back\n\
             Data: sabir-data/sabir.db (synced to disk before each reply)\n\
             Catalog: http://127.0.0.1:4000/catalog\n\
             note: --data replaces store.url\n\
             warning: x is wrong\n\
             Try: sabir chat http://127.0.0.1:4000\n"
        );
        assert_eq!(banner(&summary), expected);
    }
}
