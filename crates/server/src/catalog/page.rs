//! The catalog as an HTML page: it needs no script, loads nothing, and escapes all texts of agents.

use super::CatalogEntry;
use super::search::CatalogQuery;
use std::fmt::Write as _;
use url::form_urlencoded::Serializer;

pub(super) const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}\
    form{display:flex;flex-wrap:wrap;gap:.5rem}article{border-top:1px solid #ddd;padding:1rem 0}\
    h2{margin:0}code,small{color:#555}.down{color:#a00}.up{color:#060}ul{padding-left:1.2rem}";

/// Builds the page of these entries.
pub(super) fn write(wanted: &CatalogQuery, entries: &[CatalogEntry], total: usize, next: Option<&str>) -> String {
    let mut page = String::with_capacity(4096);
    let title = match total {
        1 => "1 agent".to_owned(),
        n => format!("{n} agents"),
    };
    page += "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
             content=\"width=device-width\"><title>Agents</title><style>";
    page += STYLE;
    page += "</style></head><body><h1>Agents</h1><form method=\"get\" action=\"/catalog\">";
    for (name, label, value) in [
        ("q", "Words", &wanted.text),
        ("skill", "Skill", &wanted.skill),
        ("tag", "Tag", &wanted.tag),
        ("mode", "Media type", &wanted.mode),
    ] {
        let value = escaped(value.as_deref().unwrap_or_default());
        put(&mut page, format_args!("<label>{label} <input name=\"{name}\" value=\"{value}\"></label>"));
    }
    put(&mut page, format_args!("<button>Search</button></form><p>{title}</p>"));
    for entry in entries {
        article(&mut page, entry);
    }
    if let Some(next) = next {
        let mut query = Serializer::new(String::new());
        let terms = [("q", &wanted.text), ("skill", &wanted.skill), ("tag", &wanted.tag), ("mode", &wanted.mode)];
        for (name, value) in terms {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        query.append_pair("limit", &wanted.limit.to_string()).append_pair("pageToken", next);
        let query = escaped(&query.finish());
        put(&mut page, format_args!("<p><a href=\"/catalog?{query}\" rel=\"next\">More agents</a></p>"));
    }
    page += "</body></html>\n";
    page
}

fn article(page: &mut String, entry: &CatalogEntry) {
    let (class, word) = entry.health.state.class_and_word();
    let [name, title, description, version, card] =
        [&entry.name, &entry.display_name, &entry.description, &entry.version, &entry.card_url]
            .map(|text| escaped(text));
    put(page, format_args!("<article id=\"{name}\"><h2>{title}</h2><p><code>{name}</code> <small>{version}</small>"));
    put(page, format_args!(" <span class=\"{class}\">{word}</span></p><p>{description}</p><ul>"));
    for skill in &entry.skills {
        let (name, description) = (escaped(&skill.name), escaped(&skill.description));
        let tags = escaped(&skill.tags.join(", "));
        put(page, format_args!("<li><b>{name}</b>: {description} <small>{tags}</small></li>"));
    }
    put(page, format_args!("</ul><p><a href=\"{card}\">Card</a></p></article>"));
}

pub(super) fn put(page: &mut String, words: std::fmt::Arguments<'_>) {
    let written = page.write_fmt(words);
    debug_assert!(written.is_ok(), "writing to a string cannot fail");
}

/// Text with the characters of markup escaped, for elements and attributes.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobodys_words_are_markup() {
        assert_eq!(escaped("<script>\"a\" & 'b'"), "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;");
        let wanted = CatalogQuery { text: Some("\"><script>".into()), limit: 1, ..CatalogQuery::default() };
        let page = write(&wanted, &[], 2, Some("<b>&"));
        assert!(!page.contains("<script") && !page.contains("<b>&"), "{page}");
        assert!(page.contains("value=\"&quot;&gt;&lt;script&gt;\""), "{page}");
    }
}
