//! Sample content of the demo: files of every kind, hostile file names, and text with terminal escape codes.

use sabir_proto::{Artifact, ArtifactId, Content, Json, Part};

/// Colour, title, cursor, screen, hyperlink, C1 and carriage return: what a client must not print to a terminal
/// unfiltered.
pub(super) const ESCAPES: &str = "plain \u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7} \u{1b}[2J\u{1b}[H up\u{1b}[1A \
    \u{1b}]8;;http://example.com\u{1b}\\link\u{1b}]8;;\u{1b}\\ \u{9b}32mgreen \u{8}\u{7f} right-to-left \u{202e}txt.exe\
    \u{202c} over\rwritten end";

/// A PNG picture of one white pixel.
const PIXEL: [u8; 67] = [
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0, 0, 1, 8,
    0, 0, 0, 0, 0x3a, 0x7e, 0x9b, 0x55, 0, 0, 0, 0x0a, b'I', b'D', b'A', b'T', 0x78, 0xda, 0x63, 0xf8, 0x0f, 0, 1, 1,
    1, 0, 0x1c, 0xb0, 0x8c, 0x99, 0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];

/// Names that leave the directory, mean a device, cannot be displayed, or are not legal.
const HOSTILE_NAMES: [&str; 16] = [
    "../../etc/passwd",
    "/etc/shadow",
    "..\\..\\windows\\system32\\config",
    "C:\\autoexec.bat",
    "CON",
    "nul.txt",
    "..",
    ".",
    "~/.ssh/authorized_keys",
    ".bashrc",
    "-rf",
    "nul\0byte.txt",
    "bell\u{7}and\nline\u{1b}[31m.txt",
    "photo\u{202e}gpj.exe",
    "stream.txt:hidden",
    "%2e%2e%2fencoded",
];

/// Artifacts with every kind of part, with and without names.
pub(super) fn files(base: &str) -> Vec<Artifact> {
    let table = Json::parse(r#"{"harbour":"Genoa","ships":[{"name":"Santa Clara","tons":110}]}"#);
    let mut report = artifact("report", vec![named(text("# Report\n\nAll is well.\n"), "report.md", "text/markdown")]);
    report.parts.extend(table.map(|table| named(Part::data(table), "table.json", "application/json")));
    report.name = Some("Harbour report".into());
    report.description = Some("Text and data in one artifact.".into());
    let pixel = Part::new(Content::Raw(PIXEL.into()));
    let link = Part::new(Content::Url(format!("{base}/.well-known/agent-card.json")));
    vec![
        report,
        artifact("picture", vec![named(pixel, "pixel.png", "image/png")]),
        artifact("link", vec![named(link, "agent-card.json", "application/json")]),
        artifact("notes", vec![text("A part without a name."), text("And another.")]),
    ]
}

/// Artifacts with hostile names, to test clients that write files.
pub(super) fn hostile() -> Vec<Artifact> {
    let long = "a".repeat(4096);
    let names = HOSTILE_NAMES.into_iter().chain([&*long, "same.txt", "same.txt", "SAME.TXT"]);
    let traps = names.enumerate().map(|(n, name)| {
        let mut trap = artifact(&format!("trap-{n}"), vec![named(text("a trap\n"), name, "text/plain")]);
        trap.name = Some(name.into());
        trap
    });
    traps.collect()
}

/// Numbered lines of 64 bytes, so that a reader can see a missing piece.
pub(super) fn text_of_kib(kib: usize) -> String {
    (0..kib * 16).map(|line| format!("{line:>8} {}\n", "sabir ".repeat(9))).collect()
}

fn text(text: &str) -> Part {
    Part::text(text)
}

fn named(part: Part, filename: &str, media_type: &str) -> Part {
    Part { filename: Some(filename.into()), media_type: Some(media_type.into()), ..part }
}

fn artifact(id: &str, parts: Vec<Part>) -> Artifact {
    Artifact::new(ArtifactId::parse(id).expect("the ids here are plain words"), parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn big_text_is_as_big_as_it_was_asked_for() {
        assert_eq!((text_of_kib(1).len(), text_of_kib(64).len()), (1024, 65536));
    }

    #[test]
    fn there_is_every_kind_of_part_in_several_artifacts() {
        let files = files("http://127.0.0.1:1");
        let parts: Vec<&Part> = files.iter().flat_map(|a| &a.parts).collect();
        let has = |kind: fn(&Content) -> bool| parts.iter().any(|part| kind(&part.content));
        assert!(files.len() > 1 && has(|c| matches!(c, Content::Text(_))) && has(|c| matches!(c, Content::Data(_))));
        assert!(has(|c| matches!(c, Content::Raw(_))) && has(|c| matches!(c, Content::Url(_))));
    }
}
