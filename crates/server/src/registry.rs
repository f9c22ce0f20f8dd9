//! `/registry/v1/…`: the public registry of networks. A record is accepted by its signature.
//!
//! | Request | What it does |
//! |---|---|
//! | `PUT networks/{id}` | accepts a signed record, and renews its lease |
//! | `DELETE networks/{id}` | accepts a signed record that is marked `withdrawn` |
//! | `GET networks/{id}` | the record and its signature |
//! | `GET search?intent=&category=&location=&feature=&limit=&cursor=` | networks by what they cover, best first |
//! | `GET changes?since=` | the changes since a number, for other registries |
//!
//! `publishers` limits how often an address may publish, and how many of its records are checked at the same time.

mod publishers;

use crate::app::App;
use crate::body::{Body, JSON, answer};
use crate::incoming_body::{RejectedBody, collect};
use crate::network::Network;
use crate::peer::Peer;
use crate::tokio_host::TokioHost;
use http::header::{ALLOW, CACHE_CONTROL, HeaderValue, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use publishers::Publishers;
use sabir_engine::Host as _;
use sabir_network::record::{BYTES_MAX, RecordFault, SignedRecord};
use sabir_network::registry::{AcceptedRecord, NetworkQuery, RecordRejection as NotTaken, RegistryEntry};
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// The common prefix of the paths.
const BASE: &str = "/registry/v1/";
/// Counts the records of each publishing address.
static PUBLISHERS: LazyLock<Publishers> = LazyLock::new(Publishers::default);
/// When a publisher may try again if its record could not be checked.
const RETRY_SOON: Duration = Duration::from_secs(1);
/// The default number of networks in a response.
const LIMIT_DEFAULT: usize = 20;

/// What a path below the prefix names.
pub(crate) enum RegistryPath {
    Network(String),
    Search,
    Changes,
}

impl RegistryPath {
    /// Finds what a path names.
    pub(crate) fn find(path: &str) -> Option<Self> {
        match path.strip_prefix(BASE)? {
            "search" => Some(Self::Search),
            "changes" => Some(Self::Changes),
            other => other.strip_prefix("networks/").map(|id| Self::Network(decode_id(id))),
        }
    }
}

/// Serves one request to the registry.
pub(crate) async fn serve(
    app: &Arc<App>,
    network: &Arc<Network>,
    place: RegistryPath,
    request: Request<Incoming>,
    peer: &Peer,
) -> Response<Body> {
    let query = request.uri().query().unwrap_or_default().to_owned();
    match (request.method().clone(), place) {
        (Method::GET | Method::HEAD, RegistryPath::Search) => search(network, &query),
        (Method::GET | Method::HEAD, RegistryPath::Changes) => changes(network, &query),
        (Method::GET | Method::HEAD, RegistryPath::Network(id)) => {
            match network.federation.registry().get(&id, TokioHost.now()) {
                Some(entry) => respond(StatusCode::OK, &entry_json(&entry)),
                None => refuse(StatusCode::NOT_FOUND, "not_found", "there is no such network here"),
            }
        }
        (method @ (Method::PUT | Method::DELETE), RegistryPath::Network(id)) => {
            match PUBLISHERS.count(peer.address, Instant::now()) {
                Ok(()) => accept_record(app, network, &id, request, peer, method == Method::DELETE).await,
                Err(wait) => {
                    refuse_until(StatusCode::TOO_MANY_REQUESTS, "rate", "this address publishes too often", wait)
                }
            }
        }
        (_, place) => {
            let allowed =
                if matches!(place, RegistryPath::Network(_)) { "GET, HEAD, PUT, DELETE" } else { "GET, HEAD" };
            let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, "method", &format!("this path takes {allowed}"));
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
            response
        }
    }
}

async fn accept_record(
    app: &Arc<App>,
    network: &Arc<Network>,
    id: &str,
    request: Request<Incoming>,
    peer: &Peer,
    withdraws: bool,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let taken = match collect(app, &parts.headers, body, BYTES_MAX).await {
        Ok(taken) => taken,
        Err(RejectedBody { status, fault }) => return refuse(status, "body", &fault.to_string()),
    };
    let federation = &network.federation;
    // A known network is checked against its last record, without a call to a host, so the check cannot be slow.
    let asks_host = !federation.registry().has_record(id, TokioHost.now());
    let looking = asks_host.then(|| PUBLISHERS.begin_check(peer.address)).transpose();
    let Ok(_looking) = looking else {
        return refuse_until(
            StatusCode::SERVICE_UNAVAILABLE,
            "busy",
            "too many records are looked at; try again",
            RETRY_SOON,
        );
    };
    let signed = SignedRecord::read(&taken.body).and_then(|signed| {
        let record = signed.parse_record()?;
        if record.withdrawn != withdraws {
            let words = "a record that says withdrawn is sent by DELETE, and any other by PUT";
            return Err(RecordFault::Invalid(words.into()));
        }
        Ok(signed)
    });
    let outcome = match signed {
        Ok(signed) => federation.registry().accept(id, signed, None, federation.fetch(), TokioHost.now()).await,
        Err(fault) => Err(fault.into()),
    };
    match outcome {
        Ok(taken) => {
            let status = if taken == AcceptedRecord::First { StatusCode::CREATED } else { StatusCode::OK };
            respond(
                status,
                &json!({"network_id": id, "status": if taken == AcceptedRecord::Unchanged { "unchanged" } else { "taken" }}),
            )
        }
        Err(why) => {
            let (status, code) = match &why {
                NotTaken::Record(RecordFault::Signature) => (StatusCode::FORBIDDEN, "invalid_signature"),
                NotTaken::Record(RecordFault::Invalid(_)) | NotTaken::WrongNetwork(_) => {
                    (StatusCode::UNPROCESSABLE_ENTITY, "invalid_record")
                }
                NotTaken::Stale(_) => (StatusCode::CONFLICT, "stale"),
                NotTaken::Equivocation(_) => (StatusCode::CONFLICT, "equivocation"),
                NotTaken::Unproven(_) => (StatusCode::FORBIDDEN, "unproven"),
                NotTaken::Full => (StatusCode::INSUFFICIENT_STORAGE, "full"),
            };
            refuse(status, code, &why.to_string())
        }
    }
}

fn search(network: &Network, query: &str) -> Response<Body> {
    let mut asked = NetworkQuery { limit: LIMIT_DEFAULT, ..NetworkQuery::default() };
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let text = || Some(value.clone().into_owned()).filter(|text| !text.is_empty());
        let number = || value.parse::<usize>();
        match &*name {
            "intent" => asked.intent = text(),
            "category" => asked.category = text(),
            "location" => asked.location = text(),
            "feature" => asked.feature = text(),
            "limit" => match number() {
                Ok(limit @ 1..) => asked.limit = limit,
                _ => return refuse(StatusCode::BAD_REQUEST, "limit", "limit is a whole number above 0"),
            },
            "cursor" => match number() {
                Ok(after) => asked.after = after,
                Err(_) => return refuse(StatusCode::BAD_REQUEST, "cursor", "this is no cursor of ours"),
            },
            _ => {}
        }
    }
    let routes = network.federation.routes();
    let (found, next) = routes.registry().search(&asked, TokioHost.now(), |id| routes.health(id));
    let networks: Vec<Value> = found.iter().map(entry_json).collect();
    respond(StatusCode::OK, &json!({"networks": networks, "next_cursor": next.map(|next| next.to_string())}))
}

fn changes(network: &Network, query: &str) -> Response<Body> {
    let since = url::form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "since");
    match since.map_or(Ok(0), |(_, value)| value.parse()) {
        Ok(since) => {
            let page = network.federation.registry().changes(since, TokioHost.now());
            answer_json(StatusCode::OK, serde_json::to_string(&page).unwrap_or_default())
        }
        Err(_) => refuse(StatusCode::BAD_REQUEST, "since", "since is the number of a change"),
    }
}

/// A network as JSON: its signed record, and where that was published.
fn entry_json(entry: &RegistryEntry) -> Value {
    let record: Value = entry.signed.record.read().unwrap_or_default();
    json!({"record": record, "signature": entry.signed.signature, "origin": entry.origin})
}

fn respond(status: StatusCode, value: &Value) -> Response<Body> {
    answer_json(status, value.to_string())
}

fn refuse(status: StatusCode, code: &str, message: &str) -> Response<Body> {
    respond(status, &json!({"error": {"code": code, "message": message}}))
}

/// A refusal with the time after which a retry may succeed.
fn refuse_until(status: StatusCode, code: &str, message: &str, wait: Duration) -> Response<Body> {
    let mut response = refuse(status, code, message);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
    response
}

fn answer_json(status: StatusCode, body: String) -> Response<Body> {
    let mut response = answer(status, JSON, body);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The id of a network in a path, where its colon may be percent-encoded.
fn decode_id(id: &str) -> String {
    id.replace("%3A", ":").replace("%3a", ":")
}
