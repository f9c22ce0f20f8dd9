//! The table of settings.

use super::AllowedSources::{Anywhere, FlagOnly, NoFile};
use super::ValueKind::{self, Bytes, Count, Format, Number, Object, Path, Switch, Text, Transport, Version};
use super::resolve::ResolvedSetting;
use super::value::{ServiceParameter, SettingList, SettingValue};
use super::{AllowedSources, Setting, ValueKind as K};
use crate::problem::Problem;
use sabir_client::Binding;
use sabir_client::signature::SignatureMode;
use std::time::Duration;
use url::Url;

/// A line of the table with nothing special about it.
const fn plain(flag: &'static str, kind: ValueKind, default: &'static str, help: &'static str) -> Setting {
    Setting {
        flag,
        short: None,
        aliases: &[],
        kind,
        sources: Anywhere,
        default,
        secret: false,
        repeatable: false,
        commands: &[],
        help,
    }
}

const fn short(letter: char, setting: Setting) -> Setting {
    Setting { short: Some(letter), ..setting }
}

const fn also(aliases: &'static [&'static str], setting: Setting) -> Setting {
    Setting { aliases, ..setting }
}

const fn secret(setting: Setting) -> Setting {
    Setting { secret: true, ..setting }
}

const fn many(setting: Setting) -> Setting {
    Setting { repeatable: true, ..setting }
}

const fn sources(sources: AllowedSources, setting: Setting) -> Setting {
    Setting { sources, ..setting }
}

const fn of(commands: &'static [&'static str], setting: Setting) -> Setting {
    Setting { commands, ..setting }
}

/// Declares the settings: each with its line of the table, and with the field that has its value in a run. What errors
/// are printed as must be known before the others can be read, so it has no field.
macro_rules! settings {
    ($($setting:expr $(=> $field:ident: $value:ty)?,)*) => {
        /// Every setting, in the order in which help shows them.
        pub(crate) const SETTINGS: &[Setting] = &[$($setting),*];

        /// The settings of one run.
        #[derive(Debug)]
        pub(crate) struct Settings {
            /// As they were given, in the order of the table.
            pub(super) all: Vec<ResolvedSetting>,
            /// Warnings to print before the command runs.
            pub(crate) warnings: Vec<String>,
            $($(pub(crate) $field: $value,)?)*
        }

        impl Settings {
            /// Parses every setting. `all` has them in the order of the table.
            pub(super) fn parse(all: Vec<ResolvedSetting>, warnings: Vec<String>) -> Result<Self, Problem> {
                let mut rest = all.iter();
                let mut next = || rest.next().expect("every line of the table is resolved");
                $(
                    let one = next();
                    one.check()?;
                    $(let $field = <$value>::read(one)?;)?
                )*
                Ok(Self { $($($field,)?)* all, warnings })
            }
        }
    };
}

settings! {
    short(
        'a',
        plain(
            "agent-card",
            Text,
            "none",
            "The agent: a host, the URL of its card, a file, or an entry of a catalogue (URL#identifier)",
        ),
    ) => agent_card: SettingValue<String>,
    short(
        'o',
        plain(
            "output",
            Format,
            "pretty on a terminal, text elsewhere",
            "Format of the result: text (a label and a value per line), json, or pretty (tables and colour, for people)",
        ),
    ),
    plain(
        "color",
        K::Color,
        "auto: where a terminal shows it and NO_COLOR is not set",
        "Colour in the pretty format: auto, always or never",
    ),
    sources(
        FlagOnly,
        plain(
            "stream",
            Switch,
            "off",
            "Follow live delivery; with json, one object per line. Only this flag switches it on, no variable and no file",
        ),
    ) => stream: SettingValue<bool>,
    also(
        &["watch"],
        plain(
            "wait",
            Switch,
            "on for send, off for task get",
            "Block until the task is settled or needs somebody; beats a configured --async",
        ),
    ) => wait: SettingValue<bool>,
    also(
        &["return-immediately", "no-wait", "immediate"],
        plain("async", Switch, "off", "Return identifiers at once instead of waiting"),
    ) => return_at_once: SettingValue<bool>,
    plain("poll-interval", K::PollInterval, "2s", "Pause between status checks (500ms, 2s, 1m30s)")
        => poll_interval: SettingValue<Duration>,
    plain("timeout", K::Duration, "none", "Give up waiting after this time (exit code 5)")
        => timeout: SettingValue<Duration>,
    also(
        &["context"],
        plain("context-id", Text, "none", "Open a new task in this context; with --task-id, the context it is in"),
    ) => context_id: SettingValue<String>,
    also(&["task"], plain("task-id", Text, "none", "Continue this task")) => task_id: SettingValue<String>,
    plain(
        "a2a-version",
        Version,
        "1.0; the newest older version, with a note, where the agent offers no 1.0",
        "Protocol version to speak: 1.0, or an older dialect on purpose (0.3, 0.2, 0.1, agent-native, xpr, auto)",
    ) => a2a_version: SettingValue<String>,
    many(plain(
        "transport",
        Transport,
        "card order",
        "Preferred binding: JSONRPC, HTTP+JSON or GRPC; repeatable, most preferred first",
    )) => transport: SettingList<Binding>,
    secret(plain(
        "bearer",
        Text,
        "none",
        "Bearer token. A token on the command line shows in the process table and in shell history; \
         prefer the variable",
    )) => bearer: SettingValue<String>,
    secret(plain(
        "api-key",
        Text,
        "none",
        "API key, placed where the card's scheme says. A key on the command line shows in the process table and in \
         shell history; prefer the variable",
    )) => api_key: SettingValue<String>,
    secret(plain(
        "basic",
        K::Basic,
        "none",
        "USER:PASSWORD for agents with HTTP Basic. What is on the command line shows in the process table and in shell \
         history; prefer the variable",
    )) => basic: SettingValue<String>,
    plain(
        "xpr-account",
        Text,
        "none",
        "Sign calls as this account of XPR Network, with the key in the variable XPR_PRIVATE_KEY (PVT_K1_… or WIF)",
    ) => xpr_account: SettingValue<String>,
    plain(
        "as-user",
        Text,
        "none",
        "Call an agent-native agent as this user (an e-mail address), with a token made for each call under the secret in \
         the variable A2A_SECRET",
    ) => as_user: SettingValue<String>,
    many(plain(
        "svc-param",
        K::Pair,
        "none",
        "NAME:VALUE sent beside every call as an HTTP header or gRPC metadata; repeatable",
    )) => svc_param: SettingList<ServiceParameter>,
    plain("metadata", Object, "none", "JSON object carried in the request itself") => metadata: SettingValue<String>,
    many(plain("extension", Text, "none", "URI of an extension that the caller supports; repeatable"))
        => extension: SettingList<String>,
    plain("insecure", Switch, "off, certificates are checked", "Do not check TLS certificates; always warns")
        => insecure: SettingValue<bool>,
    plain("ca-cert", Path, "the system's", "PEM file with the authorities to trust") => ca_cert: SettingValue<String>,
    plain("client-cert", Path, "none", "PEM file with the certificate to present (mutual TLS)")
        => client_cert: SettingValue<String>,
    plain("client-key", Path, "none", "PEM file with the key of --client-cert") => client_key: SettingValue<String>,
    plain(
        "card-trust",
        K::Trust,
        "off",
        "What is asked of a card before its agent is called: off, if-present (its signature must hold) or require (it \
         must be signed)",
    ) => card_trust: SettingValue<SignatureMode>,
    many(plain("trusted-keys", Path, "none", "JWKS file with keys that may sign cards; repeatable"))
        => trusted_keys: SettingList<String>,
    plain("trusted-ca", Path, "none", "PEM file with authorities that may vouch for the signer of a card")
        => trusted_ca: SettingValue<String>,
    plain("key-registry", K::Url, "none", "Registry of keys that sign cards: below this URL, the key set of each host")
        => key_registry: SettingValue<Url>,
    plain(
        "card-roots-only",
        Switch,
        "off; on where any of the three is given",
        "Believe about cards only --trusted-keys, --trusted-ca and --key-registry, and no key that the card's own host \
         publishes",
    ) => card_roots_only: SettingValue<bool>,
    sources(
        NoFile,
        plain("config", Path, "the nearest .env", "Read this file instead of the .env of this directory or a parent"),
    ) => config: SettingValue<String>,
    plain("verbose", Switch, "off, concise", "Show everything that was exchanged") => verbose: SettingValue<bool>,
    plain(
        "curl",
        Switch,
        "off",
        "Print each request as a curl or grpcurl command on standard error, without credentials",
    ) => curl: SettingValue<bool>,
    plain("debug", Switch, "off", "Log what happens on the wire on standard error, without credentials")
        => debug: SettingValue<bool>,
    of(
        &["send", "task get", "task subscribe", "chat"],
        short(
            'q',
            plain(
                "quiet",
                Switch,
                "off",
                "Print the answer alone, without names and ids; failures go to standard error",
            ),
        ),
    ) => quiet: SettingValue<bool>,
    of(
        &["send", "task get", "task subscribe"],
        many(plain(
            "fail-on",
            K::States,
            "none: the exit status tells whether the answer was reported, not what it was",
            "Exit with a status of its own when the task is in this state: failed 10, rejected 11, input-required 12, \
             auth-required 13, canceled 14; any is all of them; repeatable, or with commas",
        )),
    ) => fail_on: SettingList<String>,
    of(
        &["send", "task get", "task list", "chat"],
        plain("history", Count, "whatever the agent sends", "How many messages of history to ask for; 0 for none"),
    ) => history: SettingValue<u32>,
    of(
        &["send", "chat"],
        plain(
            "job-id",
            Number,
            "none",
            "The job on XPR Network that the message belongs to, as xpr:jobId in its metadata",
        ),
    ) => job_id: SettingValue<u64>,
    of(&["send", "chat"], many(plain("accept", Text, "anything", "Media type the caller can take; repeatable")))
        => accept: SettingList<String>,
    of(
        &["task list", "task push-config list"],
        plain("page-size", Count, "50, by the protocol", "How many entries a page has, 1 to 100"),
    ) => page_size: SettingValue<u32>,
    of(&["task download"], plain("dir", Path, ".", "Directory to write to; nothing is ever written outside it"))
        => dir: SettingValue<String>,
    of(&["task download"], plain("max-bytes", Bytes, "1GiB", "Largest file to fetch from a URL (10MB, 1GiB)"))
        => max_bytes: SettingValue<u64>,
    of(
        &["task push-config create", "task push-config listen"],
        secret(plain(
            "push-token",
            Text,
            "none; listen makes one up",
            "Token the agent shall send with every notification. On the command line it shows in the process table; \
             prefer the variable",
        )),
    ) => push_token: SettingValue<String>,
    of(
        &["task push-config create"],
        plain("push-scheme", Text, "none", "Authentication scheme the agent shall use towards the webhook"),
    ) => push_scheme: SettingValue<String>,
    of(
        &["task push-config create"],
        secret(plain(
            "push-credentials",
            Text,
            "none",
            "Credentials for --push-scheme. On the command line they show in the process table; prefer the variable",
        )),
    ) => push_credentials: SettingValue<String>,
    of(
        &["task push-config listen"],
        plain("listen", Text, "127.0.0.1:0", "Address and port to listen on; port 0 picks a free one"),
    ) => listen: SettingValue<String>,
    of(
        &["task push-config listen"],
        plain("public-url", Text, "the address it listens on", "URL under which the agent reaches this receiver"),
    ) => public_url: SettingValue<String>,
    of(&["auth login", "auth status", "auth logout"], plain("client-id", Text, "none", "Client id at the authority"))
        => client_id: SettingValue<String>,
    of(
        &["auth login"],
        secret(plain(
            "client-secret",
            Text,
            "none",
            "Client secret at the authority. On the command line it shows in the process table; prefer the variable",
        )),
    ) => client_secret: SettingValue<String>,
}

/// The setting with this name.
pub(crate) fn find(flag: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.flag == flag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn flags_and_letters_are_unique() {
        let mut seen = HashSet::new();
        for setting in SETTINGS {
            for name in std::iter::once(&setting.flag).chain(setting.aliases) {
                assert!(seen.insert((*name).to_owned()), "{name} twice");
            }
            if let Some(letter) = setting.short {
                assert!(seen.insert(letter.to_string()), "-{letter} twice");
            }
        }
    }

    #[test]
    fn every_credential_has_a_variable_and_warns_about_the_command_line() {
        for setting in SETTINGS.iter().filter(|setting| setting.secret) {
            assert_eq!(setting.sources, Anywhere, "{}", setting.flag);
            assert!(setting.help.contains("process table"), "{}", setting.flag);
        }
    }

    #[test]
    fn the_stream_comes_from_the_command_line_alone() {
        assert_eq!(find("stream").unwrap().variable(), None);
        assert_eq!(find("agent-card").unwrap().variable().unwrap(), "A2ACLI_AGENT_CARD");
    }
}
