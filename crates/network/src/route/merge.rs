//! Merges the results of several networks.
//!
//! Ranks are private to each network and not sent, so lists cannot be merged by rank. Networks take turns instead, ours
//! first: the best of each, then the second of each. Every venue names its network; one that came through another
//! network names that one too, which vouches for it. Every network that was asked is listed with its status, and
//! `partial` says whether any is missing.

use sabir_gateway::Problem;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashSet};

/// The answer of one network, or why there is none.
#[derive(Debug)]
pub struct PeerAnswer {
    /// The id of the network.
    pub id: String,
    /// The result, or the problem.
    pub answer: Result<Map<String, Value>, Problem>,
}

/// Merges answers into one. The first is our own, and keeps its members besides the venues.
pub fn merge_answers(heard: Vec<PeerAnswer>, limit: usize) -> Map<String, Value> {
    let mut networks: BTreeMap<String, Value> = BTreeMap::new();
    let mut lists: Vec<(String, Vec<Map<String, Value>>)> = Vec::new();
    let (mut whole, mut expiry): (Map<String, Value>, Option<String>) = (Map::new(), None);
    for (number, PeerAnswer { id, answer }) in heard.into_iter().enumerate() {
        let elsewhere = number > 0;
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(problem) => {
                networks.entry(id.clone()).or_insert_with(|| missing_network(&id, &problem));
                continue;
            }
        };
        let venues = label_venues(&id, answer.remove("venues"), elsewhere);
        expiry = earlier(expiry, answer.get("expires_at").and_then(Value::as_str));
        for (name, said) in reported_networks(&id, answer.remove("networks"), venues.len(), elsewhere) {
            if networks.get(&name).is_none_or(|known| known["status"] != "ok") {
                networks.insert(name, said);
            }
        }
        // Each network has its turn, by whichever route its venues came.
        for venue in venues {
            let network = text_member(&venue, "network");
            match lists.iter_mut().find(|(known, _)| *known == network) {
                Some((_, list)) => list.push(venue),
                None => lists.push((network, vec![venue])),
            }
        }
        if !elsewhere {
            whole = answer;
        }
    }
    let venues = interleave(lists.into_iter().map(|(_, list)| list).collect(), limit);
    let partial = networks.values().any(|network| network["status"] != "ok");
    whole.insert("count".into(), venues.len().into());
    whole.insert("venues".into(), venues.into());
    if let Some(expiry) = expiry {
        whole.insert("expires_at".into(), expiry.into());
    }
    whole.insert("networks".into(), networks.into_values().collect());
    whole.insert("partial".into(), partial.into());
    whole
}

/// The entry of a network that did not answer.
fn missing_network(id: &str, problem: &Problem) -> Value {
    json!({"network": id, "status": "missing", "error": problem.code.name(), "retryable": problem.code.is_retryable()})
}

/// The venues of an answer, each with its network.
fn label_venues(id: &str, venues: Option<Value>, elsewhere: bool) -> Vec<Map<String, Value>> {
    let Some(Value::Array(venues)) = venues else { return Vec::new() };
    let objects = venues.into_iter().filter_map(|venue| match venue {
        Value::Object(venue) => Some(venue),
        _ => None,
    });
    objects
        .map(|mut venue| {
            let said = venue.get("network").and_then(Value::as_str).filter(|_| elsewhere);
            if said.is_some_and(|network| network != id) {
                venue.insert("through".into(), id.into());
            } else {
                venue.insert("network".into(), id.into());
            }
            venue
        })
        .collect()
}

/// The networks that an answer lists: its own, and those it asked itself.
fn reported_networks(id: &str, networks: Option<Value>, count: usize, elsewhere: bool) -> Vec<(String, Value)> {
    let Some(Value::Array(networks)) = networks.filter(|_| elsewhere) else {
        return vec![(id.to_owned(), json!({"network": id, "status": "ok", "count": count}))];
    };
    let named = networks.into_iter().filter_map(|mut said| {
        let name = said.get("network")?.as_str()?.to_owned();
        if name != id {
            said["through"] = id.into();
        }
        Some((name, said))
    });
    named.collect()
}

/// One venue of each list, then the second of each. A venue that came by two routes is listed once.
fn interleave(lists: Vec<Vec<Map<String, Value>>>, limit: usize) -> Vec<Value> {
    let mut seen = HashSet::new();
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let mut venues = Vec::new();
    while venues.len() < limit {
        let turn: Vec<_> = lists.iter_mut().filter_map(Iterator::next).collect();
        if turn.is_empty() {
            break;
        }
        for venue in turn {
            if venues.len() < limit && seen.insert((text_member(&venue, "network"), text_member(&venue, "id"))) {
                venues.push(Value::Object(venue));
            }
        }
    }
    venues
}

fn text_member(venue: &Map<String, Value>, name: &str) -> String {
    venue.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The earlier of two times in the same notation.
fn earlier(known: Option<String>, said: Option<&str>) -> Option<String> {
    match (known, said) {
        (Some(known), Some(said)) if said < known.as_str() => Some(said.to_owned()),
        (None, Some(said)) => Some(said.to_owned()),
        (known, _) => known,
    }
}
