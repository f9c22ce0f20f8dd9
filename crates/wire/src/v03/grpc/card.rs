//! The agent card in protobuf, without its security schemes.
//!
//! A 0.3 card has one preferred address and a list of further ones, all of which speak the version on the card. So it
//! lists only our interfaces of 0.3. Without any, writing fails: a client would call an address that does not
//! understand it.
//!
//! Signatures are neither read nor written. They cover the JSON of one form, and a signature that can no longer be
//! checked is worse than none.
//!
//! Reading is lenient: the members that a 0.3 card requires may be empty, since most of them are text for people.

use super::loss_recorder::{LossRecorder, NumberEncoding};
use super::security::{read_requirement, read_scheme, write_requirement, write_scheme};
use crate::losses::{LossKind, Losses};
use crate::path::{MemberError, Path, non_empty};
use crate::pb::a2a_v03 as pb;
use crate::v1::grpc::value::{read_optional_struct, write_struct};
use sabir_proto::card::{Capabilities, Extension, Interface, OAuthFlows, Provider, SecurityScheme, Skill};
use sabir_proto::{AgentCard, Fault};

/// The default of `preferred_transport`.
const TRANSPORT_DEFAULT: &str = "JSONRPC";
/// The default of `protocol_version`.
const VERSION_DEFAULT: &str = "0.3.0";

/// The addresses on a 0.3 card.
#[derive(Debug, Default)]
pub(in crate::v03) struct Interfaces {
    pub(in crate::v03) url: String,
    pub(in crate::v03) preferred_transport: String,
    pub(in crate::v03) protocol_version: String,
    /// The address and transport of each further interface.
    pub(in crate::v03) additional: Vec<(String, String)>,
}

/// A card without the members that 0.3 does not have, and with those taken out that 0.3 has elsewhere.
pub(in crate::v03) struct ReducedCard {
    pub(in crate::v03) interfaces: Interfaces,
    /// The value of `supports_authenticated_extended_card`.
    pub(in crate::v03) extended: bool,
    /// The rest of the card.
    pub(in crate::v03) card: AgentCard,
}

impl ReducedCard {
    pub(in crate::v03) fn of(card: &AgentCard, numbers: NumberEncoding, losses: &mut Losses) -> Result<Self, Fault> {
        let interfaces = Interfaces::of(&card.supported_interfaces, losses)?;
        let mut card = card.clone();
        card.supported_interfaces.clear();
        if !std::mem::take(&mut card.signatures).is_empty() {
            losses.note(LossKind::Signature, "signatures");
        }
        let schemes = Path::Root.member("securitySchemes");
        card.security_schemes.retain(|name, scheme| keep_scheme(scheme, &schemes.key(name), losses));
        let extensions = Path::Root.member("capabilities");
        let extensions = extensions.member("extensions");
        for (i, extension) in card.capabilities.extensions.iter().enumerate() {
            let path = extensions.item(i);
            LossRecorder::new(numbers, losses).params(extension.params.as_ref(), &path.member("params"));
        }
        let extended = card.capabilities.extended_agent_card.take().unwrap_or(false);
        Ok(Self { interfaces, extended, card })
    }
}

/// Whether 0.3 can have a scheme. It has no device code, and no member for a required proof key. A requirement of a
/// dropped scheme stays: a client that cannot read how to authenticate still learns that it must.
fn keep_scheme(scheme: &mut SecurityScheme, path: &Path<'_>, losses: &mut Losses) -> bool {
    let SecurityScheme::OAuth2 { flows, .. } = scheme else { return true };
    match flows {
        OAuthFlows::DeviceCode { .. } => {
            losses.note(LossKind::Security, path);
            false
        }
        OAuthFlows::AuthorizationCode { pkce_required, .. } => {
            if std::mem::take(pkce_required) {
                let flows = path.member("oauth2SecurityScheme");
                let flows = flows.member("flows");
                losses.note(LossKind::Security, flows.member("authorizationCode").member("pkceRequired"));
            }
            true
        }
        OAuthFlows::ClientCredentials { .. } | OAuthFlows::Implicit { .. } | OAuthFlows::Password { .. } => true,
    }
}

impl Interfaces {
    fn of(interfaces: &[Interface], losses: &mut Losses) -> Result<Self, Fault> {
        let list = Path::Root.member("supportedInterfaces");
        let mut shown: Option<Self> = None;
        for (i, interface) in interfaces.iter().enumerate() {
            let path = list.item(i);
            if !is_v03(&interface.protocol_version) {
                losses.note(LossKind::Interface, path);
                continue;
            }
            if interface.tenant.is_some() {
                losses.note(LossKind::Tenant, path.member("tenant"));
            }
            let (url, transport) = (interface.url.clone(), interface.protocol_binding.clone());
            match &mut shown {
                None => {
                    shown = Some(Self {
                        url,
                        preferred_transport: transport,
                        protocol_version: interface.protocol_version.clone(),
                        additional: Vec::new(),
                    });
                }
                Some(shown) => {
                    if interface.protocol_version != shown.protocol_version {
                        losses.note(LossKind::Interface, path.member("protocolVersion"));
                    }
                    shown.add(url, transport);
                }
            }
        }
        shown.ok_or_else(|| Fault::VersionNotSupported("this agent's card has no interface of A2A 0.3".into()))
    }

    /// Adds a further interface, each only once: 0.3 suggests repeating the preferred one among them.
    pub(in crate::v03) fn add(&mut self, url: String, transport: String) {
        let preferred = self.url == url && self.preferred_transport == transport;
        let interface = (url, transport);
        if !preferred && !self.additional.contains(&interface) {
            self.additional.push(interface);
        }
    }

    /// Converts to the list of interfaces of 1.0.
    pub(in crate::v03) fn into_canonical(mut self) -> Vec<Interface> {
        if self.preferred_transport.is_empty() {
            TRANSPORT_DEFAULT.clone_into(&mut self.preferred_transport);
        }
        if self.protocol_version.is_empty() {
            VERSION_DEFAULT.clone_into(&mut self.protocol_version);
        }
        for (url, transport) in std::mem::take(&mut self.additional) {
            self.add(url, transport);
        }
        let preferred = (!self.url.is_empty()).then_some((self.url, self.preferred_transport));
        let interface = |(url, protocol_binding)| Interface {
            url,
            protocol_binding,
            tenant: None,
            protocol_version: self.protocol_version.clone(),
        };
        preferred.into_iter().chain(self.additional).map(interface).collect()
    }
}

fn is_v03(version: &str) -> bool {
    version.strip_prefix("0.3").is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

pub(super) fn read_card(card: pb::AgentCard, path: &Path<'_>, losses: &mut Losses) -> Result<AgentCard, MemberError> {
    let interfaces = Interfaces {
        url: card.url,
        preferred_transport: card.preferred_transport,
        protocol_version: card.protocol_version,
        additional: card.additional_interfaces.into_iter().map(|i| (i.url, i.transport)).collect(),
    };
    if !card.signatures.is_empty() {
        losses.note(LossKind::Signature, "signatures");
    }
    let schemes = path.member("securitySchemes");
    let mut readable = |(name, scheme): (String, _)| match read_scheme(scheme) {
        Some(scheme) => Some((name, scheme)),
        None => {
            losses.note(LossKind::Security, schemes.key(&name));
            None
        }
    };
    let security_schemes = card.security_schemes.into_iter().filter_map(&mut readable).collect();
    let capabilities = card.capabilities.unwrap_or_default();
    let extensions = path.member("capabilities");
    Ok(AgentCard {
        name: card.name,
        description: card.description,
        supported_interfaces: interfaces.into_canonical(),
        provider: card.provider.map(|p| Provider { url: p.url, organization: p.organization }),
        version: card.version,
        documentation_url: non_empty(card.documentation_url),
        capabilities: Capabilities {
            streaming: true_or_unset(capabilities.streaming),
            push_notifications: true_or_unset(capabilities.push_notifications),
            extensions: extensions.member("extensions").each(capabilities.extensions, read_extension)?,
            extended_agent_card: true_or_unset(card.supports_authenticated_extended_card),
        },
        security_schemes,
        security_requirements: card.security.into_iter().map(read_requirement).collect(),
        default_input_modes: card.default_input_modes,
        default_output_modes: card.default_output_modes,
        skills: card.skills.into_iter().map(read_skill).collect(),
        signatures: Vec::new(),
        icon_url: non_empty(card.icon_url),
    })
}

/// `None` for `false`: proto3 cannot tell it from an unset member.
pub(in crate::v03) fn true_or_unset(yes: bool) -> Option<bool> {
    yes.then_some(true)
}

pub(super) fn write_card(card: &AgentCard, losses: &mut Losses) -> Result<pb::AgentCard, Fault> {
    let ReducedCard { interfaces, extended, card } = ReducedCard::of(card, NumberEncoding::Doubles, losses)?;
    let write_interface = |(url, transport)| pb::AgentInterface { url, transport };
    Ok(pb::AgentCard {
        name: card.name,
        description: card.description,
        url: interfaces.url,
        provider: card.provider.map(|p| pb::AgentProvider { url: p.url, organization: p.organization }),
        version: card.version,
        documentation_url: card.documentation_url.unwrap_or_default(),
        capabilities: Some(write_capabilities(card.capabilities)),
        security_schemes: card.security_schemes.into_iter().map(|(name, s)| (name, write_scheme(s))).collect(),
        security: card.security_requirements.into_iter().map(write_requirement).collect(),
        default_input_modes: card.default_input_modes,
        default_output_modes: card.default_output_modes,
        skills: card.skills.into_iter().map(write_skill).collect(),
        supports_authenticated_extended_card: extended,
        preferred_transport: interfaces.preferred_transport,
        additional_interfaces: interfaces.additional.into_iter().map(write_interface).collect(),
        protocol_version: interfaces.protocol_version,
        signatures: Vec::new(),
        icon_url: card.icon_url.unwrap_or_default(),
    })
}

fn write_capabilities(capabilities: Capabilities) -> pb::AgentCapabilities {
    pb::AgentCapabilities {
        streaming: capabilities.streaming.unwrap_or(false),
        push_notifications: capabilities.push_notifications.unwrap_or(false),
        extensions: capabilities.extensions.into_iter().map(write_extension).collect(),
    }
}

fn read_extension(extension: pb::AgentExtension, path: &Path<'_>) -> Result<Extension, MemberError> {
    Ok(Extension {
        uri: extension.uri,
        description: non_empty(extension.description),
        required: extension.required,
        params: read_optional_struct(extension.params, &path.member("params"))?,
    })
}

fn write_extension(extension: Extension) -> pb::AgentExtension {
    pb::AgentExtension {
        uri: extension.uri,
        description: extension.description.unwrap_or_default(),
        required: extension.required,
        params: extension.params.as_ref().map(write_struct),
    }
}

fn read_skill(skill: pb::AgentSkill) -> Skill {
    Skill {
        id: skill.id,
        name: skill.name,
        description: skill.description,
        tags: skill.tags,
        examples: skill.examples,
        input_modes: skill.input_modes,
        output_modes: skill.output_modes,
        security_requirements: skill.security.into_iter().map(read_requirement).collect(),
    }
}

fn write_skill(skill: Skill) -> pb::AgentSkill {
    pb::AgentSkill {
        id: skill.id,
        name: skill.name,
        description: skill.description,
        tags: skill.tags,
        examples: skill.examples,
        input_modes: skill.input_modes,
        output_modes: skill.output_modes,
        security: skill.security_requirements.into_iter().map(write_requirement).collect(),
    }
}
