//! The scenarios: their words and their descriptions in the card. The card and the agent read the same table.

use sabir_proto::card::Skill;

/// What a message asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scenario {
    Echo,
    Message,
    Slow,
    Fail,
    Reject,
    Ask,
    Auth,
    Unspecified,
    Files,
    Drop,
    Refused,
    Tenant,
    Escape,
    Big,
    Hold,
    /// Listed in the extended card only.
    Secret,
}

/// The word, a name for people, an example, what happens.
type Row = (&'static str, &'static str, &'static str, &'static str);

impl Scenario {
    const ALL: [Self; 16] = [
        Self::Echo,
        Self::Message,
        Self::Slow,
        Self::Fail,
        Self::Reject,
        Self::Ask,
        Self::Auth,
        Self::Unspecified,
        Self::Files,
        Self::Drop,
        Self::Refused,
        Self::Tenant,
        Self::Escape,
        Self::Big,
        Self::Hold,
        Self::Secret,
    ];

    const fn row(self) -> Row {
        match self {
            Self::Echo => {
                ("echo", "Echo", "echo hello", "Says back every part it hears. So does any other first word.")
            }
            Self::Message => ("message", "Message", "message", "Answers with a message and makes no task."),
            Self::Slow => ("slow", "Slow", "slow 3", "Works for so many seconds, a chunk every half second."),
            Self::Fail => ("fail", "Fail", "fail", "A task that fails."),
            Self::Reject => ("reject", "Reject", "reject", "A task that is rejected."),
            Self::Ask => ("ask", "Ask", "ask", "Asks for input; the reply completes the task."),
            Self::Auth => (
                "auth",
                "Auth",
                "auth 5",
                "Asks for authorisation; a reply completes the task, and so do so many seconds if they are given.",
            ),
            Self::Unspecified => (
                "unspecified",
                "Unspecified",
                "unspecified 3",
                "Shows TASK_STATE_UNSPECIFIED for so many seconds, then completes.",
            ),
            Self::Files => (
                "files",
                "Files",
                "files",
                "Artifacts with every kind of part; `files hostile` gives them names that no file should have.",
            ),
            Self::Drop => {
                ("drop", "Drop", "drop", "Breaks the stream once, in the middle of an event. The task goes on.")
            }
            Self::Refused => ("401", "401", "401", "Refuses the request for want of credentials, whatever it brings."),
            Self::Tenant => ("tenant", "Tenant", "tenant", "Says which tenant it was called with."),
            Self::Escape => ("escape", "Escape", "escape", "Text with terminal escape codes."),
            Self::Big => ("big", "Big", "big 64", "An artifact of so many KiB of text."),
            Self::Hold => ("hold", "Hold", "hold", "Works until it is cancelled."),
            Self::Secret => ("secret", "Secret", "secret", "A skill that only the extended card lists."),
        }
    }

    /// The scenarios that the public card lists.
    pub(super) fn listed() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|scenario| *scenario != Self::Secret)
    }

    /// The scenario that the first word of a message picks; an unknown word picks the echo.
    pub(super) fn named(word: &str) -> Self {
        let named = Self::ALL.into_iter().find(|scenario| scenario.row().0.eq_ignore_ascii_case(word));
        named.unwrap_or(Self::Echo)
    }

    /// The scenario as a skill of the card.
    pub(super) fn skill(self) -> Skill {
        let (word, name, example, description) = self.row();
        Skill {
            id: word.into(),
            name: name.into(),
            description: description.into(),
            tags: vec!["demo".into()],
            examples: vec![example.into()],
            input_modes: Vec::new(),
            output_modes: Vec::new(),
            security_requirements: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_names_its_scenario_and_every_other_word_is_an_echo() {
        for scenario in Scenario::ALL {
            assert_eq!(Scenario::named(scenario.row().0), scenario);
            assert_eq!(Scenario::named(&scenario.row().0.to_uppercase()), scenario);
            assert!(scenario.row().2.starts_with(scenario.row().0), "the example of {scenario:?}");
        }
        assert_eq!(Scenario::named("hello"), Scenario::Echo);
        assert_eq!(Scenario::named(""), Scenario::Echo);
    }
}
