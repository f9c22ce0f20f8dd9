//! Warnings about settings that are legal and probably wrong.
//!
//! `sabir config check` prints these warnings, and `sabir serve` logs them at start. An agent that is added at run time
//! may make a name known later, so an unknown name is a warning and not an error. An unknown fallback is an error in
//! `sabir config check`: no call needs it before the upstream fails, and then the task fails too.

use super::agent::{AgentConfig, Kind};
use super::{Config, booking};
use sabir_guard::config::{AcceptedCredential, AuthConfig};
use std::collections::BTreeSet;

impl Config {
    /// The warnings, each a sentence that names the keys.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        self.warn_of_open_access(&mut warnings);
        self.warn_of_unused_auth(&mut warnings);
        self.warn_of_addresses(&mut warnings);
        for agent in &self.agent {
            self.warn_of_names(agent, &mut warnings);
        }
        warnings.extend(self.unknown_fallbacks());
        warnings
    }

    /// The fallbacks that name an agent which this file does not have, each in a sentence.
    pub(crate) fn unknown_fallbacks(&self) -> Vec<String> {
        let of_agent = |agent: &AgentConfig| {
            let own = agent.fallback.as_ref().map(|to| ("fallback", to.clone()));
            let dispatch = agent.dispatch.as_ref().and_then(|dispatch| dispatch.fallback.as_ref());
            let unknown = own.into_iter().chain(dispatch.map(|to| ("dispatch.fallback", to.clone())));
            // The agent of the booking network is there without a section of its own.
            let is_known = |to: &str| {
                self.agent.iter().any(|one| one.name == to) || (self.network.is_some() && to == booking::AGENT)
            };
            let unknown = unknown.filter(move |(_, to)| !is_known(to));
            let name = agent.name.clone();
            unknown.map(move |(key, to)| format!("agent {name:?}: {key} names {to:?}, and this file has no such agent"))
        };
        self.agent.iter().flat_map(of_agent).collect()
    }

    /// Whether an agent accepts API keys.
    pub fn accepts_api_keys(&self) -> bool {
        self.is_accepted(AcceptedCredential::ApiKey)
    }

    /// Whether `[auth]` or an `[agent.auth]` accepts credentials of a kind.
    fn is_accepted(&self, accept: AcceptedCredential) -> bool {
        let own = self.agent.iter().filter_map(|agent| agent.auth.as_ref());
        std::iter::once(&self.auth).chain(own).any(|auth| auth.accepted().contains(&accept))
    }

    /// The names of the agents that ask for no credential.
    pub(crate) fn open_agents(&self) -> impl Iterator<Item = &str> {
        self.agent.iter().filter(|agent| self.auth_of(agent).is_open()).map(|agent| agent.name.as_str())
    }

    /// The authentication that applies to an agent.
    fn auth_of<'a>(&'a self, agent: &'a AgentConfig) -> &'a AuthConfig {
        agent.auth.as_ref().unwrap_or(&self.auth)
    }

    fn warn_of_open_access(&self, warnings: &mut Vec<String>) {
        let open: Vec<&str> = self.open_agents().collect();
        if open.is_empty() {
            return;
        }
        if self.is_production() {
            warnings.push(format!(
                "production refuses every call to {}, because nothing in [auth] says which credentials are accepted; write \
                 accept = [\"api_key\"] there and make a key with: sabir key create",
                list(&open)
            ));
        } else if self.reachable_by().is_some() {
            let url = self.server.public_url.clone().unwrap_or_else(|| self.server.listen.to_string());
            warnings.push(format!(
                "anyone who can reach {url} can call {}, and read and cancel a task whose id they have; write accept = \
                 [\"api_key\"] in [auth]",
                list(&open)
            ));
        }
    }

    fn warn_of_unused_auth(&self, warnings: &mut Vec<String>) {
        let counts_keys =
            !self.limits.tier.is_empty() || self.limits.caller.iter().any(|one| one.name.starts_with("key:"));
        if counts_keys && !self.accepts_api_keys() {
            warnings.push(
                "[limits] has limits for API keys, and no agent accepts API keys; write accept = [\"api_key\"] in [auth]".into(),
            );
        }
        let sections = [
            (AcceptedCredential::Jwt, self.auth.jwt.is_some()),
            (AcceptedCredential::LegacyKey, self.auth.legacy_key.is_some()),
            (AcceptedCredential::Basic, self.auth.basic.is_some()),
            (AcceptedCredential::Mtls, self.auth.mtls.is_some()),
            (AcceptedCredential::Xpr, self.auth.xpr.is_some()),
        ];
        for (accept, is_given) in sections {
            if is_given && !self.is_accepted(accept) {
                let name = accept.name();
                warnings
                    .push(format!("[auth.{name}] has no effect, because accept in [auth] does not name \"{name}\""));
            }
        }
    }

    fn warn_of_addresses(&self, warnings: &mut Vec<String>) {
        let listen = self.server.listen;
        if self.server.public_url.is_none() && listen.ip().is_unspecified() {
            warnings.push(format!(
                "cards say that this server is at {listen}, where callers on other machines do not find it; set public_url in \
                 [server]"
            ));
        }
        if self.store.url == "memory:" {
            warnings.push("store.url is memory:, so all tasks are lost when the server stops".into());
        }
        for agent in self.agent.iter().filter(|agent| agent.kind == Kind::A2a) {
            if let Some(url) = agent.url.as_deref().filter(|url| !url.contains("://")) {
                let name = &agent.name;
                warnings.push(format!(
                    "agent {name:?}: url = {url:?} names no scheme; write https://{url}, or http://{url}"
                ));
            }
        }
    }

    /// Warns of named agents that this file does not have, and of tools without a description.
    fn warn_of_names(&self, agent: &AgentConfig, warnings: &mut Vec<String>) {
        let name = &agent.name;
        let find = |wanted: &str| self.agent.iter().find(|one| one.name == wanted);
        let tools = agent.openai.as_ref().map(|openai| openai.tools.agents.as_slice()).unwrap_or_default();
        let choices = agent.dispatch.as_ref().map(|dispatch| dispatch.agents.as_slice()).unwrap_or_default();
        let targets = agent.handoff.as_ref().map(|handoff| handoff.targets.as_slice()).unwrap_or_default();
        let mentions: Vec<String> = agent.mentions.iter().map(|mention| mention.agent().to_owned()).collect();
        let named = [
            ("openai.tools.agents", tools),
            ("dispatch.agents", choices),
            ("handoff.targets", targets),
            ("mentions", &mentions),
            ("delegates_to", &agent.delegates_to),
        ];
        for (key, names) in named {
            let unknown: BTreeSet<&str> =
                names.iter().map(String::as_str).filter(|name| *name != "*" && find(name).is_none()).collect();
            if !unknown.is_empty() {
                let unknown = list(&unknown.into_iter().collect::<Vec<_>>());
                warnings.push(format!("agent {name:?}: {key} names {unknown}, and this file has no such agent"));
            }
        }
        for tool in tools.iter().filter_map(|tool| find(tool)) {
            // The card of a remote agent brings its own description.
            if tool.kind != Kind::A2a && tool.card.description.is_none() && tool.card.skills.is_empty() {
                warnings.push(format!(
                    "agent {:?} is a tool of {name:?} and has no description, so the model does not learn what it does; write \
                     description = \"…\" in its [agent.card]",
                    tool.name
                ));
            }
        }
    }
}

/// Names in quotes, with commas.
fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let warnings = Config::read(text).unwrap().warnings();
        assert_eq!(warnings.len(), expected.len(), "{warnings:#?}");
        for (warning, words) in warnings.iter().zip(expected) {
            assert!(warning.contains(words), "{warning}");
        }
    }

    #[test]
    fn a_fallback_that_is_not_there_is_a_warning_at_a_start() {
        let remote = "[[agent]]\nname = \"r\"\nkind = \"a2a\"\nurl = \"https://r.example\"\nfallback = \"a\"\n";
        check(&format!("{ECHO}{remote}"), &[]);
        check(remote, &["agent \"r\": fallback names \"a\", and this file has no such agent"]);
    }

    const ECHO: &str = "[[agent]]\nname = \"a\"\nkind = \"echo\"\n";

    #[test]
    fn a_plain_configuration_has_no_warnings() {
        check(ECHO, &[]);
        check(&format!("[auth]\naccept = [\"api_key\"]\n[limits.tier.free]\nper_day = 1\n{ECHO}"), &[]);
        check(include_str!("../../../../sabir.example.toml"), &[]);
    }

    #[test]
    fn open_access_is_a_warning_where_others_can_reach_it() {
        check(&format!("[server]\nproduction = true\n{ECHO}"), &["production refuses every call to \"a\""]);
        let reachable = format!("[server]\nlisten = \"0.0.0.0:1\"\npublic_url = \"http://x\"\n{ECHO}");
        check(&reachable, &["anyone who can reach http://x can call \"a\""]);
        check(&format!("[server]\nproxies = [\"::1\"]\n{ECHO}"), &["anyone who can reach 127.0.0.1:4000 can call"]);
        check(
            &format!("[server]\nlisten = \"0.0.0.0:1\"\n[auth]\naccept = [\"api_key\"]\n{ECHO}"),
            &["set public_url"],
        );
    }

    #[test]
    fn credentials_that_no_agent_accepts_are_a_warning() {
        check(&format!("[limits.tier.free]\nper_day = 1\n{ECHO}"), &["no agent accepts API keys"]);
        let unused = "[auth]\naccept = [\"api_key\"]\n[auth.jwt]\nsecret = \"env:S\"\n";
        check(&format!("{unused}{ECHO}"), &["[auth.jwt] has no effect"]);
    }

    #[test]
    fn names_of_agents_that_are_not_there_are_a_warning() {
        let model = "[[agent]]\nname = \"m\"\nkind = \"openai\"\nurl = \"http://127.0.0.1:1\"\n[agent.openai]\nmodel = \"x\"\n\
                     [agent.openai.tools]\nagents = [\"a\", \"ghost\"]\n";
        check(
            &format!("{ECHO}{model}"),
            &["openai.tools.agents names \"ghost\"", "\"a\" is a tool of \"m\" and has no description"],
        );
        check("[[agent]]\nname = \"l\"\nkind = \"a2a\"\nurl = \"ledger.example\"\n", &["write https://ledger.example"]);
    }
}
