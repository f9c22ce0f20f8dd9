//! Media types, and the words that 0.1 and XPR use instead.

use crate::{LossKind, Losses};

/// The media type a word stands for.
pub(crate) fn media_type(word: &str) -> Option<&'static str> {
    match word {
        "text" => Some("text/plain"),
        "data" => Some("application/json"),
        "file" => Some("*/*"),
        _ => None,
    }
}

/// The word for a media type.
fn word(media_type: &str) -> &'static str {
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match &*essence {
        "text" => "text",
        "data" | "application/json" => "data",
        _ if essence.starts_with("text/") => "text",
        _ => "file",
    }
}

/// Writes media types as words. The list is noted as lost unless the words are read back as the same list.
pub(super) fn words(media_types: &[String], path: &str, losses: &mut Losses) -> Vec<&'static str> {
    let mut words = Vec::new();
    for word in media_types.iter().map(|m| word(m)) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    if !words.iter().map(|word| media_type(word)).eq(media_types.iter().map(|m| Some(&**m))) {
        losses.note(LossKind::CardMember, path);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_once_and_what_they_hide_is_noted() {
        let check = |media_types: &[&str], expected: &[&str], lost: bool| {
            let mut losses = Losses::new();
            let media_types: Vec<String> = media_types.iter().map(|&m| m.into()).collect();
            assert_eq!(words(&media_types, "defaultInputModes", &mut losses), expected);
            assert_eq!(!losses.is_empty(), lost, "{media_types:?}");
        };
        check(&["text/plain", "application/json", "*/*"], &["text", "data", "file"], false);
        check(&["Text/HTML; charset=utf-8"], &["text"], true);
        check(&["text/plain", "text/markdown", "image/png"], &["text", "file"], true);
        check(&["application/json;q=1"], &["data"], true);
        check(&["text"], &["text"], true);
        check(&[], &[], false);
    }
}
