//! Selects the interfaces that a form can list, and derives interfaces from the addresses on older cards.
//!
//! 1.0 lists interfaces by binding and version. 0.3 and 0.2 list those of one version, the older forms a single one.
//! Only 1.0 has tenants.

use super::CardSchema;
use crate::{LossKind, Losses};
use sabir_proto::card::Interface;
use std::collections::HashSet;

/// The binding that every form of card can name.
pub(super) const JSONRPC: &str = "JSONRPC";
/// The end of the URL of every agent-native endpoint.
pub const NATIVE_PATH: &str = "/_agent-native/a2a";
/// The end of the URL of every XPR endpoint. The agent-native client takes any such URL for one of its own.
pub const A2A_PATH: &str = "/a2a";

/// Parses the major and minor number of a version; a patch number is allowed and ignored.
pub(super) fn version(text: &str) -> Option<(u16, u16)> {
    let mut numbers = text.trim().split('.').map(str::parse::<u16>);
    match (numbers.next(), numbers.next(), numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor)), None | Some(Ok(_)), None) => Some((major, minor)),
        _ => None,
    }
}

/// The URL up to its query, without a slash at its end.
fn path(url: &str) -> &str {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    path.strip_suffix('/').unwrap_or(path)
}

/// Whether the agent-native client would take a URL for an endpoint of its own dialect.
fn looks_native(url: &str) -> bool {
    path(url).ends_with(A2A_PATH)
}

/// Whether a URL is an agent-native endpoint.
pub(super) fn is_native(url: &str) -> bool {
    path(url).ends_with(NATIVE_PATH)
}

/// The base URL that the endpoints of all dialects share.
fn base(url: &str) -> &str {
    let path = path(url);
    let base = path.strip_suffix(NATIVE_PATH).or_else(|| path.strip_suffix(A2A_PATH)).unwrap_or(path);
    base.strip_suffix('/').unwrap_or(base)
}

/// The `url` of an agent-native card.
pub(super) fn native_url(url: &str) -> String {
    if is_native(url) { url.to_owned() } else { format!("{}{NATIVE_PATH}", base(url)) }
}

/// The `url` of an XPR card: the base, to which clients add the path.
pub(super) fn xpr_url(url: &str) -> &str {
    base(url)
}

/// The form that a reader recognises in a card with this `url`: an agent-native path decides, whatever else the card
/// has.
pub(super) fn effective_schema(form: CardSchema, url: &str) -> CardSchema {
    match form {
        CardSchema::V03 | CardSchema::V02 | CardSchema::V01 if is_native(url) => CardSchema::Native,
        _ => form,
    }
}

/// The interface that a card of an older form has by its `url` alone.
pub(super) fn implied_interface(form: CardSchema, url: &str) -> Option<Interface> {
    if url.is_empty() {
        return None;
    }
    let form = effective_schema(form, url);
    let url = match form {
        // The XPR client removes one slash and appends the path, whatever the base ends in.
        CardSchema::Xpr => format!("{}{A2A_PATH}", url.strip_suffix('/').unwrap_or(url)),
        CardSchema::Native => native_url(url),
        CardSchema::V1 | CardSchema::Hybrid | CardSchema::V03 | CardSchema::V02 | CardSchema::V01 => url.to_owned(),
    };
    Some(Interface {
        url,
        protocol_binding: JSONRPC.into(),
        tenant: None,
        protocol_version: form.dialect().name().into(),
    })
}

/// The interfaces of the first of the wanted versions that any interface speaks, each pair of address and binding once.
fn of_version(interfaces: &[Interface], wanted: &[(u16, u16)]) -> Vec<usize> {
    let of = |wanted: &(u16, u16)| distinct(interfaces, |i| version(&i.protocol_version).as_ref() == Some(wanted));
    wanted.iter().map(of).find(|found| !found.is_empty()).unwrap_or_default()
}

/// The interfaces of 0.3 that a hybrid card lists. The first is one that the agent-native client would not take for its
/// own, because that client reads the same card and uses its `url` without any further check. `Err` has the interfaces
/// that are left out because no such first one exists.
pub(super) fn v03_beside_v1(interfaces: &[Interface]) -> Result<Vec<usize>, Vec<usize>> {
    let mut shown = of_version(interfaces, &[(0, 3)]);
    let fits = |&i: &usize| !looks_native(&interfaces[i].url);
    let is_plain = |&i: &usize| interfaces[i].protocol_binding == JSONRPC;
    // JSON-RPC first, because every client of 0.3 speaks it.
    let first = shown.iter().position(|i| fits(i) && is_plain(i)).or_else(|| shown.iter().position(fits));
    let Some(first) = first else { return Err(shown) };
    shown[..=first].rotate_right(1);
    Ok(shown)
}

/// The interfaces that a card of one version lists. If none speaks a wanted version, those of the preferred version.
/// The first is the one that `url` names.
pub(super) fn select_by_version(interfaces: &[Interface], wanted: &[(u16, u16)]) -> Vec<usize> {
    let shown = of_version(interfaces, wanted);
    match interfaces.first() {
        Some(first) if shown.is_empty() => distinct(interfaces, |i| i.protocol_version == first.protocol_version),
        _ => shown,
    }
}

fn distinct(interfaces: &[Interface], fits: impl Fn(&Interface) -> bool) -> Vec<usize> {
    let mut seen = HashSet::new();
    let fitting = interfaces.iter().enumerate().filter(|(_, i)| fits(i));
    fitting.filter(|(_, i)| seen.insert((&*i.url, &*i.protocol_binding))).map(|(index, _)| index).collect()
}

/// The interface that a form with a single endpoint lists.
pub(super) fn select_single(interfaces: &[Interface], form: CardSchema) -> Option<usize> {
    let find =
        |fits: &dyn Fn(&Interface) -> bool| interfaces.iter().position(|i| i.protocol_binding == JSONRPC && fits(i));
    let own = find(&|i| i.protocol_version == form.dialect().name());
    let by_form = || match form {
        CardSchema::Native => find(&|i| is_native(&i.url)),
        // A server that speaks several of the older dialects serves them all at one address.
        CardSchema::V01 => find(&|i| matches!(version(&i.protocol_version), Some((0, 1..=3)))),
        CardSchema::V1 | CardSchema::Hybrid | CardSchema::V03 | CardSchema::V02 | CardSchema::Xpr => None,
    };
    own.or_else(by_form).or_else(|| find(&|_| true)).or_else(|| (!interfaces.is_empty()).then_some(0))
}

/// Notes the interfaces that the form does not list, and the members in which a listed one reads back otherwise.
pub(super) fn note_lost(interfaces: &[Interface], shown: &[usize], as_read: &[Interface], losses: &mut Losses) {
    let kept: HashSet<usize> = shown.iter().copied().collect();
    for i in (0..interfaces.len()).filter(|i| !kept.contains(i)) {
        losses.note(LossKind::Interface, format_args!("supportedInterfaces[{i}]"));
    }
    if shown.len() != as_read.len() {
        losses.note(LossKind::Interface, "supportedInterfaces");
        return;
    }
    for (&i, read) in shown.iter().zip(as_read) {
        let Interface { url, protocol_binding, tenant, protocol_version } = &interfaces[i];
        let mut note = |changed: bool, kind: LossKind, member: &str| {
            if changed {
                losses.note(kind, format_args!("supportedInterfaces[{i}].{member}"));
            }
        };
        note(*url != read.url, LossKind::Interface, "url");
        note(*protocol_binding != read.protocol_binding, LossKind::Interface, "protocolBinding");
        note(tenant.is_some(), LossKind::Tenant, "tenant");
        note(*protocol_version != read.protocol_version, LossKind::Interface, "protocolVersion");
    }
}

/// Notes the interfaces that a form with a single endpoint does not list.
pub(super) fn note_lost_by_single(
    interfaces: &[Interface],
    shown: Option<usize>,
    form: CardSchema,
    url: &str,
    losses: &mut Losses,
) {
    let shown: Vec<usize> = shown.into_iter().collect();
    let as_read: Vec<Interface> = implied_interface(form, url).into_iter().collect();
    note_lost(interfaces, &shown, &as_read, losses);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(url: &str, version: &str) -> Interface {
        Interface { url: url.into(), protocol_binding: JSONRPC.into(), tenant: None, protocol_version: version.into() }
    }

    #[test]
    fn versions_count_to_the_minor() {
        assert_eq!(version("0.3"), Some((0, 3)));
        assert_eq!(version("0.2.6"), Some((0, 2)));
        for none in ["", "1", "0.x", "0.3.0.0", "v1.0", "0.3-beta", "99999.0"] {
            assert_eq!(version(none), None, "{none}");
        }
    }

    #[test]
    fn an_address_that_agent_native_would_take_never_comes_first_beside_1_0() {
        let both = [interface("https://x.example/a2a/", "0.3"), interface("https://x.example", "0.3.0")];
        assert_eq!(v03_beside_v1(&both), Ok(vec![1, 0]));
        assert_eq!(v03_beside_v1(&both[..1]), Err(vec![0]));
        assert_eq!(v03_beside_v1(&[]), Err(vec![]));
        assert_eq!(select_by_version(&both, &[(0, 3)]), [0, 1]);
    }

    #[test]
    fn addresses_of_the_dialects_stand_under_one_base() {
        for url in ["https://x.example", "https://x.example/", "https://x.example/a2a", "https://x.example/a2a/?a#b"] {
            assert_eq!(native_url(url), "https://x.example/_agent-native/a2a", "{url}");
            assert_eq!(xpr_url(url), "https://x.example", "{url}");
        }
        assert_eq!(native_url("https://x.example/p/_agent-native/a2a/"), "https://x.example/p/_agent-native/a2a/");
        assert_eq!(xpr_url("https://x.example/p/_agent-native/a2a"), "https://x.example/p");
    }
}
