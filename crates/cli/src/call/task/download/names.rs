//! Names for files, made from what an agent suggests.

use crate::call::parts::extension;
use crate::render::{Node, dangerous};
use std::collections::HashSet;

/// The longest name, in bytes. File systems take 255; the rest is for a number and a draft's ending.
const NAME_BYTES_MAX: usize = 200;
/// Names that are devices on some systems, whatever follows the dot.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// The names given so far, in lower case: some file systems do not tell them apart.
#[derive(Debug, Default)]
pub(super) struct FileNames {
    taken: HashSet<String>,
}

impl FileNames {
    /// A name for a part that no other part has.
    pub(super) fn pick(&mut self, artifact: Node<'_>, index: usize, part: Node<'_>, number: usize) -> String {
        let named = part.word("filename").or_else(|| part.word("url").and_then(|url| last_segment(&url)));
        let name = named.and_then(|name| safe_name(&name)).unwrap_or_else(|| {
            let stem = ["name", "artifactId"]
                .iter()
                .find_map(|member| artifact.word(member).and_then(|name| safe_name(&name)));
            let stem = stem.unwrap_or_else(|| format!("artifact-{}", index + 1));
            format!("{stem}-{}.{}", number + 1, extension_of(part))
        });
        let mut unique = name.clone();
        let mut again = 1;
        while !self.taken.insert(unique.to_lowercase()) {
            again += 1;
            unique = match name.rsplit_once('.') {
                Some((stem, ending)) if !stem.is_empty() => format!("{stem}-{again}.{ending}"),
                _ => format!("{name}-{again}"),
            };
        }
        unique
    }
}

/// The last word of an address, if it looks like the name of a file.
fn last_segment(url: &str) -> Option<String> {
    let url = url::Url::parse(url).ok()?;
    let last = url.path_segments()?.next_back()?.to_owned();
    last.contains('.').then_some(last)
}

/// The extension of a part without a name.
fn extension_of(part: Node<'_>) -> &'static str {
    let told = part.word("mediaType").and_then(|media| extension(&media));
    let has = |name: &str| part.members().iter().any(|(member, _)| member == name);
    told.unwrap_or(if has("text") {
        "txt"
    } else if has("data") {
        "json"
    } else {
        "bin"
    })
}

/// What is left of a name when everything that could lead elsewhere is gone. `None` if nothing is.
pub(super) fn safe_name(name: &str) -> Option<String> {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let plain: String = last.chars().filter(|c| !dangerous(*c) && !"\n\t<>:\"|?*".contains(*c)).collect();
    // Leading dots hide a file, trailing ones and blanks vanish on some systems.
    let plain = plain.trim_start_matches(['.', ' ', '-']).trim_end_matches(['.', ' ']);
    if plain.is_empty() {
        return None;
    }
    let stem = plain.split('.').next().unwrap_or_default().trim_end().to_lowercase();
    let port = |name: &str| {
        let digit = stem.strip_prefix(name).unwrap_or_default();
        digit.chars().count() == 1 && digit.chars().all(|c| "0123456789¹²³".contains(c))
    };
    let device = DEVICES.contains(&stem.as_str()) || port("com") || port("lpt");
    let plain = if device { format!("_{plain}") } else { plain.to_owned() };
    Some(shortened(&plain))
}

/// A name that fits, with its extension where it has one.
fn shortened(name: &str) -> String {
    if name.len() <= NAME_BYTES_MAX {
        return name.to_owned();
    }
    let (stem, ending) = match name.rsplit_once('.') {
        Some((stem, ending)) if ending.len() <= 16 => (stem, format!(".{ending}")),
        _ => (name, String::new()),
    };
    let room = NAME_BYTES_MAX - ending.len();
    let end = (0..=room.min(stem.len())).rev().find(|at| stem.is_char_boundary(*at)).unwrap_or(0);
    format!("{}{ending}", &stem[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_directory() {
        for (name, left) in [
            ("report.pdf", Some("report.pdf")),
            ("../../etc/passwd", Some("passwd")),
            ("..\\..\\boot.ini", Some("boot.ini")),
            ("/etc/passwd", Some("passwd")),
            ("a/..", None),
            ("..", None),
            (".", None),
            ("", None),
            ("...", None),
            (".bashrc", Some("bashrc")),
            ("a\u{0}b\x1b[31m.txt", Some("ab[31m.txt")),
            ("a\nb\u{202e}txt.exe", Some("abtxt.exe")),
            ("C:\\x\\y.txt", Some("y.txt")),
            ("C:evil.txt", Some("Cevil.txt")),
            ("file.txt. . ", Some("file.txt")),
            ("NUL", Some("_NUL")),
            ("con.txt", Some("_con.txt")),
            ("COM1.log", Some("_COM1.log")),
            ("lpt9", Some("_lpt9")),
            ("common.txt", Some("common.txt")),
            ("-rf", Some("rf")),
            ("日本.csv", Some("日本.csv")),
        ] {
            assert_eq!(safe_name(name).as_deref(), left, "{name:?}");
        }
        let long = safe_name(&format!("{}.csv", "é".repeat(300))).unwrap();
        assert!(long.len() <= NAME_BYTES_MAX && long.ends_with(".csv"), "{long}");
    }

    #[test]
    fn names_are_made_up_and_kept_apart() {
        let artifact = Node::new(r#"{"artifactId":"a-1","name":"sum/mary"}"#);
        let mut names = FileNames::default();
        let mut pick = |part: &str| names.pick(artifact, 0, Node::new(part), 0);
        assert_eq!(pick(r#"{"text":"x"}"#), "mary-1.txt");
        assert_eq!(pick(r#"{"raw":"","filename":"A.csv"}"#), "A.csv");
        assert_eq!(pick(r#"{"raw":"","filename":"a.csv"}"#), "a-2.csv");
        assert_eq!(pick(r#"{"raw":"","filename":"..","mediaType":"image/png; q=1"}"#), "mary-1.png");
        assert_eq!(pick(r#"{"data":null}"#), "mary-1.json");
        assert_eq!(pick(r#"{"url":"https://h.example/a/far.csv?x=1"}"#), "far.csv");
        assert_eq!(pick(r#"{"url":"https://h.example/a/..%2f..%2fetc.x"}"#), "%2f..%2fetc.x");
        assert_eq!(pick(r#"{"url":"https://h.example/"}"#), "mary-1.bin");
    }
}
