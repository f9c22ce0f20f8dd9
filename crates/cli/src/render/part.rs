//! Parts and messages: nothing an agent said is dropped.

use super::{Floor, Node};
use crate::output::indented;

/// The parts of a message or artifact.
pub(super) fn parts(floor: &mut Floor, holder: Node<'_>, verbose: bool) {
    for part in holder.list("parts") {
        one(floor, part, verbose);
    }
}

fn one(floor: &mut Floor, part: Node<'_>, verbose: bool) {
    if let Some(text) = part.get("text").and_then(Node::text) {
        floor.block("Text", &text);
        about(floor, part);
    } else if let Some(raw) = part.get("raw").and_then(Node::text) {
        about(floor, part);
        match sabir_proto::decode_base64(&raw) {
            Ok(bytes) => floor.field("File size", &bytes.len().to_string()),
            Err(_) => floor.field("File size", "unknown, the content is not base64"),
        }
    } else if let Some(url) = part.get("url").and_then(Node::text) {
        about(floor, part);
        floor.field("File URL", &url);
    } else if let Some((_, data)) = part.members().into_iter().find(|(name, _)| name == "data") {
        floor.block("Data", &indented(data.raw()));
        about(floor, part);
    } else {
        // A kind of part that is younger than this tool.
        floor.block("Data", &indented(part.raw()));
    }
    if verbose {
        metadata(floor, part);
    }
}

fn about(floor: &mut Floor, part: Node<'_>) {
    floor.maybe("File name", part.word("filename").as_deref());
    floor.maybe("File media type", part.word("mediaType").as_deref());
}

pub(super) fn metadata(floor: &mut Floor, holder: Node<'_>) {
    if let Some(metadata) = holder.get("metadata") {
        floor.block("Metadata", &indented(metadata.raw()));
    }
}

/// A message with everything that is in it.
pub(crate) fn message(floor: &mut Floor, message: Node<'_>, verbose: bool) {
    floor.maybe("Message ID", message.word("messageId").as_deref());
    floor.maybe("Role", message.word("role").as_deref());
    parts(floor, message, verbose);
    if verbose {
        metadata(floor, message);
    }
}

/// What an agent says about a state: its words in one block, anything else after it.
pub(super) fn status_message(floor: &mut Floor, status: Node<'_>, verbose: bool) {
    let Some(said) = status.get("message") else { return };
    let parts = said.list("parts");
    let words: Vec<String> = parts.iter().filter_map(|part| part.get("text")?.text()).collect();
    if !words.is_empty() {
        floor.block("Status message", &words.join("\n"));
    }
    for part in parts.into_iter().filter(|part| part.get("text").and_then(Node::text).is_none()) {
        one(floor, part, verbose);
    }
    if verbose {
        metadata(floor, said);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_part_is_shown() {
        let text = r#"{"messageId":"m1","role":"ROLE_AGENT","parts":[
            {"text":"hi\nthere"},{"raw":"AAEC","filename":"a.bin","mediaType":"x/y"},
            {"url":"https://a.example/b.png"},{"data":{"b":1,"a":[]}},{"data":null},{"hologram":"x"}]}"#;
        let mut floor = Floor::new();
        message(&mut floor, Node::new(text), false);
        assert_eq!(
            floor.finish(),
            "Message ID: m1\nRole: ROLE_AGENT\nText:\n  hi\n  there\n\nFile name: a.bin\nFile media type: x/y\n\
             File size: 3\nFile URL: https://a.example/b.png\nData:\n  {\n    \"b\": 1,\n    \"a\": []\n  }\n\n\
             Data:\n  null\n\nData:\n  {\n    \"hologram\": \"x\"\n  }\n\n"
        );
    }
}
