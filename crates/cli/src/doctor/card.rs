//! The card: its address, what is there instead, and what it says.

use super::Examination;
use super::checks::DoctorCheck::{
    CardCache, CardInterfaces, CardJson, CardLint, CardMissing, CardPath, CardRedirect, CardRequired, CardSchemes,
    CardSignature, CardSize, CardType, CardUrl, HttpAnswer,
};
use super::host::millis_text;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sabir_client::signature::{TrustPolicy, UntrustedReason, verified_card};
use sabir_client::{
    AgentReference, ChosenInterface, DiscoveredCard, Error, ProbedPage, REDIRECTS_MAX, VersionPolicy, WELL_KNOWN,
    choose_interface, is_loopback, url_below,
};
use sabir_wire::card::CARD_BYTES_MAX;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use url::{Host, Url};

/// What is at an address where a card may be.
enum CardFetch {
    Card(Box<DiscoveredCard>, HeaderMap, Duration),
    /// To another origin.
    Redirect(String),
    WebPage,
    NotJson(String),
    TooLarge,
    NotACard(String),
    Forbidden(StatusCode),
    Absent(StatusCode),
    /// A proxy answered that it cannot reach the server.
    GatewayError(StatusCode),
    NoAnswer(String),
}

impl CardFetch {
    /// The priority of this result where no card was found: the one with the lowest rank is reported.
    const fn rank(&self) -> u8 {
        match self {
            Self::Card(..) => 0,
            Self::Redirect(_) => 1,
            Self::TooLarge => 2,
            Self::NotJson(_) => 3,
            Self::WebPage => 4,
            Self::NotACard(_) => 5,
            Self::Forbidden(_) => 6,
            Self::Absent(_) => 7,
            Self::GatewayError(_) => 8,
            Self::NoAnswer(_) => 9,
        }
    }
}

/// Finds the card. `None`: there is none, and the report says so.
pub(super) async fn find(exam: &mut Examination<'_>, reference: &AgentReference) -> Option<DiscoveredCard> {
    let url = match reference {
        AgentReference::Origin(url) | AgentReference::Url(url) => url,
        AgentReference::File(_) => return check_unfetched(exam, reference, "the card is a file").await,
    };
    let direct = matches!(reference, AgentReference::Url(_));
    let mut places: Vec<Url> = WELL_KNOWN.iter().map(|path| url_below(url, path)).collect();
    if direct {
        places.insert(0, url.clone());
    }
    let mut found = Vec::new();
    for place in &places {
        exam.report.set_step("fetching the card");
        let there = fetch_card(exam, place).await;
        let done = matches!(there, CardFetch::Card(..));
        found.push((place.clone(), there));
        if done {
            break;
        }
    }
    // An agent may answer a GET of its own address as it likes.
    if direct && !url.path().ends_with(".json") && !matches!(found.first(), Some((_, CardFetch::Card(..)))) {
        found.remove(0);
    }
    found.sort_by_key(|(_, there)| there.rank());
    let (place, there) = found.into_iter().next()?;
    match there {
        CardFetch::NoAnswer(why) => {
            exam.report.report_fault(HttpAnswer, why);
            exam.report.skip_remaining("there is no answer");
            return None;
        }
        CardFetch::GatewayError(status) => {
            exam.report.report_fault_with_fix(
                HttpAnswer,
                format!("HTTP {status} from a proxy"),
                "start the agent behind the proxy, or correct where the proxy looks for it",
            );
            exam.report.skip_remaining("there is no answer");
            return None;
        }
        CardFetch::Card(found, headers, elapsed) => {
            exam.report.ok(HttpAnswer, format!("first byte after {}", millis_text(elapsed)));
            exam.report.ok(CardMissing, place.to_string());
            let usual = place.path().ends_with(WELL_KNOWN[0]) || (direct && place == *url);
            exam.report.report_result(
                CardPath,
                place.path(),
                (!usual).then(|| format!("found at {} only", place.path())),
            );
            check_fetched(exam, &found, &headers).await;
            return Some(*found);
        }
        _ => exam.report.ok(HttpAnswer, "answers"),
    }
    if direct && let Ok(found) = exam.client.card(reference).await {
        exam.report.skip(CardMissing, "found in a catalogue");
        return Some(found);
    }
    report_missing_card(exam, &place, there);
    exam.report.skip_remaining("there is no card to go by");
    None
}

/// Reports what is there in place of a card.
fn report_missing_card(exam: &mut Examination<'_>, place: &Url, there: CardFetch) {
    let at = place.path();
    match there {
        CardFetch::Redirect(to) => exam.report.report_fault(CardRedirect, format!("{at} redirects to {to}")),
        CardFetch::WebPage => exam.report.report_fault(CardType, format!("{at} is a web page")),
        CardFetch::NotJson(why) => exam.report.report_fault(CardJson, format!("{at}: {why}")),
        CardFetch::TooLarge => {
            exam.report.report_fault(CardSize, format!("{at} is larger than {CARD_BYTES_MAX} bytes"))
        }
        CardFetch::NotACard(why) => exam.report.report_fault(CardRequired, format!("{at}: {why}")),
        CardFetch::Forbidden(status) => {
            exam.report.report_fault(CardMissing, format!("{at} is not public: HTTP {status}"))
        }
        CardFetch::Absent(status) => {
            exam.report.report_fault(CardMissing, format!("HTTP {status} at {}", WELL_KNOWN.join(" and ")));
        }
        CardFetch::Card(..) | CardFetch::GatewayError(_) | CardFetch::NoAnswer(_) => {}
    }
}

/// A card that was not fetched here: only its contents are checked.
async fn check_unfetched(exam: &mut Examination<'_>, reference: &AgentReference, why: &str) -> Option<DiscoveredCard> {
    match exam.client.card(reference).await {
        Ok(found) => {
            exam.report.skip(CardMissing, why);
            check_contents(exam, &found);
            Some(found)
        }
        Err(Error::CardInvalid { reason, .. }) => {
            exam.report.report_fault(CardJson, reason);
            exam.report.skip_remaining("there is no card to go by");
            None
        }
        Err(error) => {
            exam.report.report_fault(CardMissing, error.to_string());
            exam.report.skip_remaining("there is no card to go by");
            None
        }
    }
}

async fn fetch_card(exam: &Examination<'_>, place: &Url) -> CardFetch {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, application/a2a+json"));
    headers.insert(sabir_wire::version::HEADER, HeaderValue::from_static("1.0"));
    let mut at = place.clone();
    at.set_fragment(None);
    for _ in 0..=REDIRECTS_MAX {
        let page = exam.probe.page(&at, headers.clone(), CARD_BYTES_MAX);
        let page = match tokio::time::timeout(exam.gap, page).await {
            Ok(Ok(page)) => page,
            Ok(Err(error)) => return CardFetch::NoAnswer(error.to_string()),
            Err(_) => return CardFetch::NoAnswer(format!("no answer within {}", exam.gap_text())),
        };
        let target = page.status.is_redirection().then(|| page.headers.get(header::LOCATION)).flatten();
        match target.and_then(|target| target.to_str().ok()).and_then(|target| at.join(target).ok()) {
            None => return classify_page(page, &at),
            Some(target) if target.origin() == place.origin() => at = target,
            Some(target) => return CardFetch::Redirect(target.origin().ascii_serialization()),
        }
    }
    CardFetch::Redirect("itself, again and again".into())
}

fn classify_page(page: ProbedPage, at: &Url) -> CardFetch {
    match page.status.as_u16() {
        200..=299 => {}
        401 | 403 => return CardFetch::Forbidden(page.status),
        502..=504 => return CardFetch::GatewayError(page.status),
        _ => return CardFetch::Absent(page.status),
    }
    let body = match page.body {
        Ok(body) => body,
        Err(Error::TooLarge { .. }) => return CardFetch::TooLarge,
        Err(error) => return CardFetch::NotJson(error.to_string()),
    };
    let kind = page.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let starts = body.trim_ascii_start().first().copied();
    if starts == Some(b'<') || (kind.starts_with("text/html") && starts != Some(b'{')) {
        return CardFetch::WebPage;
    }
    if let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(&body) {
        return CardFetch::NotJson(format!("{} bytes that are not JSON: {error}", body.len()));
    }
    match DiscoveredCard::read(&body, Some(at.clone()), at.as_str()) {
        Ok(found) => CardFetch::Card(Box::new(found), page.headers, page.elapsed),
        Err(Error::CardInvalid { reason, .. }) => CardFetch::NotACard(reason),
        Err(error) => CardFetch::NotACard(error.to_string()),
    }
}

/// Checks the contents of a fetched card, and how it is served.
async fn check_fetched(exam: &mut Examination<'_>, found: &DiscoveredCard, headers: &HeaderMap) {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    exam.report.ok(CardRedirect, "none, or within the origin");
    exam.report.ok(CardType, text(header::CONTENT_TYPE));
    exam.report.ok(CardJson, format!("a card of {}", found.form));
    exam.report.ok(CardSize, format!("{} bytes", found.source_json().len()));
    check_contents(exam, found);
    check_signature(exam, found).await;
    let marks: Vec<&str> = ["etag", "cache-control"].into_iter().filter(|name| headers.contains_key(*name)).collect();
    let lacking = marks.is_empty().then(|| "neither ETag nor Cache-Control".to_owned());
    exam.report.report_result(CardCache, marks.join(", "), lacking);
}

fn check_contents(exam: &mut Examination<'_>, found: &DiscoveredCard) {
    let (missing, others): (Vec<_>, Vec<_>) = found.lint.iter().partition(|lint| lint.id == "missing");
    let paths: Vec<&str> = missing.iter().map(|lint| lint.path.as_str()).collect();
    let lacking = (!paths.is_empty()).then(|| format!("there is no {}", paths.join(", ")));
    exam.report.report_result(CardRequired, "all there", lacking);
    let first: Vec<String> = others.iter().take(3).map(|lint| format!("{}: {}", lint.path, lint.message)).collect();
    let more = if others.len() > 3 { format!(" and {} more", others.len() - 3) } else { String::new() };
    let departs = (!first.is_empty()).then(|| format!("{}{more}", first.join("; ")));
    exam.report.report_result(CardLint, "follows the rules of its version", departs);
    let card = &found.card;
    let named = card.security_requirements.iter().flat_map(|requirement| requirement.schemes.keys());
    let mut ghosts: Vec<&str> =
        named.filter(|name| !card.security_schemes.contains_key(*name)).map(String::as_str).collect();
    ghosts.dedup();
    let undefined = (!ghosts.is_empty()).then(|| format!("{} is required and not defined", ghosts.join(", ")));
    let defined: Vec<&str> = card.security_schemes.keys().map(String::as_str).collect();
    let well = if defined.is_empty() { "none".to_owned() } else { defined.join(", ") };
    exam.report.report_result(CardSchemes, well, undefined);
}

async fn check_signature(exam: &mut Examination<'_>, found: &DiscoveredCard) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let trust = TrustPolicy { card_url: found.url.clone(), now, ..TrustPolicy::default() };
    match tokio::time::timeout(exam.gap, verified_card(found, &trust, &exam.client)).await {
        Ok(Ok(vouched)) => exam.report.ok(CardSignature, format!("holds, key {}", vouched.kid)),
        Ok(Err(UntrustedReason::Unsigned)) => exam.report.skip(CardSignature, "the card is not signed"),
        Ok(Err(UntrustedReason::Unverifiable(reason))) if reason.is_bad_signature() => {
            exam.report.report_fault(CardSignature, reason.to_string());
        }
        Ok(Err(distrust @ UntrustedReason::Uncovered(_))) => {
            exam.report.report_fault(CardSignature, distrust.to_string())
        }
        Ok(Err(UntrustedReason::Unverifiable(reason))) => {
            exam.report.skip(CardSignature, format!("cannot be checked: {reason}"));
        }
        Err(_) => exam.report.skip(CardSignature, "cannot be checked: the keys do not come"),
    }
}

/// The interfaces that can be called, each as a card of its own.
pub(super) fn interfaces(exam: &mut Examination<'_>, found: &DiscoveredCard) -> Vec<(DiscoveredCard, ChosenInterface)> {
    let (mut usable, mut addresses, mut wrong, mut unknown) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for interface in &found.card.supported_interfaces {
        let mut single = found.clone();
        single.card.supported_interfaces = vec![interface.clone()];
        match choose_interface(&single, &[], VersionPolicy::Any) {
            Ok(chosen) => match unreachable(&chosen.url, found.url.as_ref()) {
                None => {
                    addresses.push(chosen.url.to_string());
                    usable.push((single, chosen));
                }
                Some(why) => wrong.push(format!("{}: {why}", interface.url)),
            },
            Err(Error::CardInvalid { reason, .. }) => wrong.push(reason),
            Err(_) => unknown.push(format!("{} {}", interface.protocol_binding, interface.protocol_version)),
        }
    }
    if addresses.is_empty() && wrong.is_empty() {
        exam.report.skip(CardUrl, "no interface that we speak");
    } else {
        addresses.dedup();
        exam.report.report_result(CardUrl, addresses.join(" "), (!wrong.is_empty()).then(|| wrong.join("; ")));
    }
    let names: Vec<String> = usable.iter().map(|(_, chosen)| interface_name(chosen)).collect();
    let strange = if unknown.is_empty() { String::new() } else { format!("; not known here: {}", unknown.join(", ")) };
    match (usable.is_empty(), wrong.is_empty()) {
        (true, true) if unknown.is_empty() => exam.report.report_fault(CardInterfaces, "the card lists none"),
        (true, true) => exam.report.report_fault(CardInterfaces, format!("only {}", unknown.join(", "))),
        (true, false) => exam.report.skip(CardInterfaces, "none whose address can be called"),
        (false, _) => exam.report.ok(CardInterfaces, names.join(", ") + &strange),
    }
    if usable.is_empty() {
        exam.report.skip_remaining("there is no interface to call");
    }
    usable
}

/// Why clients on other machines cannot call an address.
fn unreachable(url: &Url, card: Option<&Url>) -> Option<String> {
    let unspecified = match url.host() {
        Some(Host::Ipv4(address)) => address.is_unspecified(),
        Some(Host::Ipv6(address)) => address.is_unspecified(),
        _ => false,
    };
    if unspecified {
        return Some("that is what a server listens on, and no address to call".into());
    }
    let foreign = card.is_some_and(|card| !is_loopback(card));
    (is_loopback(url) && foreign).then(|| "that is this machine for every reader of the card".into())
}

/// An interface for people.
pub(super) fn interface_name(chosen: &ChosenInterface) -> String {
    format!("{} {}", chosen.binding, chosen.dialect)
}
