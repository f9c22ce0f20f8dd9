//! Separates Rust source into code and text, so that a brace in a string or a name in a comment does not mislead a
//! check.
//!
//! This is a scanner of a hundred lines and not a parser. It must be right about comments, strings and characters, and
//! may ignore everything else; a real parser would be a large dependency for counting lines.

use std::ops::Range;

/// A file, separated into code and literals.
#[derive(Clone)]
pub(crate) struct Source {
    /// The characters of the file, with those of comments and literals blanked. Line breaks stay, so every position
    /// stays the same.
    pub(crate) code: Vec<char>,
    pub(crate) literals: Vec<Literal>,
}

/// A string literal: its start, and the text between the quotes with escapes as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Literal {
    pub(crate) at: usize,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn parse(text: &str) -> Self {
        let mut scanner = Scanner { input: text.chars().collect(), code: Vec::new(), literals: Vec::new() };
        while scanner.code.len() < scanner.input.len() {
            scanner.step();
        }
        Source { code: scanner.code, literals: scanner.literals }
    }

    /// The same file without its `#[cfg(test)]` items.
    pub(crate) fn without_tests(mut self) -> Self {
        const MARK: &str = "#[cfg(test)]";
        let mut from = 0;
        while let Some(start) = self.find(MARK, from) {
            let end = self.end_of_item(start + MARK.len());
            for c in self.code[start..end].iter_mut().filter(|c| **c != '\n') {
                *c = ' ';
            }
            self.literals.retain(|literal| !(start..end).contains(&literal.at));
            from = end;
        }
        self
    }

    /// The next position of `needle` in the code.
    pub(crate) fn find(&self, needle: &str, from: usize) -> Option<usize> {
        let needle: Vec<char> = needle.chars().collect();
        let rest = self.code.get(from..)?;
        rest.windows(needle.len()).position(|window| window == needle).map(|at| from + at)
    }

    /// The line of a position, counted from one.
    pub(crate) fn line(&self, at: usize) -> usize {
        1 + self.code[..at].iter().filter(|c| **c == '\n').count()
    }

    /// The block of the item that starts at or after `from`, with its braces; `None` if a semicolon ends the item
    /// first.
    pub(crate) fn block(&self, from: usize) -> Option<Range<usize>> {
        let open = self.end_of_head(from).filter(|at| self.code[*at] == '{')?;
        let mut depth = 0;
        for (at, c) in self.code.iter().enumerate().skip(open) {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(open..at + 1);
            }
        }
        Some(open..self.code.len())
    }

    fn end_of_item(&self, from: usize) -> usize {
        match self.block(from) {
            Some(block) => block.end,
            None => self.end_of_head(from).map_or(self.code.len(), |at| at + 1),
        }
    }

    /// The position of the first `{` or `;` outside of parentheses and brackets: `[u8; 4]` does not end an item.
    fn end_of_head(&self, from: usize) -> Option<usize> {
        let mut depth = 0;
        for (at, c) in self.code.iter().enumerate().skip(from) {
            match c {
                '(' | '[' => depth += 1,
                ')' | ']' => depth -= 1,
                '{' | ';' if depth <= 0 => return Some(at),
                _ => {}
            }
        }
        None
    }
}

/// Whether a character can be part of a name.
pub(crate) fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Reads `input` once; `code` is as long as the part that has been read.
struct Scanner {
    input: Vec<char>,
    code: Vec<char>,
    literals: Vec<Literal>,
}

impl Scanner {
    fn step(&mut self) {
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => self.line_comment(),
            ('/', '*') => self.block_comment(),
            ('"', _) => self.string(),
            ('\'', _) => self.character_or_lifetime(),
            (c, _) if is_name(c) => self.word(),
            _ => self.keep(1),
        }
    }

    fn line_comment(&mut self) {
        while !matches!(self.peek(0), '\n' | END) {
            self.blank(1);
        }
    }

    /// Block comments nest in Rust.
    fn block_comment(&mut self) {
        let mut depth = 0;
        loop {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                (END, _) => return,
                _ => {
                    self.blank(1);
                    continue;
                }
            }
            self.blank(2);
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        let at = self.code.len();
        self.blank(1);
        while !matches!(self.peek(0), '"' | END) {
            self.blank(if self.peek(0) == '\\' { 2 } else { 1 });
        }
        self.literal(at, at + 1);
        self.blank(1);
    }

    /// Reads a whole name, keyword or number, so that the `r` of `for` does not open a raw string.
    fn word(&mut self) {
        let start = self.code.len();
        while is_name(self.peek(0)) {
            self.keep(1);
        }
        let word: String = self.code[start..].iter().collect();
        if matches!(word.as_str(), "r" | "br" | "cr") {
            self.raw_string();
        }
    }

    /// Reads a raw string. `r` may also open a raw identifier, `r#type`, which stays as it is.
    fn raw_string(&mut self) {
        let at = self.code.len();
        let hashes = self.input[at..].iter().take_while(|c| **c == '#').count();
        if self.peek(hashes) != '"' {
            return;
        }
        self.blank(hashes + 1);
        let text_at = self.code.len();
        while self.peek(0) != END && !(self.peek(0) == '"' && (1..=hashes).all(|ahead| self.peek(ahead) == '#')) {
            self.blank(1);
        }
        self.literal(at, text_at);
        self.blank(hashes + 1);
    }

    /// Reads a character or a lifetime: `'{'` and `'\''` are characters, `'a` is not.
    fn character_or_lifetime(&mut self) {
        if self.peek(1) == '\\' {
            self.blank(3);
            while !matches!(self.peek(0), '\'' | END) {
                self.blank(1);
            }
            self.blank(1);
        } else if self.peek(2) == '\'' {
            self.blank(3);
        } else {
            self.keep(1);
        }
    }

    fn literal(&mut self, at: usize, text_at: usize) {
        let text = self.input[text_at..self.code.len()].iter().collect();
        self.literals.push(Literal { at, text });
    }

    fn peek(&self, ahead: usize) -> char {
        self.input.get(self.code.len() + ahead).copied().unwrap_or(END)
    }

    fn keep(&mut self, count: usize) {
        let at = self.code.len();
        self.code.extend(self.input[at..].iter().take(count));
    }

    fn blank(&mut self, count: usize) {
        let at = self.code.len();
        self.code.extend(self.input[at..].iter().take(count).map(|c| if *c == '\n' { '\n' } else { ' ' }));
    }
}

/// Stands for the end of the input. Rust source has it only in literals and comments.
const END: char = '\0';

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        let code: String = Source::parse(text).code.into_iter().collect();
        assert_eq!(code.chars().count(), text.chars().count(), "positions must not move");
        code.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_literals_are_blanked() {
        assert_eq!(code("a // } b\nc /* } /* } */ } */ d"), "a c d");
        assert_eq!(code(r#"a("}\"}", b"}", '}', '\'', '\u{7d}', b'}')"#), "a( , b , , , , b )");
        assert_eq!(code("r\"\\\" b r##\"}\"# }\"## c br#\"}\"# for\"}\""), "r b r c br for");
        assert_eq!(code("fn f<'a>(x: &'a str, r#type: '→')"), "fn f<'a>(x: &'a str, r#type: )");
        assert_eq!(code("\"never closed }"), "");
    }

    #[test]
    fn literals_are_kept_aside() {
        let texts = |text: &str| Source::parse(text).literals.into_iter().map(|l| l.text).collect::<Vec<_>>();
        assert_eq!(
            texts(
                r##"f("one\n", r#"tw"o"#, // "not this"
            b"three")"##
            ),
            [r"one\n", "tw\"o", "three"]
        );
    }

    #[test]
    fn tests_can_be_left_out() {
        let source = Source::parse("fn a() { \"x\"; }\n#[cfg(test)]\nmod tests { fn b() { \"y\"; } }\nfn c() {}");
        let source = source.without_tests();
        assert!(source.find("fn a", 0).is_some() && source.find("fn c", 0).is_some());
        assert!(source.find("fn b", 0).is_none());
        assert_eq!(source.literals.len(), 1);
        assert_eq!(source.line(source.find("fn c", 0).unwrap()), 4);

        let declared = Source::parse("#[cfg(test)]\nmod tests;\nfn a() {}").without_tests();
        assert!(declared.find("mod", 0).is_none() && declared.find("fn a", 0).is_some());
    }
}
