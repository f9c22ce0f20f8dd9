//! Parts and messages: nothing an agent said is dropped.

use super::{Fields, Node};
use crate::output::indented;

/// The parts of a message or artifact.
pub(super) fn parts(fields: &mut Fields, holder: Node<'_>, verbose: bool) {
    for part in holder.list("parts") {
        one(fields, part, verbose);
    }
}

fn one(fields: &mut Fields, part: Node<'_>, verbose: bool) {
    if let Some(text) = part.get("text").and_then(Node::text) {
        fields.block("Text", &text);
        about(fields, part);
    } else if let Some(raw) = part.get("raw").and_then(Node::text) {
        about(fields, part);
        match sabir_proto::decode_base64(&raw) {
            Ok(bytes) => fields.field("File size", &bytes.len().to_string()),
            Err(_) => fields.field("File size", "unknown, the content is not base64"),
        }
    } else if let Some(url) = part.get("url").and_then(Node::text) {
        about(fields, part);
        fields.field("File URL", &url);
    } else if let Some((_, data)) = part.members().into_iter().find(|(name, _)| name == "data") {
        fields.block("Data", &indented(data.raw()));
        about(fields, part);
    } else {
        // A kind of part that is younger than this tool.
        fields.block("Data", &indented(part.raw()));
    }
    if verbose {
        metadata(fields, part);
    }
}

fn about(fields: &mut Fields, part: Node<'_>) {
    fields.maybe("File name", part.word("filename").as_deref());
    fields.maybe("File media type", part.word("mediaType").as_deref());
}

pub(super) fn metadata(fields: &mut Fields, holder: Node<'_>) {
    if let Some(metadata) = holder.get("metadata") {
        fields.block("Metadata", &indented(metadata.raw()));
    }
}

/// A message with everything that is in it.
pub(crate) fn message(fields: &mut Fields, message: Node<'_>, verbose: bool) {
    fields.maybe("Message ID", message.word("messageId").as_deref());
    fields.maybe("Role", message.word("role").as_deref());
    parts(fields, message, verbose);
    if verbose {
        metadata(fields, message);
    }
}

/// What an agent says about a state: its words in one block, anything else after it.
pub(super) fn status_message(fields: &mut Fields, status: Node<'_>, verbose: bool) {
    let Some(said) = status.get("message") else { return };
    let parts = said.list("parts");
    let words: Vec<String> = parts.iter().filter_map(|part| part.get("text")?.text()).collect();
    if !words.is_empty() {
        fields.block("Status message", &words.join("\n"));
    }
    for part in parts.into_iter().filter(|part| part.get("text").and_then(Node::text).is_none()) {
        one(fields, part, verbose);
    }
    if verbose {
        metadata(fields, said);
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
        let mut fields = Fields::new();
        message(&mut fields, Node::new(text), false);
        assert_eq!(
            fields.finish(),
            "Message ID: m1\nRole: ROLE_AGENT\nText:\n  hi\n  there\n\nFile name: a.bin\nFile media type: x/y\n\
             File size: 3\nFile URL: https://a.example/b.png\nData:\n  {\n    \"b\": 1,\n    \"a\": []\n  }\n\n\
             Data:\n  null\n\nData:\n  {\n    \"hologram\": \"x\"\n  }\n\n"
        );
    }
}
