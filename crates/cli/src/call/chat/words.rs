//! What a line means.

/// What `/help` says.
pub(super) const HELP: &str = "\
/new         begin a new conversation
/file PATH   send a file, or the URL of one, with the next line
/task        show the task as it is now
/wait        wait for the task: after Ctrl-C, or after an authorisation that was given elsewhere
/cancel      cancel the task
/raw         show the last answer as JSON
/save FILE   write the conversation to a new file, one JSON object per line
/help        this list
/exit        leave; so does Ctrl-D
Everything else is sent. Two slashes send a line that begins with one.";

/// One line, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    Nothing,
    Say(String),
    New,
    File(String),
    Task,
    Wait,
    Cancel,
    Raw,
    Save(String),
    Help,
    Exit,
    /// A slash with a word that means nothing, or without what it needs; and what is wrong with it.
    Wrong(String),
}

impl Line {
    pub(super) fn read(typed: &str) -> Self {
        let text = typed.trim();
        if text.is_empty() {
            return Self::Nothing;
        }
        let Some(command) = text.strip_prefix('/') else { return Self::Say(text.to_owned()) };
        if command.starts_with('/') {
            return Self::Say(command.to_owned());
        }
        let (word, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        let rest = rest.trim();
        let alone = |line: Self| match rest {
            "" => line,
            _ => Self::Wrong(format!("/{word} takes nothing after it")),
        };
        let with = |line: fn(String) -> Self, what: &str| match rest {
            "" => Self::Wrong(format!("/{word} needs {what}")),
            _ => line(rest.to_owned()),
        };
        match word {
            "new" => alone(Self::New),
            "task" => alone(Self::Task),
            "wait" => alone(Self::Wait),
            "cancel" => alone(Self::Cancel),
            "raw" => alone(Self::Raw),
            "help" | "?" => alone(Self::Help),
            "exit" | "quit" => alone(Self::Exit),
            "file" => with(Self::File, "a path or a URL"),
            "save" => with(Self::Save, "a path"),
            _ => Self::Wrong(format!("/{word} means nothing here")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_said_unless_it_begins_with_a_slash() {
        for (typed, line) in [
            ("  hello /new there ", Line::Say("hello /new there".into())),
            ("//etc/hosts", Line::Say("/etc/hosts".into())),
            (" \t", Line::Nothing),
            ("/new", Line::New),
            ("/file  a b.pdf ", Line::File("a b.pdf".into())),
            ("/save out.jsonl", Line::Save("out.jsonl".into())),
            ("/quit", Line::Exit),
        ] {
            assert_eq!(Line::read(typed), line, "{typed:?}");
        }
        for wrong in ["/", "/nwe", "/file", "/new York"] {
            assert!(matches!(Line::read(wrong), Line::Wrong(_)), "{wrong}");
        }
    }

    #[test]
    fn everything_in_the_list_is_understood() {
        for line in HELP.lines().filter(|line| line.starts_with('/')) {
            let typed: Vec<&str> = line.split_whitespace().take(2).collect();
            let typed = if typed[1].chars().all(char::is_uppercase) { typed.join(" ") } else { typed[0].to_owned() };
            assert!(!matches!(Line::read(&typed), Line::Wrong(_)), "{typed}");
        }
    }
}
