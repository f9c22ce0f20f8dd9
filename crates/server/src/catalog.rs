//! The catalog: the agents that this server serves, for programs and for people.
//!
//! | Path | What |
//! |---|---|
//! | `GET /catalog` | the agents as JSON, searched and in pages; as an HTML page if `Accept` asks for one |
//! | `GET /.well-known/ai-catalog.json` | all of them as an AI Catalog document, with links to their cards |
//!
//! It is made from the public cards and says nothing more. Those are open to every client that may connect. Skills that
//! are not public are in neither.
//!
//! | Module | What is there |
//! |---|---|
//! | here | the agents as entries, and the responses |
//! | `search` | which entries match a query |
//! | `page` | the entries as an HTML page |
//! | `home` | the page at `/` |
//! | `venues` | the venues of the booking network as entries |

mod home;
mod page;
mod search;
mod venues;

use crate::app::App;
use crate::body::{Body, JSON, answer};
use crate::directory::ServedAgent;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, VARY};
use http::{HeaderMap, Response, StatusCode};
use sabir_gateway::HealthStatus;
use sabir_proto::card::{Interface, Provider, Skill};
use sabir_proto::{AgentCard, Timestamp};
use search::{CatalogPage, CatalogQuery};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The path of the catalog.
pub(crate) const CATALOG: &str = "/catalog";
/// The path of the AI Catalog document.
pub(crate) const AI_CATALOG: &str = "/.well-known/ai-catalog.json";

const AI_CATALOG_TYPE: &str = "application/ai-catalog+json";
const CARD_TYPE: &str = "application/a2a-agent-card+json";
const HTML: &str = "text/html; charset=utf-8";
/// The page loads nothing, runs no script, and no other page may frame it.
const PAGE_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// An agent as the catalog lists it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct CatalogEntry {
    /// Its name on this server.
    name: String,
    /// The name in its card.
    display_name: String,
    description: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<Provider>,
    /// The URL of its card.
    card_url: String,
    interfaces: Vec<Interface>,
    skills: Vec<Skill>,
    input_modes: Vec<String>,
    output_modes: Vec<String>,
    health: AgentHealth,
}

/// The last known health of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct AgentHealth {
    state: HealthState,
    /// When its card was last fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    heard_at: Option<Timestamp>,
}

/// The health of an agent in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum HealthState {
    /// It runs in this process, or answered the last time.
    Up,
    /// It answers late, or not always.
    Degraded,
    /// It did not answer the last time.
    Down,
    /// It has not been checked yet.
    Unknown,
}

impl HealthState {
    /// Its CSS class and its word on a page.
    const fn class_and_word(self) -> (&'static str, &'static str) {
        match self {
            Self::Up => ("up", "up"),
            Self::Degraded => ("down", "slow or failing"),
            Self::Down => ("down", "down"),
            Self::Unknown => ("", "not known yet"),
        }
    }
}

impl CatalogEntry {
    fn of(served: &ServedAgent, root: &str, is_default: bool) -> Self {
        let card: Arc<AgentCard> = served.cards.public();
        let name = served.hosted.name.to_string();
        let base = if is_default { root.to_owned() } else { format!("{root}/agents/{name}") };
        Self {
            display_name: card.name.clone(),
            description: card.description.clone(),
            version: card.version.clone(),
            provider: card.provider.clone(),
            card_url: format!("{base}/.well-known/agent-card.json"),
            interfaces: card.supported_interfaces.clone(),
            skills: card.skills.clone(),
            input_modes: card.default_input_modes.clone(),
            output_modes: card.default_output_modes.clone(),
            health: AgentHealth::of(served),
            name,
        }
    }
}

impl AgentHealth {
    /// By its circuit breakers and the last fetch of its card. An agent in this process is always up.
    fn of(served: &ServedAgent) -> Self {
        let Some(elsewhere) = &served.remote_card else { return Self { state: HealthState::Up, heard_at: None } };
        let heard = elsewhere.fetch_status();
        let state = match (elsewhere.condition(), &heard.problem, heard.at) {
            (HealthStatus::Down, _, _) | (_, Some(_), _) => HealthState::Down,
            (HealthStatus::Degraded, None, _) => HealthState::Degraded,
            (HealthStatus::Healthy, None, Some(_)) => HealthState::Up,
            (HealthStatus::Healthy, None, None) => HealthState::Unknown,
        };
        Self { state, heard_at: heard.at }
    }
}

/// Serves `GET /catalog`.
pub(crate) async fn list(app: &App, query: &str, headers: &HeaderMap) -> Response<Body> {
    let wanted = match CatalogQuery::parse(query) {
        Ok(wanted) => wanted,
        Err(problem) => {
            return answer(StatusCode::BAD_REQUEST, JSON, json!({"error": problem}).to_string());
        }
    };
    let mut listed = entries(app);
    listed.extend(venues::entries(app, &wanted).await);
    listed.sort_by(|one, other| one.name.cmp(&other.name));
    let CatalogPage { entries, total, next } = wanted.page(listed);
    let mut response = if prefers_page(headers) {
        html(page::write(&wanted, &entries, total, next.as_deref()))
    } else {
        let mut said = json!({"agents": entries, "total": total});
        if let Some(next) = next {
            said["nextPageToken"] = next.into();
        }
        answer(StatusCode::OK, JSON, said.to_string())
    };
    set_cache_headers(&mut response);
    response
}

/// Serves `GET /` for a client that prefers a page.
pub(crate) fn home(app: &App) -> Response<Body> {
    let mut response = html(home::write(&entries(app), app.public.url.as_str()));
    set_cache_headers(&mut response);
    response
}

fn html(page: String) -> Response<Body> {
    let mut response = answer(StatusCode::OK, HTML, page);
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
    response
}

/// Caches must revalidate each time, because agents and their health change.
fn set_cache_headers(response: &mut Response<Body>) {
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
}

/// Serves `GET /.well-known/ai-catalog.json`.
pub(crate) fn document(app: &App) -> Response<Body> {
    let host = app.public.authority.as_str();
    let entry = |entry: CatalogEntry| -> Value {
        json!({
            "identifier": format!("urn:sabir:agent:{host}:{}", entry.name),
            "displayName": entry.display_name,
            "mediaType": CARD_TYPE,
            "url": entry.card_url,
        })
    };
    let listed: Vec<Value> = entries(app).into_iter().map(entry).collect();
    let said = json!({"specVersion": "1.0", "entries": listed});
    let mut response = answer(StatusCode::OK, AI_CATALOG_TYPE, said.to_string());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// All agents, by name.
fn entries(app: &App) -> Vec<CatalogEntry> {
    let default = app.default_agent().map(|served| served.hosted.name.clone());
    let all = app.directory.all();
    let root = app.public.url.as_str();
    all.values().map(|served| CatalogEntry::of(served, root, Some(&served.hosted.name) == default.as_ref())).collect()
}

/// Whether the client prefers a page to JSON: browsers name HTML first, and programs do not name it.
pub(crate) fn prefers_page(headers: &HeaderMap) -> bool {
    let quality = |range: &str, kinds: [&str; 2]| -> Option<f32> {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next()?.to_ascii_lowercase();
        let q = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok()).unwrap_or(1.0);
        kinds.contains(&kind.as_str()).then_some(q)
    };
    let best = |kinds: [&str; 2]| -> f32 {
        let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let ranges = values.flat_map(|value| value.split(',')).filter_map(|range| quality(range, kinds));
        ranges.fold(0.0, f32::max)
    };
    let page = best(["text/html", "application/xhtml+xml"]);
    page > 0.0 && page > best(["application/json", "application/*"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_get_a_page_and_programs_get_json() {
        for (accept, page) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
            ("application/json", false),
            ("*/*", false),
            ("", false),
            ("application/json, text/html;q=0.5", false),
            ("text/html, application/json;q=0.5", true),
            ("text/html;q=0", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(prefers_page(&headers), page, "{accept}");
        }
    }
}
