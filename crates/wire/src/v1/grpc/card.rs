//! The agent card in protobuf, without its security schemes.
//!
//! A card is read more leniently than a request: members that the specification requires may be empty, since most are
//! text for people and the agent behind a sloppy card may still be of use. Reading requires only what [`AgentCard`]
//! cannot be without.

use super::security::{read_requirement, read_scheme, write_requirement, write_scheme};
use super::value::{read_optional_struct, write_struct};
use crate::path::{MemberError, Path, non_empty};
use crate::pb::lf_a2a_v1 as pb;
use sabir_proto::AgentCard;
use sabir_proto::card::{Capabilities, CardSignature, Extension, Interface, Provider, Skill};

pub(super) fn read_card(card: pb::AgentCard, path: &Path<'_>) -> Result<AgentCard, MemberError> {
    let (capabilities, schemes) = (path.member("capabilities"), path.member("securitySchemes"));
    Ok(AgentCard {
        name: card.name,
        description: card.description,
        supported_interfaces: card.supported_interfaces.into_iter().map(read_interface).collect(),
        provider: card.provider.map(|p| Provider { url: p.url, organization: p.organization }),
        version: card.version,
        documentation_url: card.documentation_url,
        capabilities: read_capabilities(capabilities.required(card.capabilities)?, &capabilities)?,
        security_schemes: card
            .security_schemes
            .into_iter()
            .map(|(name, scheme)| Ok((name.clone(), read_scheme(scheme, &schemes.key(&name))?)))
            .collect::<Result<_, MemberError>>()?,
        security_requirements: card.security_requirements.into_iter().map(read_requirement).collect(),
        default_input_modes: card.default_input_modes,
        default_output_modes: card.default_output_modes,
        skills: card.skills.into_iter().map(read_skill).collect(),
        signatures: path.member("signatures").each(card.signatures, read_signature)?,
        icon_url: card.icon_url,
    })
}

pub(super) fn write_card(card: &AgentCard) -> pb::AgentCard {
    let write_provider = |p: &Provider| pb::AgentProvider { url: p.url.clone(), organization: p.organization.clone() };
    pb::AgentCard {
        name: card.name.clone(),
        description: card.description.clone(),
        supported_interfaces: card.supported_interfaces.iter().map(write_interface).collect(),
        provider: card.provider.as_ref().map(write_provider),
        version: card.version.clone(),
        documentation_url: card.documentation_url.clone(),
        capabilities: Some(write_capabilities(&card.capabilities)),
        security_schemes: card.security_schemes.iter().map(|(name, s)| (name.clone(), write_scheme(s))).collect(),
        security_requirements: card.security_requirements.iter().map(write_requirement).collect(),
        default_input_modes: card.default_input_modes.clone(),
        default_output_modes: card.default_output_modes.clone(),
        skills: card.skills.iter().map(write_skill).collect(),
        signatures: card.signatures.iter().map(write_signature).collect(),
        icon_url: card.icon_url.clone(),
    }
}

fn read_interface(interface: pb::AgentInterface) -> Interface {
    Interface {
        url: interface.url,
        protocol_binding: interface.protocol_binding,
        tenant: non_empty(interface.tenant),
        protocol_version: interface.protocol_version,
    }
}

fn write_interface(interface: &Interface) -> pb::AgentInterface {
    pb::AgentInterface {
        url: interface.url.clone(),
        protocol_binding: interface.protocol_binding.clone(),
        tenant: interface.tenant.clone().unwrap_or_default(),
        protocol_version: interface.protocol_version.clone(),
    }
}

fn read_capabilities(capabilities: pb::AgentCapabilities, path: &Path<'_>) -> Result<Capabilities, MemberError> {
    Ok(Capabilities {
        streaming: capabilities.streaming,
        push_notifications: capabilities.push_notifications,
        extensions: path.member("extensions").each(capabilities.extensions, read_extension)?,
        extended_agent_card: capabilities.extended_agent_card,
    })
}

fn write_capabilities(capabilities: &Capabilities) -> pb::AgentCapabilities {
    pb::AgentCapabilities {
        streaming: capabilities.streaming,
        push_notifications: capabilities.push_notifications,
        extensions: capabilities.extensions.iter().map(write_extension).collect(),
        extended_agent_card: capabilities.extended_agent_card,
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

fn write_extension(extension: &Extension) -> pb::AgentExtension {
    pb::AgentExtension {
        uri: extension.uri.clone(),
        description: extension.description.clone().unwrap_or_default(),
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
        security_requirements: skill.security_requirements.into_iter().map(read_requirement).collect(),
    }
}

fn write_skill(skill: &Skill) -> pb::AgentSkill {
    pb::AgentSkill {
        id: skill.id.clone(),
        name: skill.name.clone(),
        description: skill.description.clone(),
        tags: skill.tags.clone(),
        examples: skill.examples.clone(),
        input_modes: skill.input_modes.clone(),
        output_modes: skill.output_modes.clone(),
        security_requirements: skill.security_requirements.iter().map(write_requirement).collect(),
    }
}

fn read_signature(signature: pb::AgentCardSignature, path: &Path<'_>) -> Result<CardSignature, MemberError> {
    Ok(CardSignature {
        protected: signature.protected,
        signature: signature.signature,
        header: read_optional_struct(signature.header, &path.member("header"))?,
    })
}

fn write_signature(signature: &CardSignature) -> pb::AgentCardSignature {
    pb::AgentCardSignature {
        protected: signature.protected.clone(),
        signature: signature.signature.clone(),
        header: signature.header.as_ref().map(write_struct),
    }
}
