//! Reading `.env` files.
//!
//! Written by hand because the rules are few and the errors matter: a line that cannot be read is named with its file
//! and number. Keys of other programs are none of our business and are passed over, whatever their values look like.

/// One line that sets a variable with the prefix.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DotenvEntry {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) line: usize,
}

/// The entries of a file whose keys have the prefix. Fails with the number of the line that cannot be read.
pub(crate) fn parse(text: &str, prefix: &str) -> Result<Vec<DotenvEntry>, (usize, &'static str)> {
    let mut entries = Vec::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).enumerate();
    while let Some((index, line)) = lines.next() {
        let number = index + 1;
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        let statement = trimmed.strip_prefix("export ").map_or(trimmed, str::trim_start);
        let (key, value) = statement.split_once('=').ok_or((number, "there is no `=`"))?;
        let key = key.trim_end();
        if !is_key(key) {
            return Err((number, "that is not a name before the `=`"));
        }
        let value = value.trim_start();
        let value = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let mut rest = value[1..].to_owned();
                // A quoted value may go on over several lines; certificates in such files do.
                while end_of(&rest, quote).is_none() {
                    let (_, more) = lines.next().ok_or((number, "the quotation has no end"))?;
                    rest.push('\n');
                    rest.push_str(more);
                }
                let end = end_of(&rest, quote).unwrap_or(rest.len());
                let after = rest[end + 1..].trim();
                if key.starts_with(prefix) && !after.is_empty() && !after.starts_with('#') {
                    return Err((number, "something follows the quotation"));
                }
                if quote == '"' { unescaped(&rest[..end]) } else { rest[..end].to_owned() }
            }
            _ => bare(value),
        };
        if key.starts_with(prefix) {
            entries.push(DotenvEntry { key: key.to_owned(), value, line: number });
        }
    }
    Ok(entries)
}

fn is_key(key: &str) -> bool {
    let first = key.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    first && key.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
}

/// Where a quotation closes.
fn end_of(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quote == '"' => escaped = true,
            _ if c == quote => return Some(at),
            _ => {}
        }
    }
    None
}

/// A value without quotes ends at a comment that follows a blank.
fn bare(value: &str) -> String {
    let comment = value.match_indices('#').find(|(at, _)| *at == 0 || value[..*at].ends_with([' ', '\t']));
    value[..comment.map_or(value.len(), |(at, _)| at)].trim_end().to_owned()
}

fn unescaped(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            result.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => result.push('\n'),
            Some('t') => result.push('\t'),
            Some('r') => result.push('\r'),
            Some(c @ ('"' | '\\' | '$')) => result.push(c),
            Some(other) => result.extend(['\\', other]),
            None => result.push('\\'),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String)> {
        parse(text, "A2ACLI_").unwrap().into_iter().map(|entry| (entry.key, entry.value)).collect()
    }

    #[test]
    fn what_people_write_is_understood() {
        for (line, value) in [
            ("A2ACLI_X=plain", "plain"),
            ("  A2ACLI_X = spaced out  ", "spaced out"),
            ("export A2ACLI_X=exported", "exported"),
            ("A2ACLI_X=", ""),
            ("A2ACLI_X=a # comment", "a"),
            ("A2ACLI_X=a#b", "a#b"),
            ("A2ACLI_X=#all", ""),
            ("A2ACLI_X=\"a # b\\n\\\"c\\\"\\q\" # why", "a # b\n\"c\"\\q"),
            ("A2ACLI_X='a \\n $b'", "a \\n $b"),
            ("A2ACLI_X=\"two\nlines\"", "two\nlines"),
            ("A2ACLI_X=crlf\r", "crlf"),
            ("A2ACLI_X=a=b", "a=b"),
            ("\u{feff}A2ACLI_X=bom", "bom"),
        ] {
            assert_eq!(read(line), [("A2ACLI_X".to_owned(), value.to_owned())], "{line:?}");
        }
        assert_eq!(read("\n# only a comment\n\nOTHER='x' y\nPEM=\"a\nb\"\n"), []);
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        for (text, line) in [
            ("no equals sign", 1),
            ("A2ACLI_X=1\n\n=3", 3),
            ("A b=1", 1),
            ("A2ACLI_X='never closed\nmore", 1),
            ("A2ACLI_X='a' b", 1),
            ("1A=1", 1),
        ] {
            assert_eq!(parse(text, "A2ACLI_").unwrap_err().0, line, "{text:?}");
        }
    }

    #[test]
    fn entries_know_their_line() {
        let entries = parse("# a\nB=1\nA2ACLI_X='1\n2'\nA2ACLI_Y=3", "A2ACLI_").unwrap();
        assert_eq!(entries.iter().map(|entry| entry.line).collect::<Vec<_>>(), [3, 5]);
    }
}
