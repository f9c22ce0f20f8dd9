//! `GET /` for a person with a browser: the agents of this server, their health, and how to call them.
//!
//! A program that asks for JSON gets the same response as before. The page says nothing that the public cards do not
//! say.

use super::page::{STYLE, escaped, put};
use super::{CATALOG, CatalogEntry};

/// Agents that the page shows; the catalog has the rest.
const AGENTS_MAX: usize = 50;

/// Builds the page. `root` is the URL of this server.
pub(super) fn write(entries: &[CatalogEntry], root: &str) -> String {
    let mut page = String::with_capacity(4096);
    page += "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
             content=\"width=device-width\"><title>Sabir</title><style>";
    page += STYLE;
    page += "pre{background:#f4f4f4;padding:.7rem;overflow-x:auto}table{border-collapse:collapse;width:100%}\
             td,th{text-align:left;padding:.3rem .8rem .3rem 0;vertical-align:top}";
    page +=
        "</style></head><body><h1>Sabir</h1><p>This server speaks A2A, the protocol by which agents call agents.</p>";
    if entries.is_empty() {
        page += "<p>It has no agents yet. Add one with <code>sabir agent add URL</code>.</p>";
    } else {
        page += "<h2>Agents</h2><table><tr><th>Name</th><th>State</th><th>What it does</th><th></th></tr>";
        for entry in entries.iter().take(AGENTS_MAX) {
            row(&mut page, entry);
        }
        page += "</table>";
    }
    if entries.len() > AGENTS_MAX {
        put(&mut page, format_args!("<p>And {} more.</p>", entries.len() - AGENTS_MAX));
    }
    let is_default =
        |entry: &&CatalogEntry| entry.card_url.strip_prefix(root).is_some_and(|path| path.starts_with("/.well-known/"));
    if let Some(entry) = entries.iter().find(is_default).or(entries.first()) {
        calls(&mut page, entry, root);
    }
    put(
        &mut page,
        format_args!(
            "<p><a href=\"{CATALOG}\">Search the catalog</a> · <a href=\"/.well-known/agent-card.json\">Agent card</a> · \
             <a href=\"/metrics\">Metrics</a></p></body></html>\n"
        ),
    );
    page
}

fn row(page: &mut String, entry: &CatalogEntry) {
    let (class, word) = entry.health.state.class_and_word();
    let [name, description, card] = [&entry.name, &entry.description, &entry.card_url].map(|text| escaped(text));
    put(
        page,
        format_args!(
            "<tr><td><code>{name}</code></td><td class=\"{class}\">{word}</td><td><bdi>{description}</bdi></td>\
             <td><a href=\"{card}\">card</a></td></tr>"
        ),
    );
}

/// How to call an agent from a terminal.
fn calls(page: &mut String, entry: &CatalogEntry, root: &str) {
    let url = entry.card_url.strip_suffix("/.well-known/agent-card.json").unwrap_or(root);
    let (url, name) = (escaped(url), escaped(&entry.name));
    put(
        page,
        format_args!(
            "<h2>Call <code>{name}</code></h2><pre>sabir chat {url}\nsabir send {url} \"hello\"</pre><p>Or without Sabir:</p>\
             <pre>curl {url}/message:send -H 'A2A-Version: 1.0' -H 'Content-Type: application/json' -d \
             '{{\"message\":{{\"messageId\":\"1\",\"role\":\"ROLE_USER\",\"parts\":[{{\"text\":\"hello\"}}]}}}}'</pre>"
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{AgentHealth, HealthState};

    fn entry(name: &str, description: &str) -> CatalogEntry {
        CatalogEntry {
            name: name.into(),
            display_name: name.into(),
            description: description.into(),
            version: "1".into(),
            provider: None,
            card_url: format!("http://127.0.0.1:1/agents/{name}/.well-known/agent-card.json"),
            interfaces: Vec::new(),
            skills: Vec::new(),
            input_modes: Vec::new(),
            output_modes: Vec::new(),
            health: AgentHealth { state: HealthState::Up, heard_at: None },
        }
    }

    #[test]
    fn the_page_shows_the_agents_and_how_to_call_them() {
        let page = write(&[entry("echo", "Says it back <script>")], "http://127.0.0.1:1");
        assert!(
            page.contains("<code>echo</code>") && page.contains("sabir chat http://127.0.0.1:1/agents/echo"),
            "{page}"
        );
        assert!(page.contains("Says it back &lt;script&gt;") && !page.contains("<script"), "{page}");
    }

    #[test]
    fn a_server_without_agents_says_what_to_do() {
        assert!(write(&[], "http://127.0.0.1:1").contains("sabir agent add URL"));
        let many: Vec<CatalogEntry> = (0..60).map(|n| entry(&format!("a{n}"), "")).collect();
        assert!(write(&many, "http://127.0.0.1:1").contains("And 10 more."));
    }
}
