//! Colour: which words stand out, and whether escape codes may be written at all.

use std::io::IsTerminal;

/// What `--color` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ColorChoice {
    /// Colour where a terminal shows it, unless `NO_COLOR` is set.
    #[default]
    Auto,
    Always,
    Never,
}

impl ColorChoice {
    /// What the name stands for; `Auto` for anything else.
    pub(crate) fn read(name: Option<&str>) -> Self {
        match name {
            Some("always") => Self::Always,
            Some("never") => Self::Never,
            _ => Self::Auto,
        }
    }

    /// Whether colour may be written to a stream.
    pub(crate) fn allows(self, stream: &impl IsTerminal) -> bool {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                stream.is_terminal() && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
            }
        }
    }
}

/// A colour with a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// What was asked for: names and headings.
    Strong,
    /// What stands beside it: ids, labels, times.
    Dim,
    Good,
    Bad,
    /// What needs an answer or a look.
    Attention,
    /// What is under way, and whose words follow.
    Accent,
}

impl Tone {
    const fn code(self) -> &'static str {
        match self {
            Self::Strong => "1",
            Self::Dim => "2",
            Self::Good => "32",
            Self::Bad => "31",
            Self::Attention => "1;33",
            Self::Accent => "36",
        }
    }
}

/// Writes colour, or leaves words as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Paint {
    pub(crate) on: bool,
}

impl Paint {
    /// A text in a tone. The text has to be harmless already.
    pub(crate) fn tint(self, tone: Tone, text: &str) -> String {
        if !self.on || text.is_empty() {
            return text.to_owned();
        }
        // Every line by itself, so that a pager and a line cut off at the screen's edge stay in order.
        let lines: Vec<String> = text.split('\n').map(|line| format!("\x1b[{}m{line}\x1b[0m", tone.code())).collect();
        lines.join("\n")
    }

    /// A word that tells how something stands, in the colour of its meaning.
    pub(crate) fn state(self, word: &str) -> String {
        let tone = match word {
            "completed" | "enabled" | "active" | "delivered" | "ok" | "pass" | "yes" | "confirmed" => Tone::Good,
            "failed" | "rejected" | "fail" | "dead" | "revoked" | "expired" | "gave up" => Tone::Bad,
            "input required" | "auth required" | "warn" | "held" | "waiting" | "retrying" => Tone::Attention,
            "working" | "submitted" => Tone::Accent,
            "canceled" | "disabled" | "skip" | "unspecified" => Tone::Dim,
            _ => return word.to_owned(),
        };
        self.tint(tone, word)
    }
}

/// `TASK_STATE_INPUT_REQUIRED` as people say it; any other word as it is.
pub(crate) fn state_word(state: &str) -> String {
    match state.strip_prefix("TASK_STATE_") {
        Some(name) => name.to_lowercase().replace('_', " "),
        None => state.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_written_only_where_it_is_on() {
        assert_eq!(Paint { on: false }.tint(Tone::Bad, "x"), "x");
        assert_eq!(Paint { on: true }.tint(Tone::Bad, "x\ny"), "\x1b[31mx\x1b[0m\n\x1b[31my\x1b[0m");
        assert_eq!(Paint { on: true }.state("elsewhere"), "elsewhere");
        let file = tempfile::tempfile().unwrap();
        assert!(!ColorChoice::Auto.allows(&file) && ColorChoice::Always.allows(&file));
    }

    #[test]
    fn a_state_is_told_in_words() {
        assert_eq!(state_word("TASK_STATE_INPUT_REQUIRED"), "input required");
        assert_eq!(state_word("enabled"), "enabled");
    }
}
