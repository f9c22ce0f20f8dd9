//! Text output: every result can be rendered as labelled fields.
//!
//! One `Label: value` per line; a value of several lines is a block: the label alone, the content indented by two
//! spaces, one blank line. So a script can read it line by line, and no agent can forge a field by sending line ends.
//! Characters that could control a terminal are always escaped.
//!
//! Everything is rendered from the JSON as it was received, so that unknown members are shown unchanged.

mod answer;
mod card;
mod event;
mod layout;
mod node;
mod paint;
mod part;
mod task;

pub(crate) use answer::{AnswerPrinter, PrinterOutput};
pub(crate) use card::{CardContext, card, interface};
pub(crate) use event::event;
pub(crate) use layout::cut;
pub(crate) use node::Node;
pub(crate) use paint::{ColorChoice, Paint, Tone, state_word};
pub(crate) use part::message;
pub(crate) use task::{Detail, ids, page, push_config, push_page, task};

use layout::{Field, FieldValue};

/// The fields of a result, in the order in which they are shown.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    fields: Vec<Field>,
}

impl Fields {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// `Label: value`. A value of several lines becomes a block, an empty one a dash.
    pub(crate) fn field(&mut self, label: &str, value: &str) {
        let value = value.trim_end_matches(['\n', '\r']);
        if value.contains('\n') {
            return self.block(label, value);
        }
        let value = escape(value);
        let value = if value.trim().is_empty() { "-".to_owned() } else { value };
        self.fields.push(Field { label: label.to_owned(), value: FieldValue::Line(value) });
    }

    /// Adds a field if there is a value.
    pub(crate) fn maybe(&mut self, label: &str, value: Option<&str>) {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            self.field(label, value);
        }
    }

    /// Adds a block: `Label:`, the lines of the content, a blank line.
    pub(crate) fn block(&mut self, label: &str, content: &str) {
        self.fields.push(Field { label: label.to_owned(), value: FieldValue::Block(escape(content)) });
    }

    /// The plain text form, which programs read.
    pub(crate) fn finish(self) -> String {
        layout::plain(&self.fields)
    }

    /// The pretty form, which people read, fitted to `columns`.
    pub(crate) fn pretty(&self, paint: Paint, columns: Option<usize>) -> String {
        layout::pretty(&self.fields, paint, columns)
    }
}

/// Whether a character could control a terminal, or end a line for a program that reads line by line.
pub(crate) fn dangerous(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        // Control characters of both kinds, and DEL.
        '\0'..='\x1f' | '\x7f'..='\u{9f}' => true,
        // Marks that reorder what stands on a line, and invisible line ends.
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        // Invisible text: byte order mark and tags.
        '\u{feff}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => false,
    }
}

/// Replaces dangerous characters by their escapes: `\x1b` in place of an escape character.
pub(crate) fn escape(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            _ if !dangerous(c) => shown.push(c),
            _ if (c as u32) < 0x100 => shown += &format!("\\x{:02x}", c as u32),
            _ => shown += &format!("\\u{{{:x}}}", c as u32),
        }
    }
    shown
}

/// Escapes running text for a terminal. Invisible characters that join nothing are escaped as well: an agent could hide
/// words behind them.
pub(crate) fn visible(text: &str) -> String {
    let escaped = escape(text);
    let mut shown = String::with_capacity(escaped.len());
    let mut chars = escaped.chars().peekable();
    let mut before = ' ';
    while let Some(c) = chars.next() {
        // These two join letters of some scripts and emoji; between ASCII letters they only hide text.
        let joins =
            matches!(c, '\u{200c}' | '\u{200d}') && !before.is_ascii() && chars.peek().is_some_and(|c| !c.is_ascii());
        let empty = matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}');
        if empty && !joins {
            shown += &format!("\\u{{{:x}}}", c as u32);
        } else {
            shown.push(c);
        }
        before = c;
    }
    shown
}

/// Quotes a word, so that a user can paste the command into a shell.
pub(crate) fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,~[]".contains(c);
    let bare = !word.is_empty() && word.chars().all(plain) && !word.starts_with('~') && !word.contains(['[', ']']);
    if bare { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_several_lines_is_a_block() {
        let mut fields = Fields::new();
        fields.field("Name", "a");
        fields.field("Name", "");
        fields.field("Name", "a\n\nState: b\n");
        fields.maybe("Nothing", None);
        fields.block("Text", "");
        assert_eq!(fields.finish(), "Name: a\nName: -\nName:\n  a\n  \n  State: b\n\nText:\n  \n\n");
    }

    #[test]
    fn nothing_that_steers_a_terminal_gets_out() {
        assert_eq!(
            escape("a\x1b[31m\x07\r\nb\t\u{9b}\u{202e}\u{2028}c\r"),
            "a\\x1b[31m\\x07\nb\t\\x9b\\u{202e}\\u{2028}c\\x0d"
        );
        assert_eq!(escape("naïve 日本 👍"), "naïve 日本 👍");
    }

    #[test]
    fn characters_that_show_nothing_are_shown_in_running_text() {
        assert_eq!(visible("a\u{200b}b\u{2060}\x1b[2J"), "a\\u{200b}b\\u{2060}\\x1b[2J");
        // A family of emoji, and a Persian word with a non-joiner.
        assert_eq!(
            visible("\u{1f468}\u{200d}\u{1f469} \u{645}\u{200c}\u{646}"),
            "\u{1f468}\u{200d}\u{1f469} \u{645}\u{200c}\u{646}"
        );
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, quoted) in [
            ("https://a.example/x", "https://a.example/x"),
            ("it's", "'it'\\''s'"),
            ("a b", "'a b'"),
            ("", "''"),
            ("$(x)", "'$(x)'"),
            ("~/card.json", "'~/card.json'"),
        ] {
            assert_eq!(shell(word), quoted);
        }
    }
}
