//! Parses a line of the chat: a message or a command.

/// Everything that can be typed beside messages, with what it does.
pub(super) const COMMANDS: [(&str, &str); 10] = [
    ("/new", "begin a new conversation"),
    ("/file PATH", "send a file, or the URL of one, with the next line"),
    ("/task", "show the task as it is now"),
    ("/wait", "wait for the task, after an authorisation that was given elsewhere"),
    ("/cancel", "cancel the task"),
    ("/ids", "show the ids of the task and of the conversation"),
    ("/raw", "show the last answer as JSON"),
    ("/save FILE", "write the conversation to a new file, one JSON object per line"),
    ("/help", "this list"),
    ("/exit", "leave; so does Ctrl-D"),
];

/// The text that `/help` prints.
pub(super) fn help() -> String {
    let list: String = COMMANDS.iter().map(|(command, about)| format!("{command:<12} {about}\n")).collect();
    list + "Everything else is sent. Two slashes send a line that begins with one.\n\
            A backslash at the end of a line goes on with the next one; pasted lines are one message."
}

/// One line of input, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChatInput {
    Nothing,
    Say(String),
    New,
    File(String),
    Task,
    Wait,
    Cancel,
    Ids,
    Raw,
    Save(String),
    Help,
    Exit,
    /// An unknown command, or one without its argument; with the message for the user.
    Wrong(String),
}

impl ChatInput {
    pub(super) fn read(typed: &str) -> Self {
        let text = typed.trim();
        if text.is_empty() {
            return Self::Nothing;
        }
        // A message of several lines is no command, whatever it begins with.
        let command = text.strip_prefix('/').filter(|_| !text.contains('\n'));
        let Some(command) = command else { return Self::Say(text.to_owned()) };
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
            "ids" => alone(Self::Ids),
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
            ("  hello /new there ", ChatInput::Say("hello /new there".into())),
            ("//etc/hosts", ChatInput::Say("/etc/hosts".into())),
            (" \t", ChatInput::Nothing),
            ("/new\nis a path", ChatInput::Say("/new\nis a path".into())),
            ("/new", ChatInput::New),
            ("/file  a b.pdf ", ChatInput::File("a b.pdf".into())),
            ("/save out.jsonl", ChatInput::Save("out.jsonl".into())),
            ("/quit", ChatInput::Exit),
        ] {
            assert_eq!(ChatInput::read(typed), line, "{typed:?}");
        }
        for wrong in ["/", "/nwe", "/file", "/new York"] {
            assert!(matches!(ChatInput::read(wrong), ChatInput::Wrong(_)), "{wrong}");
        }
    }

    #[test]
    fn everything_in_the_list_is_understood() {
        for (command, _) in COMMANDS {
            assert!(!matches!(ChatInput::read(command), ChatInput::Wrong(_)), "{command}");
            assert!(help().contains(command));
        }
    }
}
