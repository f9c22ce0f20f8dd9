//! Reads a card of any form into the canonical card.
//!
//! The members of a card tell its form. One reader serves all forms: they differ only in which members are required and
//! where the endpoints stand, and real cards mix the rest freely.

use super::interfaces;
use super::lint::{self, Findings};
use super::members::{MemberReader, shortened, text};
use super::modes::media_type;
use super::schema_detection::detect_schema;
use super::schemes::{read_requirements, read_schemes};
use super::v01::Authentication;
use super::{CardSchema, Lint, XprIdentity};
use crate::path::{MemberError, Path};
use crate::{Dialect, LossKind, Losses};
use sabir_proto::card::{
    Capabilities, CardSignature, Extension, Interface, Provider, SecurityRequirement, SecurityScheme, Skill,
};
use sabir_proto::{AgentCard, Fault, Json};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, HashSet};

/// Longest card that is read, in bytes. Cards come from unknown servers; those of agents with hundreds of skills have
/// some tens of kilobytes.
pub const CARD_BYTES_MAX: usize = 1024 * 1024;

/// A card that was read, with what was found on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadCard {
    /// The card as the canonical type.
    pub card: AgentCard,
    /// The form that the card is written in.
    pub form: CardSchema,
    /// Its departures from the rules of that form.
    pub lint: Vec<Lint>,
    /// The members that the canonical card cannot carry.
    pub losses: Losses,
    /// The identity on the XPR network, if the card names one.
    pub xpr: Option<XprIdentity>,
}

/// Reads a card of any form.
///
/// Fails with [`Fault::InvalidAgentResponse`] for what cannot be a card: not a JSON object, too long or too deep, a
/// member named twice, no name.
pub fn read(json: &[u8]) -> Result<ReadCard, Fault> {
    if json.len() > CARD_BYTES_MAX {
        return Err(refused(format_args!("is {} bytes long, more than {CARD_BYTES_MAX}", json.len())));
    }
    let text = std::str::from_utf8(json).map_err(|e| refused(format_args!("is not UTF-8: {e}")))?;
    let whole = Json::parse(text).map_err(|e| refused(format_args!("cannot be read: {e}")))?;
    if !whole.as_str().starts_with('{') {
        return Err(refused("is not an object"));
    }
    let value: &RawValue = serde_json::from_str(whole.as_str()).map_err(refused)?;
    read_card(value).map_err(MemberError::in_reply)
}

fn refused(problem: impl std::fmt::Display) -> Fault {
    /// The problem may quote the card, so its length is bounded.
    const SHOWN_CHARS_MAX: usize = 256;
    Fault::InvalidAgentResponse(format!("the agent card {problem}").chars().take(SHOWN_CHARS_MAX).collect())
}

fn read_card(value: &RawValue) -> Result<ReadCard, MemberError> {
    let at = &Path::Root;
    // The form decides what is a lint, and recognising the form takes the members.
    let Some(card) = MemberReader::open(value, at, &mut Findings::new(CardSchema::V1))? else {
        return Err(at.error("the agent card is not an object"));
    };
    let form = detect_schema(&card);
    let (mut card, mut findings) = (card, Findings::new(form));
    let found = &mut findings;

    let name = card.non_empty_text("name", found).ok_or_else(|| at.error("the agent card has no name"))?;
    let capabilities = read_capabilities(&mut card, at, found)?;
    let (security_schemes, security_requirements) = read_security(&mut card, at, found)?;
    let xpr = read_identity(&mut card, found);
    let read = AgentCard {
        name,
        description: text_if(is_required(form, "description"), "description", &mut card, found),
        supported_interfaces: read_interfaces(&mut card, at, found)?,
        provider: read_provider(&mut card, at, found)?,
        version: card.required_text("version", found),
        documentation_url: card.text("documentationUrl", found),
        capabilities,
        security_schemes,
        security_requirements,
        default_input_modes: read_default_modes("defaultInputModes", &mut card, at, found),
        default_output_modes: read_default_modes("defaultOutputModes", &mut card, at, found),
        skills: read_skills(&mut card, at, found)?,
        signatures: read_signatures(&mut card, at, found)?,
        icon_url: card.text("iconUrl", found),
    };
    card.lint_unknown(found);
    let (lint, losses) = findings.finish();
    Ok(ReadCard { card: read, form, lint, losses, xpr })
}

/// Whether a form requires a member, where the forms differ.
fn is_required(form: CardSchema, member: &'static str) -> bool {
    match member {
        "description" => form != CardSchema::V01,
        "defaultInputModes" | "defaultOutputModes" | "tags" => !matches!(form, CardSchema::V01 | CardSchema::Native),
        "protocolVersion" => matches!(form, CardSchema::V03 | CardSchema::V02 | CardSchema::Native),
        _ => true,
    }
}

fn text_if(asked: bool, name: &'static str, members: &mut MemberReader<'_, '_>, found: &mut Findings) -> String {
    if asked { members.required_text(name, found) } else { members.text(name, found).unwrap_or_default() }
}

/// Adds a lint for a member that only another version of A2A has.
fn lint_other_version(present: bool, name: &'static str, at: &Path<'_>, found: &mut Findings) {
    if present {
        found.lint(lint::OTHER_VERSION, &at.member(name), "is a member of another version of A2A");
    }
}

/// Reads the interfaces: the list of 1.0, or those that the older members amount to.
fn read_interfaces(
    card: &mut MemberReader<'_, '_>,
    at: &Path<'_>,
    found: &mut Findings,
) -> Result<Vec<Interface>, MemberError> {
    let form = found.form;
    let listed = card.list("supportedInterfaces", found);
    let has_list = listed.is_some();
    let list_at = at.member("supportedInterfaces");
    let mut interfaces = Vec::new();
    for (i, value) in listed.unwrap_or_default().into_iter().enumerate() {
        interfaces.extend(read_interface(value, &list_at.item(i), found)?);
    }
    let url = card.text("url", found);
    let transport = card.text("preferredTransport", found);
    let stated = card.text("protocolVersion", found);
    let additional = read_additional(card, at, found)?;
    match form {
        CardSchema::Hybrid => {
            let listed = |url: &String| interfaces.iter().any(|i| i.url == *url);
            if !interfaces.is_empty() && !url.as_ref().is_some_and(listed) {
                found.lint(lint::URL, &at.member("url"), "is not among supportedInterfaces, is passed over");
            }
        }
        CardSchema::V1 => {
            lint_other_version(transport.is_some(), "preferredTransport", at, found);
            lint_other_version(stated.is_some(), "protocolVersion", at, found);
            lint_other_version(!additional.is_empty(), "additionalInterfaces", at, found);
            if !has_list {
                card.lint_missing("supportedInterfaces", "what the older members say is taken", found);
            } else if interfaces.is_empty() {
                found.lint(lint::EMPTY, &list_at, "should not be empty");
            }
        }
        CardSchema::V03 | CardSchema::V02 | CardSchema::V01 | CardSchema::Native | CardSchema::Xpr => {
            lint_other_version(has_list, "supportedInterfaces", at, found);
            match url.as_deref() {
                None => card.lint_missing("url", "the agent has no main address", found),
                Some("") => found.lint(lint::EMPTY, &at.member("url"), "should not be empty"),
                Some(_) => {}
            }
            if stated.is_none() && is_required(form, "protocolVersion") {
                card.lint_missing("protocolVersion", "it is told by the other members", found);
            }
        }
    }
    if !interfaces.is_empty() {
        return Ok(interfaces);
    }
    let version = read_version(stated.as_deref(), at, found);
    let main = interfaces::implied_interface(form, &url.unwrap_or_default());
    let main = main.map(|i| Interface { protocol_binding: transport.unwrap_or(i.protocol_binding), ..i });
    let mut seen = HashSet::new();
    let all = main.into_iter().chain(additional).map(|i| Interface { protocol_version: version.clone(), ..i });
    Ok(all.filter(|i| seen.insert((i.url.clone(), i.protocol_binding.clone()))).collect())
}

/// The protocol version for the interfaces of an older card.
fn read_version(stated: Option<&str>, at: &Path<'_>, found: &mut Findings) -> String {
    match (found.form, stated.map(|text| (text, interfaces::version(text)))) {
        (form @ (CardSchema::V01 | CardSchema::Native | CardSchema::Xpr), _) => form.dialect().name().into(),
        (_, Some((_, Some((major, minor))))) => format!("{major}.{minor}"),
        (_, Some((text, None))) => {
            found.lint(lint::VERSION, &at.member("protocolVersion"), "is not a version such as 0.3.0");
            text.into()
        }
        (CardSchema::V1 | CardSchema::Hybrid, None) => Dialect::V1.name().into(),
        (CardSchema::V03 | CardSchema::V02, None) => Dialect::V03.name().into(),
    }
}

fn read_interface(value: &RawValue, at: &Path<'_>, found: &mut Findings) -> Result<Option<Interface>, MemberError> {
    let Some(mut interface) = MemberReader::open(value, at, found)? else { return Ok(None) };
    let url = interface.required_text("url", found);
    let transport = interface.text("transport", found);
    lint_other_version(transport.is_some(), "transport", at, found);
    let protocol_binding = match transport {
        Some(transport) if interface.peek("protocolBinding").is_none() => transport,
        _ => interface.required_text("protocolBinding", found),
    };
    let tenant = interface.non_empty_text("tenant", found);
    let protocol_version = match interface.peek("protocolVersion") {
        Some(_) => interface.required_text("protocolVersion", found),
        None => {
            interface.lint_missing("protocolVersion", "1.0 is assumed", found);
            Dialect::V1.name().into()
        }
    };
    interface.lint_unknown(found);
    Ok(Some(Interface { url, protocol_binding, tenant, protocol_version }))
}

fn read_additional(
    card: &mut MemberReader<'_, '_>,
    at: &Path<'_>,
    found: &mut Findings,
) -> Result<Vec<Interface>, MemberError> {
    let at = at.member("additionalInterfaces");
    let mut interfaces = Vec::new();
    for (i, value) in card.list("additionalInterfaces", found).unwrap_or_default().into_iter().enumerate() {
        let at = at.item(i);
        let Some(mut interface) = MemberReader::open(value, &at, found)? else { continue };
        let url = interface.required_text("url", found);
        let binding = interface.text("protocolBinding", found);
        lint_other_version(binding.is_some(), "protocolBinding", &at, found);
        let protocol_binding = match binding {
            Some(binding) if interface.peek("transport").is_none() => binding,
            _ => interface.required_text("transport", found),
        };
        interface.lint_unknown(found);
        interfaces.push(Interface { url, protocol_binding, tenant: None, protocol_version: String::new() });
    }
    Ok(interfaces)
}

fn read_provider(
    card: &mut MemberReader<'_, '_>,
    at: &Path<'_>,
    found: &mut Findings,
) -> Result<Option<Provider>, MemberError> {
    let Some(value) = card.take("provider", found) else { return Ok(None) };
    let at = at.member("provider");
    if value.get().starts_with('"') {
        found.lint(lint::WRONG_TYPE, &at, "must be an object, is taken for the organization");
        let organization = text(value, &at, found).unwrap_or_default();
        return Ok(Some(Provider { url: String::new(), organization }));
    }
    let Some(mut provider) = MemberReader::open(value, &at, found)? else { return Ok(None) };
    let organization = provider.required_text("organization", found);
    // The URL is optional in 0.1.
    let url = text_if(found.form != CardSchema::V01, "url", &mut provider, found);
    provider.lint_unknown(found);
    Ok(Some(Provider { url, organization }))
}

fn read_capabilities(
    card: &mut MemberReader<'_, '_>,
    at: &Path<'_>,
    found: &mut Findings,
) -> Result<Capabilities, MemberError> {
    let new_form = matches!(found.form, CardSchema::V1 | CardSchema::Hybrid);
    let old_flag = card.flag("supportsAuthenticatedExtendedCard", found);
    lint_other_version(
        old_flag.is_some() && found.form == CardSchema::V1,
        "supportsAuthenticatedExtendedCard",
        at,
        found,
    );
    let mut read = Capabilities { extended_agent_card: old_flag, ..Capabilities::default() };
    let Some(value) = card.take("capabilities", found) else {
        card.lint_missing("capabilities", "none are assumed", found);
        return Ok(read);
    };
    let at = at.member("capabilities");
    let Some(mut capabilities) = MemberReader::open(value, &at, found)? else { return Ok(read) };
    read.streaming = capabilities.flag("streaming", found);
    read.push_notifications = capabilities.flag("pushNotifications", found);
    let extended = capabilities.flag("extendedAgentCard", found);
    lint_other_version(extended.is_some() && !new_form, "extendedAgentCard", &at, found);
    read.extended_agent_card = extended.or(old_flag);
    let history = capabilities.flag("stateTransitionHistory", found);
    lint_other_version(history.is_some() && new_form, "stateTransitionHistory", &at, found);
    // agent-native always sets it, and it means nothing there.
    if history == Some(true) && found.form != CardSchema::Native {
        found.losses.note(LossKind::CardMember, at.member("stateTransitionHistory"));
    }
    let list_at = at.member("extensions");
    for (i, value) in capabilities.list("extensions", found).unwrap_or_default().into_iter().enumerate() {
        let at = list_at.item(i);
        let Some(mut extension) = MemberReader::open(value, &at, found)? else { continue };
        read.extensions.push(Extension {
            uri: extension.required_text("uri", found),
            description: extension.non_empty_text("description", found),
            required: extension.flag("required", found).unwrap_or_default(),
            params: extension.object("params", found),
        });
        extension.lint_unknown(found);
    }
    capabilities.lint_unknown(found);
    Ok(read)
}

fn read_default_modes(
    name: &'static str,
    card: &mut MemberReader<'_, '_>,
    at: &Path<'_>,
    found: &mut Findings,
) -> Vec<String> {
    let Some(modes) = read_modes(name, card, at, found) else {
        if is_required(found.form, name) {
            card.lint_missing(name, "text/plain is assumed", found);
        }
        return vec!["text/plain".into()];
    };
    if modes.is_empty() && matches!(found.form, CardSchema::V1 | CardSchema::Hybrid) {
        found.lint(lint::EMPTY, &at.member(name), "should not be empty");
    }
    modes
}

/// Reads a list of media types, which may be written as words.
fn read_modes(
    name: &'static str,
    members: &mut MemberReader<'_, '_>,
    at: &Path<'_>,
    found: &mut Findings,
) -> Option<Vec<String>> {
    let mut modes = members.texts(name, found)?;
    let at = at.member(name);
    for (i, mode) in modes.iter_mut().enumerate() {
        let Some(media_type) = media_type(mode) else { continue };
        if !matches!(found.form, CardSchema::V01 | CardSchema::Xpr) {
            found.lint(lint::MODE_WORD, &at.item(i), format_args!("{mode} is not a media type, {media_type} is meant"));
        }
        *mode = media_type.into();
    }
    Some(modes)
}

fn read_skills(
    card: &mut MemberReader<'_, '_>,
    at: &Path<'_>,
    found: &mut Findings,
) -> Result<Vec<Skill>, MemberError> {
    let Some(list) = card.list("skills", found) else {
        card.lint_missing("skills", "none are assumed", found);
        return Ok(Vec::new());
    };
    let at = at.member("skills");
    if list.is_empty() && matches!(found.form, CardSchema::V1 | CardSchema::Hybrid) {
        found.lint(lint::EMPTY, &at, "should not be empty");
    }
    let mut skills = Vec::new();
    for (i, value) in list.into_iter().enumerate() {
        skills.extend(read_skill(value, &at.item(i), found)?);
    }
    Ok(skills)
}

/// Members that only the skills of agent-native have: who may use them, and how they are called.
const NATIVE_SKILL: [&str; 6] = ["inputSchema", "public", "readOnly", "requiresAuth", "isConsequential", "publicAgent"];

fn read_skill(value: &RawValue, at: &Path<'_>, found: &mut Findings) -> Result<Option<Skill>, MemberError> {
    let Some(mut skill) = MemberReader::open(value, at, found)? else { return Ok(None) };
    let (id, name) = (skill.text("id", found), skill.text("name", found));
    for (member, value) in [("id", &id), ("name", &name)] {
        match value.as_deref() {
            None => skill.lint_missing(member, "the one of id and name that is there stands for both", found),
            Some("") => found.lint(lint::EMPTY, &at.member(member), "should not be empty"),
            Some(_) => {}
        }
    }
    let tags = skill.texts("tags", found);
    if tags.is_none() && is_required(found.form, "tags") {
        skill.lint_missing("tags", "none are assumed", found);
    }
    let read = Skill {
        id: id.clone().or_else(|| name.clone()).unwrap_or_default(),
        name: name.or(id).unwrap_or_default(),
        description: text_if(is_required(found.form, "description"), "description", &mut skill, found),
        tags: tags.unwrap_or_default(),
        examples: skill.texts("examples", found).unwrap_or_default(),
        input_modes: read_modes("inputModes", &mut skill, at, found).unwrap_or_default(),
        output_modes: read_modes("outputModes", &mut skill, at, found).unwrap_or_default(),
        security_requirements: read_requirements(&mut skill, at, found),
    };
    if found.form == CardSchema::Native {
        for member in NATIVE_SKILL {
            if skill.take(member, found).is_some() {
                found.losses.note(LossKind::CardMember, at.member(member));
            }
        }
    }
    skill.lint_unknown(found);
    Ok(Some(read))
}

fn read_signatures(
    card: &mut MemberReader<'_, '_>,
    at: &Path<'_>,
    found: &mut Findings,
) -> Result<Vec<CardSignature>, MemberError> {
    let at = at.member("signatures");
    let mut signatures = Vec::new();
    for (i, value) in card.list("signatures", found).unwrap_or_default().into_iter().enumerate() {
        let at = at.item(i);
        let Some(mut signature) = MemberReader::open(value, &at, found)? else { continue };
        signatures.push(CardSignature {
            protected: signature.required_text("protected", found),
            signature: signature.required_text("signature", found),
            header: signature.object("header", found),
        });
        signature.lint_unknown(found);
    }
    Ok(signatures)
}

type Security = (BTreeMap<String, SecurityScheme>, Vec<SecurityRequirement>);

fn read_security(
    card: &mut MemberReader<'_, '_>,
    at: &Path<'_>,
    found: &mut Findings,
) -> Result<Security, MemberError> {
    let schemes = card.map("securitySchemes", found).unwrap_or_default();
    let schemes = read_schemes(schemes, &at.member("securitySchemes"), found)?;
    let requirements = read_requirements(card, at, found);
    let authentication = read_authentication(card, at, found)?;
    // Names alone say less than schemes, so schemes and requirements take precedence.
    match authentication {
        Some(by_name) if schemes.is_empty() && requirements.is_empty() => Ok(by_name),
        _ => Ok((schemes, requirements)),
    }
}

/// Reads the `authentication` of 0.1. Some cards of later versions have it too, and some write it as a single word.
fn read_authentication(
    card: &mut MemberReader<'_, '_>,
    at: &Path<'_>,
    found: &mut Findings,
) -> Result<Option<Security>, MemberError> {
    let Some(value) = card.take("authentication", found) else { return Ok(None) };
    let at = at.member("authentication");
    lint_other_version(found.form != CardSchema::V01, "authentication", &Path::Root, found);
    let authentication = if value.get().starts_with('"') {
        Authentication { schemes: text(value, &at, found).into_iter().collect(), credentials: None }
    } else {
        let Some(mut members) = MemberReader::open(value, &at, found)? else { return Ok(None) };
        let schemes = members.texts("schemes", found).unwrap_or_default();
        let credentials = members.text("credentials", found);
        members.lint_unknown(found);
        Authentication { schemes, credentials }
    };
    let (schemes, requirements, guesses) = authentication.read();
    for guess in guesses {
        let message = format_args!("{:?} says no more: {} is assumed", shortened(&guess.name), guess.assumed);
        found.lint(lint::ASSUMED, &at.member("schemes"), message);
    }
    let used = |url: &String| {
        let is = |s: &SecurityScheme| matches!(s, SecurityScheme::OpenIdConnect { open_id_connect_url, .. } if open_id_connect_url == url);
        schemes.values().any(is)
    };
    // The credentials may be a secret, so they are not copied into a card that is passed around.
    if authentication.credentials.as_ref().is_some_and(|c| !used(c)) {
        found.lint(lint::OTHER_VERSION, &at.member("credentials"), "has no place in later versions, is left out");
        found.losses.note(LossKind::Security, at.member("credentials"));
    }
    Ok(Some((schemes, requirements)))
}

fn read_identity(card: &mut MemberReader<'_, '_>, found: &mut Findings) -> Option<XprIdentity> {
    if !card.has_prefix("xpr:") {
        return None;
    }
    let unknown = XprIdentity::default();
    Some(XprIdentity {
        account: card.required_text("xpr:account", found),
        protocol: match card.peek("xpr:protocol") {
            Some(_) => card.required_text("xpr:protocol", found),
            None => {
                card.lint_missing("xpr:protocol", "https is assumed", found);
                unknown.protocol
            }
        },
        trust_score: card.number("xpr:trustScore", found),
        kyc_level: card.number("xpr:kycLevel", found),
        registered_at: match card.peek("xpr:registeredAt") {
            Some(_) => card.number("xpr:registeredAt", found).unwrap_or_default(),
            None => {
                card.lint_missing("xpr:registeredAt", "that is taken to be unknown", found);
                unknown.registered_at
            }
        },
        owner: card.text("xpr:owner", found),
    })
}
