//! Writing one card in every form.

use super::losses;
use sabir_proto::AgentCard;
use sabir_wire::Losses;
use sabir_wire::card::{CardSchema, XprIdentity, read, write, write_v03_with_v01, write_with_identity};
use serde_json::{Value, json};

/// A card with every member.
fn whole() -> Value {
    json!({
        "name": "Echo", "description": "Says it again.",
        "supportedInterfaces": [
            {"url": "https://x.example/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": "https://x.example/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0", "tenant": "t"},
            {"url": "https://x.example", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
            {"url": "https://x.example/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "0.3", "tenant": "t"},
        ],
        "provider": {"url": "https://p.example", "organization": "P"},
        "version": "2.1.0", "documentationUrl": "https://d.example", "iconUrl": "https://i.example",
        "capabilities": {"streaming": true, "pushNotifications": true, "extendedAgentCard": true,
            "extensions": [{"uri": "urn:e", "required": true, "params": {"b": 1, "a": 1.50}}]},
        "securitySchemes": {
            "bearer": {"httpAuthSecurityScheme": {"scheme": "bearer", "bearerFormat": "JWT"}},
            "code": {"oauth2SecurityScheme": {"oauth2MetadataUrl": "https://m.example", "flows": {"authorizationCode":
                {"authorizationUrl": "https://a.example", "tokenUrl": "https://t.example", "scopes": {"r": "read"},
                 "pkceRequired": true}}}},
            "device": {"oauth2SecurityScheme": {"flows": {"deviceCode": {"deviceAuthorizationUrl": "https://a.example",
                "tokenUrl": "https://t.example", "scopes": {}}}}},
            "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key", "description": "from us"}},
            "open": {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://o.example"}},
            "tls": {"mtlsSecurityScheme": {}}
        },
        "securityRequirements": [{"schemes": {"key": {}}}, {"schemes": {"code": {"list": ["r"]}, "tls": {}}}],
        "defaultInputModes": ["text/plain", "application/json"],
        "defaultOutputModes": ["text/html", "image/png"],
        "skills": [
            {"id": "echo", "name": "Echo", "description": "d", "tags": ["t"], "examples": ["hi"],
             "inputModes": ["text/plain"], "outputModes": ["application/json"],
             "securityRequirements": [{"schemes": {"key": {}}}]},
            {"id": "mcp__user_ab12_mail", "name": "Mail", "description": "d", "tags": ["t"]}
        ],
        "signatures": [{"protected": "e30", "signature": "c2ln", "header": {"kid": "k"}}]
    })
}

fn card(value: Value) -> AgentCard {
    serde_json::from_value::<AgentCard>(value.clone())
        // Free JSON is kept as text, so it must be read from text.
        .or_else(|_| serde_json::from_str(&value.to_string()))
        .unwrap()
}

/// Writes the card in a form, and returns the losses.
fn shown(value: Value, form: CardSchema) -> (Value, Vec<String>) {
    let mut lost = Losses::new();
    let bytes = write(&card(value), form, &mut lost);
    (serde_json::from_slice(&bytes).unwrap(), losses(&lost))
}

/// The schemes of 0.3 that are wrapped in 1.0.
fn typed_schemes() -> Value {
    json!({
        "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
        "code": {"type": "oauth2", "oauth2MetadataUrl": "https://m.example", "flows": {"authorizationCode":
            {"authorizationUrl": "https://a.example", "tokenUrl": "https://t.example", "scopes": {"r": "read"}}}},
        "key": {"type": "apiKey", "in": "header", "name": "X-Key", "description": "from us"},
        "open": {"type": "openIdConnect", "openIdConnectUrl": "https://o.example"},
        "tls": {"type": "mutualTLS"}
    })
}

/// The schemes of 0.3: where it cannot write how to get a token, it writes how to send it.
fn schemes_in_03() -> Value {
    let mut schemes = typed_schemes();
    schemes["device"] = json!({"type": "http", "scheme": "bearer"});
    schemes
}

fn in_03() -> Value {
    json!({
        "protocolVersion": "0.3.0", "name": "Echo", "description": "Says it again.",
        "url": "https://x.example", "preferredTransport": "JSONRPC",
        "additionalInterfaces": [{"url": "https://x.example", "transport": "JSONRPC"},
            {"url": "https://x.example/rest", "transport": "HTTP+JSON"}],
        "provider": {"url": "https://p.example", "organization": "P"},
        "version": "2.1.0", "documentationUrl": "https://d.example", "iconUrl": "https://i.example",
        "capabilities": {"streaming": true, "pushNotifications": true,
            "extensions": [{"uri": "urn:e", "required": true, "params": {"b": 1, "a": 1.5}}]},
        "securitySchemes": schemes_in_03(),
        "security": [{"key": []}, {"code": ["r"], "tls": []}],
        "defaultInputModes": ["text/plain", "application/json"], "defaultOutputModes": ["text/html", "image/png"],
        "skills": [
            {"id": "echo", "name": "Echo", "description": "d", "tags": ["t"], "examples": ["hi"],
             "inputModes": ["text/plain"], "outputModes": ["application/json"], "security": [{"key": []}]},
            {"id": "mcp__user_ab12_mail", "name": "Mail", "description": "d", "tags": ["t"]}
        ],
        "supportsAuthenticatedExtendedCard": true,
        "signatures": [{"protected": "e30", "signature": "c2ln", "header": {"kid": "k"}}]
    })
}

#[test]
fn as_1_0_it_is_what_it_is() {
    assert_eq!(shown(whole(), CardSchema::V1), (whole(), vec![]));
}

#[test]
fn free_json_keeps_its_spelling() {
    let params = r#"{"b":1,"a":1.50,"n":12345678901234567890}"#;
    let text = format!(
        r#"{{"name":"n","description":"d","supportedInterfaces":[{{"url":"https://x.example","protocolBinding":"JSONRPC",
        "protocolVersion":"0.3"}}],"version":"1","capabilities":{{"extensions":[{{"uri":"urn:e","params":{params}}}]}},
        "defaultInputModes":[],"defaultOutputModes":[],"skills":[]}}"#
    );
    let card: AgentCard = serde_json::from_str(&text).unwrap();
    for form in [CardSchema::V1, CardSchema::Hybrid, CardSchema::V03, CardSchema::V02] {
        for bytes in [
            write(&card, form, &mut Losses::new()),
            write_with_identity(&card, form, &XprIdentity::default(), &mut Losses::new()),
        ] {
            assert!(std::str::from_utf8(&bytes).unwrap().contains(params), "{form:?}");
            assert_eq!(read(&bytes).unwrap().card.capabilities, card.capabilities, "{form:?}");
        }
    }
}

#[test]
fn as_a_hybrid_it_says_everything_twice() {
    let mut expected = whole();
    for member in ["url", "preferredTransport", "additionalInterfaces", "protocolVersion", "security"] {
        expected[member] = in_03()[member].clone();
    }
    expected["supportsAuthenticatedExtendedCard"] = true.into();
    expected["skills"][0]["security"] = json!([{"key": []}]);
    for (name, scheme) in expected["securitySchemes"].as_object_mut().unwrap() {
        for (member, value) in typed_schemes()[name].as_object().into_iter().flatten() {
            scheme[member] = value.clone();
        }
    }
    // The Python SDK reads these if they are there, though it knows 1.0, so they must be complete.
    for name in ["code", "device"] {
        let scheme = &mut expected["securitySchemes"][name];
        scheme["type"] = "oauth2".into();
        scheme["flows"] = scheme["oauth2SecurityScheme"]["flows"].clone();
    }
    assert_eq!(shown(whole(), CardSchema::Hybrid), (expected, vec![]));
}

#[test]
fn a_hybrid_without_0_3_is_1_0() {
    let mut card = whole();
    card["supportedInterfaces"].as_array_mut().unwrap().truncate(2);
    assert_eq!(shown(card.clone(), CardSchema::Hybrid), (card, vec![]));
}

#[test]
fn a_hybrid_never_sends_agent_native_to_0_3() {
    let mut card = whole();
    card["supportedInterfaces"][2]["url"] = "https://x.example/a2a/".into();
    let (hybrid, lost) = shown(card.clone(), CardSchema::Hybrid);
    assert_eq!(hybrid["url"], "https://x.example/rest");
    assert_eq!(hybrid["preferredTransport"], "HTTP+JSON");
    assert_eq!(lost, [""; 0]);

    card["supportedInterfaces"].as_array_mut().unwrap().truncate(3);
    assert_eq!(shown(card.clone(), CardSchema::Hybrid), (card, vec!["interface: supportedInterfaces[2]".into()]));
}

#[test]
fn as_0_3() {
    let lost = [
        "security: securitySchemes.code.oauth2SecurityScheme.flows.authorizationCode.pkceRequired",
        "security: securitySchemes.device",
        "interface: supportedInterfaces[0]",
        "interface: supportedInterfaces[1]",
        "tenant: supportedInterfaces[3].tenant",
    ];
    assert_eq!(shown(whole(), CardSchema::V03), (in_03(), lost.map(str::to_owned).to_vec()));
}

#[test]
fn as_0_2() {
    let mut expected = in_03();
    expected["protocolVersion"] = "0.2.6".into();
    for (object, member) in [("", "signatures"), ("/skills/0", "security"), ("/securitySchemes", "tls")] {
        expected.pointer_mut(object).unwrap().as_object_mut().unwrap().remove(member).unwrap();
    }
    expected["securitySchemes"]["code"].as_object_mut().unwrap().remove("oauth2MetadataUrl").unwrap();
    let lost = [
        "security: securitySchemes.code.oauth2SecurityScheme.oauth2MetadataUrl",
        "security: securitySchemes.code.oauth2SecurityScheme.flows.authorizationCode.pkceRequired",
        "security: securitySchemes.device",
        "security: securitySchemes.tls",
        "signature: signatures",
        "interface: supportedInterfaces[0]",
        "interface: supportedInterfaces[1]",
        "tenant: supportedInterfaces[3].tenant",
        "interface: supportedInterfaces[2].protocolVersion",
        "interface: supportedInterfaces[3].protocolVersion",
        "security: skills[0].securityRequirements",
    ];
    let (shown, mut noted) = shown(whole(), CardSchema::V02);
    let mut lost = lost.map(str::to_owned).to_vec();
    noted.sort();
    lost.sort();
    assert_eq!((shown, noted), (expected, lost));
}

#[test]
fn as_0_1() {
    let expected = json!({
        "name": "Echo", "description": "Says it again.", "url": "https://x.example",
        "provider": {"url": "https://p.example", "organization": "P"},
        "version": "2.1.0", "documentationUrl": "https://d.example",
        "capabilities": {"streaming": true, "pushNotifications": true, "stateTransitionHistory": false},
        "authentication": {"schemes": ["bearer", "oauth2", "apiKey", "openIdConnect", "mutualTLS"],
            "credentials": "https://o.example"},
        "defaultInputModes": ["text", "data"], "defaultOutputModes": ["text", "file"],
        "skills": [
            {"id": "echo", "name": "Echo", "description": "d", "tags": ["t"], "examples": ["hi"],
             "inputModes": ["text"], "outputModes": ["data"]},
            {"id": "mcp__user_ab12_mail", "name": "Mail", "description": "d", "tags": ["t"]}
        ]
    });
    let (shown, lost) = shown(whole(), CardSchema::V01);
    assert_eq!(shown, expected);
    for note in [
        "interface: supportedInterfaces[0]",
        "interface: supportedInterfaces[2].protocolVersion",
        "security: securitySchemes.bearer",
        "security: securityRequirements",
        "extensions: capabilities.extensions",
        "card-member: capabilities.extendedAgentCard",
        "signature: signatures",
        "card-member: iconUrl",
        "card-member: defaultOutputModes",
        "security: skills[0].securityRequirements",
    ] {
        assert!(lost.iter().any(|l| l == note), "{note} among {lost:?}");
    }
    assert!(!lost.iter().any(|l| l.contains("defaultInputModes") || l.contains("skills[0].i")), "{lost:?}");
}

#[test]
fn as_agent_native() {
    let expected = json!({
        "name": "Echo", "description": "Says it again.", "url": "https://x.example/_agent-native/a2a",
        "version": "2.1.0", "protocolVersion": "0.3",
        "capabilities": {"streaming": true, "pushNotifications": false, "stateTransitionHistory": true},
        "skills": [{"id": "echo", "name": "Echo", "description": "d", "tags": ["t"], "examples": ["hi"]}],
        "securitySchemes": {"jwtBearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            "apiKey": {"type": "http", "scheme": "bearer"}},
        "security": [{"jwtBearer": []}, {"apiKey": []}]
    });
    let (shown, lost) = shown(whole(), CardSchema::Native);
    assert_eq!(shown, expected);
    for note in [
        "interface: supportedInterfaces[0].url",
        "interface: supportedInterfaces[1]",
        "security: securitySchemes.key",
        "security: securitySchemes.apiKey",
        "card-member: defaultInputModes",
        "card-member: capabilities.pushNotifications",
        "card-member: skills[1]",
        "card-member: skills[0].inputModes",
    ] {
        assert!(lost.iter().any(|l| l == note), "{note} among {lost:?}");
    }
}

#[test]
fn agent_native_is_shown_its_own_endpoint_where_there_is_one() {
    let mut card = whole();
    card["supportedInterfaces"][2]["url"] = "https://n.example/app/_agent-native/a2a".into();
    card["securitySchemes"] = json!({});
    card["skills"][0]["id"] = "mcp__org_7_drive".into();
    card["skills"][1]["id"] = "mcp__tools_clock".into();
    let (shown, _) = shown(card, CardSchema::Native);
    assert_eq!(shown["skills"][0]["id"], "mcp__tools_clock");
    assert_eq!(shown["url"], "https://n.example/app/_agent-native/a2a");
    assert_eq!((shown.get("securitySchemes"), shown.get("security")), (None, None));
}

#[test]
fn as_xpr() {
    let identity = XprIdentity {
        account: "myagent".into(),
        protocol: "https".into(),
        trust_score: Some(76),
        kyc_level: Some(2),
        registered_at: 1_704_067_200,
        owner: Some("carol".into()),
    };
    let members = json!({"xpr:account": "myagent", "xpr:protocol": "https", "xpr:trustScore": 76, "xpr:kycLevel": 2,
        "xpr:registeredAt": 1_704_067_200, "xpr:owner": "carol"});
    let with = |mut card: Value, members: &Value| {
        card.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        card
    };
    let expected = json!({
        "name": "Echo", "description": "Says it again.", "url": "https://x.example", "version": "2.1.0",
        "capabilities": {"streaming": true, "pushNotifications": true, "stateTransitionHistory": false},
        "defaultInputModes": ["text", "data"], "defaultOutputModes": ["text", "file"],
        "skills": [{"id": "echo", "name": "Echo", "description": "d", "tags": ["t"]},
            {"id": "mcp__user_ab12_mail", "name": "Mail", "description": "d", "tags": ["t"]}]
    });
    let card = card(whole());
    let shown = |form| -> Value {
        serde_json::from_slice(&write_with_identity(&card, form, &identity, &mut Losses::new())).unwrap()
    };
    assert_eq!(shown(CardSchema::Xpr), with(expected.clone(), &members));
    assert_eq!(shown(CardSchema::V03), with(in_03(), &members));

    let unregistered: Value = serde_json::from_slice(&write(&card, CardSchema::Xpr, &mut Losses::new())).unwrap();
    let members = json!({"xpr:account": "", "xpr:protocol": "https", "xpr:registeredAt": 0});
    assert_eq!(unregistered, with(expected, &members));
}

#[test]
fn agent_json_with_an_identity_is_read_as_0_3() {
    let identity = XprIdentity { account: "myagent".into(), ..XprIdentity::default() };
    let read = read(&write_with_identity(&card(whole()), CardSchema::V03, &identity, &mut Losses::new())).unwrap();
    assert_eq!((read.form, read.xpr), (CardSchema::V03, Some(identity)));
    assert_eq!(read.card.supported_interfaces[0].protocol_version, "0.3");
}

#[test]
fn what_speaks_no_older_version_is_shown_as_if_it_did() {
    let mut card = whole();
    card["supportedInterfaces"].as_array_mut().unwrap().truncate(2);
    let (shown, lost) = shown(card, CardSchema::V03);
    assert_eq!(shown["url"], "https://x.example/a2a");
    assert!(lost.contains(&"interface: supportedInterfaces[0].protocolVersion".to_owned()), "{lost:?}");
}

#[test]
fn the_older_card_has_what_clients_of_0_1_and_of_0_3_look_for() {
    let card: AgentCard = read(whole().to_string().as_bytes()).unwrap().card;
    let shown: Value = serde_json::from_slice(&write_v03_with_v01(&card, None, &mut Losses::new())).unwrap();
    let v03: Value = serde_json::from_slice(&write(&card, CardSchema::V03, &mut Losses::new())).unwrap();
    let v01: Value = serde_json::from_slice(&write(&card, CardSchema::V01, &mut Losses::new())).unwrap();
    for (name, value) in v03.as_object().unwrap() {
        if name != "capabilities" {
            assert_eq!(&shown[name], value, "{name}");
        }
    }
    assert_eq!(shown["authentication"], v01["authentication"]);
    assert_eq!(shown["capabilities"]["stateTransitionHistory"], json!(false));
    assert_eq!(
        read(shown.to_string().as_bytes()).unwrap().form,
        CardSchema::V03,
        "who states a version is of that version"
    );
    let open = AgentCard { security_schemes: [].into(), security_requirements: Vec::new(), ..card };
    let shown: Value = serde_json::from_slice(&write_v03_with_v01(&open, None, &mut Losses::new())).unwrap();
    assert!(shown.get("authentication").is_none(), "nothing is asked for");
}

#[test]
fn an_agreed_token_is_called_as_agent_native_calls_it() {
    let mut card = whole();
    card["securityRequirements"] = json!([]);
    for skill in card["skills"].as_array_mut().unwrap() {
        skill.as_object_mut().unwrap().remove("securityRequirements");
    }
    let bearer = |format: Option<&str>| match format {
        Some(format) => json!({"httpAuthSecurityScheme": {"scheme": "bearer", "bearerFormat": format}}),
        None => json!({"httpAuthSecurityScheme": {"scheme": "bearer"}}),
    };
    for (schemes, names) in [
        (json!({"legacy_key": bearer(None)}), vec!["apiKey"]),
        (json!({"jwt": bearer(Some("JWT"))}), vec!["jwtBearer"]),
        (json!({"legacy_key": bearer(None), "jwt": bearer(Some("JWT"))}), vec!["apiKey", "jwtBearer"]),
    ] {
        card["securitySchemes"] = schemes;
        let read: AgentCard = read(card.to_string().as_bytes()).unwrap().card;
        let shown: Value = serde_json::from_slice(&write(&read, CardSchema::Native, &mut Losses::new())).unwrap();
        let told: Vec<&String> = shown["securitySchemes"].as_object().unwrap().keys().collect();
        assert_eq!(told, names, "{shown}");
        assert_eq!(
            (&shown["protocolVersion"], &shown["capabilities"]["stateTransitionHistory"]),
            (&json!("0.3"), &json!(true))
        );
    }
}
