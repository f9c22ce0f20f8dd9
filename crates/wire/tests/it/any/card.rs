//! Strategies for arbitrary agent cards.

use super::{object, optional_text, text, texts};
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use sabir_proto::AgentCard;
use sabir_proto::card::{
    Capabilities, CardSignature, Extension, Interface, OAuthFlows, Provider, SecurityRequirement, SecurityScheme,
    Skill, StringList,
};
use std::collections::BTreeMap;

pub(crate) fn card(least: usize) -> BoxedStrategy<AgentCard> {
    let about = (text(least), text(least), text(least), of(text(0)), of(text(0)), of(provider(least)));
    let offer = (vec(interface(least), least..3), capabilities(least), vec(skill(least), least..3));
    let modes = (texts(least), texts(least));
    let security = (btree_map(text(0), scheme(least), 0..3), vec(requirement(), 0..3), vec(signature(least), 0..3));
    (about, offer, modes, security)
        .prop_map(|(about, offer, modes, security)| AgentCard {
            name: about.0,
            description: about.1,
            supported_interfaces: offer.0,
            provider: about.5,
            version: about.2,
            documentation_url: about.3,
            capabilities: offer.1,
            security_schemes: security.0,
            security_requirements: security.1,
            default_input_modes: modes.0,
            default_output_modes: modes.1,
            skills: offer.2,
            signatures: security.2,
            icon_url: about.4,
        })
        .boxed()
}

fn provider(least: usize) -> impl Strategy<Value = Provider> {
    (text(least), text(least)).prop_map(|(url, organization)| Provider { url, organization })
}

fn interface(least: usize) -> impl Strategy<Value = Interface> {
    (text(least), text(least), optional_text(), text(least)).prop_map(
        |(url, protocol_binding, tenant, protocol_version)| Interface {
            url,
            protocol_binding,
            tenant,
            protocol_version,
        },
    )
}

fn capabilities(least: usize) -> impl Strategy<Value = Capabilities> {
    let extension = (text(least), optional_text(), any::<bool>(), object())
        .prop_map(|(uri, description, required, params)| Extension { uri, description, required, params });
    (any::<[Option<bool>; 3]>(), vec(extension, 0..3)).prop_map(
        |([streaming, push_notifications, extended_agent_card], extensions)| Capabilities {
            streaming,
            push_notifications,
            extensions,
            extended_agent_card,
        },
    )
}

fn skill(least: usize) -> impl Strategy<Value = Skill> {
    let lists = (texts(least), texts(0), texts(0), texts(0), vec(requirement(), 0..2));
    (text(least), text(least), text(least), lists).prop_map(|(id, name, description, lists)| Skill {
        id,
        name,
        description,
        tags: lists.0,
        examples: lists.1,
        input_modes: lists.2,
        output_modes: lists.3,
        security_requirements: lists.4,
    })
}

fn signature(least: usize) -> impl Strategy<Value = CardSignature> {
    (text(least), text(least), object()).prop_map(|(protected, signature, header)| CardSignature {
        protected,
        signature,
        header,
    })
}

fn requirement() -> impl Strategy<Value = SecurityRequirement> {
    btree_map(text(0), texts(0).prop_map(|list| StringList { list }), 0..3)
        .prop_map(|schemes| SecurityRequirement { schemes })
}

fn scheme(least: usize) -> BoxedStrategy<SecurityScheme> {
    let api_key = (optional_text(), text(least), text(least))
        .prop_map(|(description, location, name)| SecurityScheme::ApiKey { description, location, name });
    let http = (optional_text(), text(least), optional_text()).prop_map(|(description, scheme, bearer_format)| {
        SecurityScheme::HttpAuth { description, scheme, bearer_format }
    });
    let oauth2 =
        (optional_text(), flows(least), optional_text()).prop_map(|(description, flows, oauth2_metadata_url)| {
            SecurityScheme::OAuth2 { description, flows, oauth2_metadata_url }
        });
    let open_id = (optional_text(), text(least)).prop_map(|(description, open_id_connect_url)| {
        SecurityScheme::OpenIdConnect { description, open_id_connect_url }
    });
    let mutual_tls = optional_text().prop_map(|description| SecurityScheme::MutualTls { description });
    prop_oneof![1 => api_key, 1 => http, 4 => oauth2, 1 => open_id, 1 => mutual_tls].boxed()
}

fn scopes(least: usize) -> BoxedStrategy<BTreeMap<String, String>> {
    btree_map(text(0), text(0), least..3).boxed()
}

fn flows(least: usize) -> BoxedStrategy<OAuthFlows> {
    let code = (text(least), text(least), optional_text(), scopes(least), any::<bool>()).prop_map(
        |(authorization_url, token_url, refresh_url, scopes, pkce_required)| OAuthFlows::AuthorizationCode {
            authorization_url,
            token_url,
            refresh_url,
            scopes,
            pkce_required,
        },
    );
    let client = (text(least), optional_text(), scopes(least))
        .prop_map(|(token_url, refresh_url, scopes)| OAuthFlows::ClientCredentials { token_url, refresh_url, scopes });
    let implicit =
        (optional_text(), optional_text(), scopes(0)).prop_map(|(authorization_url, refresh_url, scopes)| {
            OAuthFlows::Implicit { authorization_url, refresh_url, scopes }
        });
    let password = (optional_text(), optional_text(), scopes(0))
        .prop_map(|(token_url, refresh_url, scopes)| OAuthFlows::Password { token_url, refresh_url, scopes });
    let device = (text(least), text(least), optional_text(), scopes(least)).prop_map(
        |(device_authorization_url, token_url, refresh_url, scopes)| OAuthFlows::DeviceCode {
            device_authorization_url,
            token_url,
            refresh_url,
            scopes,
        },
    );
    prop_oneof![code, client, implicit, password, device].boxed()
}
