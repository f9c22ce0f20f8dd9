//! Splits a shell script into its commands and their words, as far as examples need it: quotes, continuation lines, pipes,
//! lists, comments, redirections, here-documents, assignments before a command, and `$(…)`, whose commands count as well.
//!
//! Variables are not expanded: `$KEY` is one word, as it is where it is quoted.

/// Words that stand before a command and are none.
const KEYWORDS: [&str; 8] = ["if", "then", "else", "while", "until", "do", "!", "exec"];

/// The commands of a script, each as its words.
pub(super) fn commands(script: &str) -> Vec<Vec<String>> {
    let script: Vec<char> = script.replace("\\\n", " ").chars().collect();
    let mut reader = ShellReader { script, ..ShellReader::default() };
    while reader.at < reader.script.len() {
        reader.step();
    }
    reader.end_command();
    reader.found
}

/// What the next word is for.
#[derive(Debug, Default, PartialEq)]
enum NextWord {
    #[default]
    Argument,
    /// The file of a redirection.
    File,
    /// The line that ends a here-document.
    Delimiter,
}

#[derive(Debug, Default)]
struct ShellReader {
    script: Vec<char>,
    at: usize,
    found: Vec<Vec<String>>,
    words: Vec<String>,
    word: Option<String>,
    next: NextWord,
    /// The lines that end the here-documents that begin after this line.
    delimiters: Vec<String>,
}

impl ShellReader {
    fn peek(&self) -> Option<char> {
        self.script.get(self.at).copied()
    }

    /// Reads a character outside quotes.
    fn step(&mut self) {
        let character = self.script[self.at];
        self.at += 1;
        match character {
            '\'' => {
                let quoted = self.until('\'');
                self.push(&quoted);
            }
            '"' => self.double_quoted(),
            '\\' => {
                let escaped = self.peek().map(String::from).unwrap_or_default();
                self.at += 1;
                self.push(&escaped);
            }
            '$' if self.peek() == Some('(') => self.substitution(),
            '#' if self.word.is_none() => {
                while self.peek().is_some_and(|next| next != '\n') {
                    self.at += 1;
                }
            }
            ' ' | '\t' => self.end_word(),
            '\n' => {
                self.end_command();
                self.skip_here_documents();
            }
            '&' if self.peek() == Some('>') => {}
            ';' | '|' | '&' | '(' | ')' => self.end_command(),
            '<' | '>' => self.redirection(),
            other => self.push(&other.to_string()),
        }
    }

    fn push(&mut self, text: &str) {
        self.word.get_or_insert_default().push_str(text);
    }

    fn until(&mut self, end: char) -> String {
        let text: String = self.script[self.at..].iter().take_while(|next| **next != end).collect();
        self.at += text.chars().count() + 1;
        text
    }

    fn double_quoted(&mut self) {
        self.push("");
        while let Some(character) = self.peek() {
            self.at += 1;
            match character {
                '"' => return,
                '$' if self.peek() == Some('(') => self.substitution(),
                '\\' => {
                    let escaped = self.peek().map(String::from).unwrap_or_default();
                    self.at += 1;
                    self.push(&escaped);
                }
                other => self.push(&other.to_string()),
            }
        }
    }

    /// Reads `$(…)`: its commands are commands of their own, and in the word it stands for something.
    fn substitution(&mut self) {
        self.at += 1;
        let (start, mut depth) = (self.at, 1);
        while depth > 0 && self.at < self.script.len() {
            depth += match self.script[self.at] {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
            self.at += 1;
        }
        let inner: String = self.script[start..(self.at - 1).max(start)].iter().collect();
        self.found.extend(commands(&inner));
        self.push("SUBSTITUTED");
    }

    /// Reads `>`, `>>`, `2>&1`, `<`, `<<END` or `<<<`.
    fn redirection(&mut self) {
        // A number before it is no word.
        if self.word.as_ref().is_some_and(|word| word.chars().all(|digit| digit.is_ascii_digit())) {
            self.word = None;
        }
        self.end_word();
        let mut operator = String::from(self.script[self.at - 1]);
        while let Some(more @ ('<' | '>' | '&' | '-')) = self.peek() {
            operator.push(more);
            self.at += 1;
        }
        self.next = if matches!(&*operator, "<<" | "<<-") { NextWord::Delimiter } else { NextWord::File };
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match std::mem::take(&mut self.next) {
            NextWord::Argument if self.words.is_empty() && (KEYWORDS.contains(&&*word) || is_assignment(&word)) => {}
            NextWord::Argument => self.words.push(word),
            NextWord::File => {}
            NextWord::Delimiter => self.delimiters.push(word),
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.next = NextWord::Argument;
        let words = std::mem::take(&mut self.words);
        if !words.is_empty() {
            self.found.push(words);
        }
    }

    fn skip_here_documents(&mut self) {
        for delimiter in std::mem::take(&mut self.delimiters) {
            while self.at < self.script.len() && self.until('\n').trim() != delimiter {}
        }
    }
}

/// Whether a word sets a variable for the command after it.
fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty() && name.chars().all(|letter| letter == '_' || letter.is_ascii_alphanumeric())
}

#[test]
fn a_script_is_split_as_a_shell_would() {
    fn check(script: &str, expected: &[&[&str]]) {
        assert_eq!(commands(script), expected, "{script}");
    }
    check("a 'b c' \"d e\" f\\ g", &[&["a", "b c", "d e", "f g"]]);
    check("a \\\n  b # c\nd", &[&["a", "b"], &["d"]]);
    check("a | b && c; d & (e)", &[&["a"], &["b"], &["c"], &["d"], &["e"]]);
    check("A=1 B='x y' a >out 2>&1 <in b", &[&["a", "b"]]);
    check("a <<< '{\"x\": 1}' b", &[&["a", "b"]]);
    check("cat > f <<'END' && a\nnot a command\nEND\nb", &[&["cat"], &["a"], &["b"]]);
    check("X=$(a b | c) d", &[&["a", "b"], &["c"], &["d"]]);
    check("a \"$(b \"c d\")\" e", &[&["b", "c d"], &["a", "SUBSTITUTED", "e"]]);
    check("if a; then b; fi", &[&["a"], &["b"], &["fi"]]);
    check("a ''", &[&["a", ""]]);
}
