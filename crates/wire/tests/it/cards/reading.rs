//! Reading cards as they are found: from the specification, the documentation of the dialects, and servers.

use super::{lints, losses};
use sabir_proto::card::{Interface, OAuthFlows, SecurityScheme};
use sabir_proto::{AgentCard, Fault};
use sabir_wire::Losses;
use sabir_wire::card::{
    CARD_BYTES_MAX, CardSchema, LINTS_MAX, ReadCard, XprIdentity, read, write, write_with_identity,
};
use serde_json::{Value, json};

#[track_caller]
fn found(card: &Value) -> ReadCard {
    read(card.to_string().as_bytes()).unwrap()
}

fn canonical(read: &ReadCard) -> Value {
    serde_json::to_value(&read.card).unwrap()
}

fn interface(url: &str, binding: &str, version: &str) -> Interface {
    Interface { url: url.into(), protocol_binding: binding.into(), tenant: None, protocol_version: version.into() }
}

/// The four cards that the versions of the specification have for one agent.
fn v01() -> Value {
    json!({"name":"Echo","description":"d","url":"https://x.example/a2a","version":"1.0.0",
        "capabilities":{"streaming":true,"pushNotifications":false,"stateTransitionHistory":false},
        "authentication":{"schemes":["Bearer"]},"defaultInputModes":["text"],"defaultOutputModes":["text"],
        "skills":[{"id":"echo","name":"Echo"}]})
}

fn v02() -> Value {
    json!({"protocolVersion":"0.2.6","name":"Echo","description":"d","url":"https://x.example/a2a",
        "preferredTransport":"JSONRPC","version":"1.0.0","capabilities":{"streaming":true},
        "securitySchemes":{"b":{"type":"http","scheme":"bearer"}},"security":[{"b":[]}],
        "defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],
        "skills":[{"id":"echo","name":"Echo","description":"d","tags":["t"]}],
        "supportsAuthenticatedExtendedCard":false})
}

fn v03() -> Value {
    json!({"protocolVersion":"0.3.0","name":"Echo","description":"d","url":"https://x.example/a2a",
        "preferredTransport":"JSONRPC","additionalInterfaces":[{"url":"https://x.example/a2a","transport":"JSONRPC"},
            {"url":"https://x.example/rest","transport":"HTTP+JSON"}],
        "version":"1.0.0","capabilities":{"streaming":true,"pushNotifications":true},
        "securitySchemes":{"k":{"type":"apiKey","in":"header","name":"X-Key"}},"security":[{"k":[]}],
        "defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],
        "skills":[{"id":"echo","name":"Echo","description":"d","tags":["t"]}],
        "supportsAuthenticatedExtendedCard":true})
}

fn v1() -> Value {
    json!({"name":"Echo","description":"d","supportedInterfaces":[
            {"url":"https://x.example/a2a","protocolBinding":"JSONRPC","protocolVersion":"1.0"},
            {"url":"https://x.example/a2a","protocolBinding":"JSONRPC","protocolVersion":"0.3"},
            {"url":"https://x.example/rest","protocolBinding":"HTTP+JSON","protocolVersion":"1.0"}],
        "version":"1.0.0","capabilities":{"streaming":true,"pushNotifications":true,"extendedAgentCard":true},
        "securitySchemes":{"k":{"apiKeySecurityScheme":{"location":"header","name":"X-Key"}}},
        "securityRequirements":[{"schemes":{"k":{"list":[]}}}],
        "defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],
        "skills":[{"id":"echo","name":"Echo","description":"d","tags":["t"]}]})
}

/// A card as agent-native serves it.
fn native() -> Value {
    json!({"name":"Test Agent","description":"d","url":"http://127.0.0.1:9741/_agent-native/a2a","version":"1.0.0",
        "protocolVersion":"0.3",
        "capabilities":{"streaming":true,"pushNotifications":false,"stateTransitionHistory":true},
        "skills":[{"id":"s1","name":"S1","description":"x","tags":["t"]}],
        "securitySchemes":{"jwtBearer":{"type":"http","scheme":"bearer","bearerFormat":"JWT"},
            "apiKey":{"type":"http","scheme":"bearer"}},
        "security":[{"jwtBearer":[]},{"apiKey":[]}]})
}

/// A card as an XPR runner serves it.
fn xpr() -> Value {
    json!({"name":"My Agent","description":"desc","url":"http://127.0.0.1:9713","version":"1.0.0",
        "capabilities":{"streaming":false,"pushNotifications":false,"stateTransitionHistory":false},
        "defaultInputModes":["text"],"defaultOutputModes":["text"],
        "skills":[{"id":"compute","name":"compute","description":"compute capability","tags":["compute"]}],
        "xpr:account":"myagent","xpr:protocol":"https","xpr:trustScore":76,"xpr:kycLevel":2,
        "xpr:registeredAt":1_704_067_200,"xpr:owner":"carol"})
}

/// A card as the Python SDK serves it when it speaks 0.3 as well.
fn python_hybrid() -> Value {
    let mut card = v1();
    card["supportedInterfaces"] = json!([
        {"url":"https://x.example/","protocolBinding":"JSONRPC","protocolVersion":"1.0"},
        {"url":"https://x.example/","protocolBinding":"JSONRPC","protocolVersion":"0.3"},
        {"url":"https://x.example/rest","protocolBinding":"HTTP+JSON","protocolVersion":"0.3"}]);
    card["securitySchemes"] = json!({
        "k":{"apiKeySecurityScheme":{"location":"header","name":"X-Key"},"in":"header","name":"X-Key","type":"apiKey"},
        "m":{"mtlsSecurityScheme":{"description":"x"},"description":"x","type":"mutualTLS"},
        "o":{"oauth2SecurityScheme":{"flows":{"authorizationCode":{"authorizationUrl":"https://a","tokenUrl":"https://t",
                "scopes":{"r":"read"},"pkceRequired":true}},"oauth2MetadataUrl":"https://m"},
            "flows":{"authorizationCode":{"authorizationUrl":"https://a","scopes":{"r":"read"},"tokenUrl":"https://t"}},
            "oauth2MetadataUrl":"https://m","type":"oauth2"}});
    card["securityRequirements"] = json!([{"schemes":{"k":{},"o":{"list":["r"]}}}]);
    card["security"] = json!([{"k":[],"o":["r"]}]);
    card["additionalInterfaces"] = json!([{"transport":"HTTP+JSON","url":"https://x.example/rest"}]);
    card["preferredTransport"] = "JSONRPC".into();
    card["protocolVersion"] = "0.3".into();
    card["supportsAuthenticatedExtendedCard"] = true.into();
    card["url"] = "https://x.example/".into();
    card
}

#[test]
fn every_form_is_told_by_its_members() {
    for (card, form) in [
        (v1(), CardSchema::V1),
        (python_hybrid(), CardSchema::Hybrid),
        (v03(), CardSchema::V03),
        (v02(), CardSchema::V02),
        (v01(), CardSchema::V01),
        (native(), CardSchema::Native),
        (xpr(), CardSchema::Xpr),
    ] {
        let read = found(&card);
        assert_eq!(read.form, form);
        assert_eq!((lints(&read), losses(&read.losses)), (vec![], vec![]), "{form:?} keeps its own rules");
    }
}

#[test]
fn found_and_shown_again_it_is_the_same() {
    for (mut card, form) in [
        (v1(), CardSchema::V1),
        (v03(), CardSchema::V03),
        (v01(), CardSchema::V01),
        (native(), CardSchema::Native),
        (v02(), CardSchema::V02),
    ] {
        let bytes = write(&found(&card).card, form, &mut Losses::new());
        let again: Value = serde_json::from_slice(&bytes).unwrap();
        // The default, which the form leaves out.
        for (pointer, value) in
            [("/capabilities", json!({"streaming": true, "pushNotifications": false, "stateTransitionHistory": false}))]
        {
            if form == CardSchema::V01 {
                *card.pointer_mut(pointer).unwrap() = value;
                card["skills"][0]["description"] = "".into();
                card["skills"][0]["tags"] = json!([]);
            }
        }
        if form == CardSchema::V1 {
            card["securityRequirements"] = json!([{"schemes": {"k": {}}}]);
        }
        assert_eq!(again, card, "{form:?}");
    }
    let read = found(&xpr());
    let mut lost = Losses::new();
    let bytes = write_with_identity(&read.card, CardSchema::Xpr, &read.xpr.unwrap(), &mut lost);
    assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), xpr());
    assert_eq!(losses(&lost), [""; 0]);
}

#[test]
fn a_1_0_card_is_read_by_the_letter() {
    for card in [v1(), python_hybrid()] {
        let by_the_letter: AgentCard = serde_json::from_str(&card.to_string()).unwrap_or_else(|_| {
            // The type allows a scheme only one member.
            let mut card = card.clone();
            for scheme in card["securitySchemes"].as_object_mut().unwrap().values_mut() {
                scheme.as_object_mut().unwrap().retain(|name, _| name.ends_with("Scheme"));
            }
            serde_json::from_str(&card.to_string()).unwrap()
        });
        assert_eq!(found(&card).card, by_the_letter);
    }
}

#[test]
fn older_endpoints_become_interfaces() {
    let of = |card: Value| found(&card).card.supported_interfaces;
    let (a2a, rest) = ("https://x.example/a2a", "https://x.example/rest");
    assert_eq!(of(v01()), [interface(a2a, "JSONRPC", "0.1")]);
    assert_eq!(of(v02()), [interface(a2a, "JSONRPC", "0.2")]);
    assert_eq!(of(v03()), [interface(a2a, "JSONRPC", "0.3"), interface(rest, "HTTP+JSON", "0.3")]);
    assert_eq!(of(native()), [interface("http://127.0.0.1:9741/_agent-native/a2a", "JSONRPC", "agent-native")]);
    // The address is the base; requests go below it.
    assert_eq!(of(xpr()), [interface("http://127.0.0.1:9713/a2a", "JSONRPC", "xpr")]);

    let mut card = v03();
    for member in ["preferredTransport", "protocolVersion"] {
        card.as_object_mut().unwrap().remove(member);
    }
    let read = found(&card);
    assert_eq!((read.form, lints(&read)), (CardSchema::V03, vec!["missing protocolVersion".into()]));
    assert_eq!(of(card), of(v03()));
}

#[test]
fn an_older_card_becomes_a_canonical_one() {
    let read = found(&v03());
    assert_eq!(
        canonical(&read),
        json!({"name":"Echo","description":"d","supportedInterfaces":[
                {"url":"https://x.example/a2a","protocolBinding":"JSONRPC","protocolVersion":"0.3"},
                {"url":"https://x.example/rest","protocolBinding":"HTTP+JSON","protocolVersion":"0.3"}],
            "version":"1.0.0","capabilities":{"streaming":true,"pushNotifications":true,"extendedAgentCard":true},
            "securitySchemes":{"k":{"apiKeySecurityScheme":{"location":"header","name":"X-Key"}}},
            "securityRequirements":[{"schemes":{"k":{}}}],
            "defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],
            "skills":[{"id":"echo","name":"Echo","description":"d","tags":["t"]}]})
    );
    let read = found(&v01());
    let bearer = SecurityScheme::HttpAuth { description: None, scheme: "Bearer".into(), bearer_format: None };
    assert_eq!(read.card.security_schemes, [("Bearer".to_owned(), bearer)].into());
    assert_eq!(read.card.default_input_modes, ["text/plain"]);
}

#[test]
fn snake_case_and_security_of_another_version_are_understood() {
    let read = found(&json!({
        "name":"ResearchAgent","description":"Retrieves and summarizes documents from the web.","version":"1.0.0",
        "capabilities":{"streaming":true,"pushNotifications":false},
        "security_schemes":{"oauth2":{"type":"oauth2",
            "flows":{"clientCredentials":{"tokenUrl":"https://auth.example.com/token"}}}},
        "security":[{"oauth2":["research:read"]}],
        "default_input_modes":["text/plain"],"default_output_modes":["text/plain","application/json"],
        "skills":[{"id":"summarize_url","name":"Summarize URL",
            "description":"Fetches a URL and returns a structured summary.","tags":["research","web"],
            "input_modes":["text/plain"],"output_modes":["application/json"]}]}));
    assert_eq!(read.form, CardSchema::V1);
    assert_eq!(
        canonical(&read),
        json!({"name":"ResearchAgent","description":"Retrieves and summarizes documents from the web.",
            "supportedInterfaces":[],"version":"1.0.0","capabilities":{"streaming":true,"pushNotifications":false},
            "securitySchemes":{"oauth2":{"oauth2SecurityScheme":{
                "flows":{"clientCredentials":{"tokenUrl":"https://auth.example.com/token","scopes":{}}}}}},
            "securityRequirements":[{"schemes":{"oauth2":{"list":["research:read"]}}}],
            "defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain","application/json"],
            "skills":[{"id":"summarize_url","name":"Summarize URL",
                "description":"Fetches a URL and returns a structured summary.","tags":["research","web"],
                "inputModes":["text/plain"],"outputModes":["application/json"]}]})
    );
    let mut found = lints(&read);
    found.sort();
    let expected = [
        "missing securitySchemes.oauth2.oauth2SecurityScheme.flows.clientCredentials.scopes",
        "missing supportedInterfaces",
        "other-version security",
        "other-version securitySchemes.oauth2",
        "snake-case default_input_modes",
        "snake-case default_output_modes",
        "snake-case security_schemes",
        "snake-case skills[0].input_modes",
        "snake-case skills[0].output_modes",
    ];
    assert_eq!(found, expected);

    let read = self::found(&json!({"name":"n","supported_interfaces":
        [{"url":"https://x.example","protocol_binding":"GRPC","protocol_version":"1.0"}]}));
    assert_eq!(read.card.supported_interfaces, [interface("https://x.example", "GRPC", "1.0")]);
}

#[test]
fn a_0_1_card_of_the_tutorials() {
    let read = found(&json!({
        "name":"Code Review Agent","description":"Automated code review","url":"https://code-review.example.com/a2a",
        "version":"2.0.0","provider":{"organization":"DevTools Corp","url":"https://devtools.example.com"},
        "capabilities":{"streaming":true,"pushNotifications":true,"stateTransitionHistory":true},
        "skills":[{"id":"style-review","name":"Style Review","description":"Check code","tags":["style"]}],
        "authentication":{"schemes":["oauth2"],
            "credentials":"https://auth.devtools.example.com/.well-known/openid-configuration"},
        "defaultInputModes":["text","file"],"defaultOutputModes":["text","file"]}));
    assert_eq!((read.form, lints(&read)), (CardSchema::V01, vec![]));
    assert_eq!(losses(&read.losses), ["card-member: capabilities.stateTransitionHistory"]);
    assert_eq!(read.card.default_input_modes, ["text/plain", "*/*"]);
    let open_id_connect_url = "https://auth.devtools.example.com/.well-known/openid-configuration".into();
    let open_id = SecurityScheme::OpenIdConnect { description: None, open_id_connect_url };
    assert_eq!(read.card.security_schemes, [("oauth2".to_owned(), open_id)].into());
}

#[test]
fn credentials_are_not_passed_on() {
    let mut card = v01();
    card["authentication"] = json!({"schemes": ["apiKey", "oauth2", "apiKey"], "credentials": "s3cret"});
    let read = found(&card);
    assert_eq!(
        lints(&read),
        [
            "assumed authentication.schemes",
            "assumed authentication.schemes",
            "other-version authentication.credentials"
        ]
    );
    assert_eq!(losses(&read.losses), ["security: authentication.credentials"]);
    assert_eq!(read.card.security_requirements.len(), 2);
    assert!(!format!("{read:?}").contains("s3cret"));
}

#[test]
fn the_documented_agent_native_card_names_the_site() {
    let mut card = native();
    card["url"] = "https://analytics.example.com".into();
    card["securitySchemes"] = json!({"apiKey": {"type": "http", "scheme": "bearer"}});
    card["security"] = json!([{"apiKey": []}]);
    card["skills"][0]["inputSchema"] = json!({"type": "object"});
    let read = found(&card);
    assert_eq!(read.form, CardSchema::Native);
    assert_eq!(read.card.supported_interfaces[0].url, "https://analytics.example.com/_agent-native/a2a");
    assert_eq!(losses(&read.losses), ["card-member: skills[0].inputSchema"]);
}

#[test]
fn an_identity_is_read_with_what_it_has() {
    let identity = XprIdentity {
        account: "myagent".into(),
        protocol: "https".into(),
        trust_score: Some(76),
        kyc_level: Some(2),
        registered_at: 1_704_067_200,
        owner: Some("carol".into()),
    };
    assert_eq!(found(&xpr()).xpr, Some(identity));
    assert_eq!(found(&v03()).xpr, None);

    let mut card = xpr();
    for member in ["xpr:protocol", "xpr:trustScore", "xpr:owner", "xpr:registeredAt"] {
        card.as_object_mut().unwrap().remove(member);
    }
    card["xpr:kycLevel"] = "high".into();
    let read = found(&card);
    assert_eq!(read.xpr, Some(XprIdentity { account: "myagent".into(), ..XprIdentity::default() }));
    assert_eq!(lints(&read), ["missing xpr:protocol", "wrong-type xpr:kycLevel", "missing xpr:registeredAt"]);
}

#[test]
fn what_the_go_sdk_writes_for_requirements_is_understood() {
    let mut card = v1();
    card["securityRequirements"] = json!([{"schemes":{"oauth":["read","write"]}},{"schemes":{"k":[],"mtls":null}}]);
    let read = found(&card);
    assert_eq!(
        canonical(&read)["securityRequirements"],
        json!([{"schemes":{"oauth":{"list":["read","write"]}}},{"schemes":{"k":{},"mtls":{}}}])
    );
    assert_eq!(lints(&read), [""; 0]);
}

#[test]
fn of_several_flows_the_first_is_kept() {
    let text = r#"{"name":"n","url":"https://x.example","protocolVersion":"0.3.0","securitySchemes":{"o":{"type":"oauth2","flows":{
        "password":{"tokenUrl":"https://t","scopes":{}},"clientCredentials":{"tokenUrl":"https://t","scopes":{}},
        "implicit":null,"future":{}}}}}"#;
    let read = read(text.as_bytes()).unwrap();
    let SecurityScheme::OAuth2 { flows, .. } = &read.card.security_schemes["o"] else { panic!("OAuth") };
    assert!(matches!(flows, OAuthFlows::Password { .. }), "{flows:?}");
    let at = "securitySchemes.o.oauth2SecurityScheme.flows";
    assert_eq!(losses(&read.losses), [format!("security: {at}.clientCredentials"), format!("security: {at}.future")]);
}

#[test]
fn a_scheme_that_is_not_understood_is_left_out_and_named() {
    let mut card = v03();
    card["securitySchemes"] = json!({"new": {"type": "quantum"}, "none": {}, "odd": 5,
        "empty": {"type": "oauth2", "flows": {}}, "k": {"type": "apiKey", "in": "header", "name": "X-Key"}});
    let read = found(&card);
    assert_eq!(read.card.security_schemes.keys().collect::<Vec<_>>(), ["k"]);
    let lost = ["empty", "new", "none", "odd"].map(|name| format!("security: securitySchemes.{name}"));
    assert_eq!(losses(&read.losses), lost);
}

#[test]
fn a_card_with_little_in_it_is_still_read() {
    let read = found(&json!({"name": "n", "url": "https://x.example", "skills": [{"name": "s"}, {}, 5]}));
    assert_eq!(
        canonical(&read),
        json!({"name":"n","description":"","supportedInterfaces":
                [{"url":"https://x.example","protocolBinding":"JSONRPC","protocolVersion":"0.3"}],
            "version":"","capabilities":{},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],
            "skills":[{"id":"s","name":"s","description":"","tags":[]},{"id":"","name":"","description":"","tags":[]}]})
    );
    for lint in [
        "missing version",
        "missing capabilities",
        "missing defaultInputModes",
        "missing skills[0].id",
        "missing skills[1].tags",
        "wrong-type skills[2]",
    ] {
        assert!(lints(&read).iter().any(|l| l == lint), "{lint} among {:?}", lints(&read));
    }
}

#[test]
fn sloppy_values_are_read_as_far_as_they_can_be() {
    let read = found(&json!({"name": "n", "url": "https://x.example", "protocolVersion": "0.3.0", "description": null,
        "version": 1.5, "provider": "ACME", "authentication": "bearer", "capabilities": {"streaming": "yes"},
        "defaultInputModes": "text", "defaultOutputModes": ["text", 5, null], "skills": [], "extra": 1}));
    assert_eq!((&*read.card.version, read.card.capabilities.streaming), ("1.5", None));
    assert_eq!(read.card.provider.unwrap().organization, "ACME");
    assert!(read.card.security_schemes.contains_key("bearer"));
    assert_eq!(read.card.default_input_modes, ["text/plain"]);
    assert_eq!(read.card.default_output_modes, ["text/plain", "5"]);
    for lint in [
        "wrong-type version",
        "wrong-type provider",
        "other-version authentication",
        "wrong-type capabilities.streaming",
        "wrong-type defaultInputModes",
        "mode-word defaultOutputModes[0]",
        "wrong-type defaultOutputModes[2]",
        "unknown-member extra",
        "missing description",
    ] {
        assert!(read.lint.iter().any(|l| format!("{} {}", l.id, l.path) == lint), "{lint}");
    }
}

#[test]
fn a_version_decides_where_nothing_else_does() {
    let of = |version: &str| {
        let read = found(&json!({"name": "n", "url": "https://x.example", "protocolVersion": version}));
        (read.form, read.card.supported_interfaces[0].protocol_version.clone())
    };
    assert_eq!(of("0.1"), (CardSchema::V01, "0.1".into()));
    assert_eq!(of("0.2.5"), (CardSchema::V02, "0.2".into()));
    assert_eq!(of("0.3"), (CardSchema::V03, "0.3".into()));
    assert_eq!(of("0.4.0"), (CardSchema::V03, "0.4".into()));
    assert_eq!(of("1.0"), (CardSchema::V1, "1.0".into()));
    assert_eq!(of("latest"), (CardSchema::V03, "latest".into()));
}

#[test]
fn a_hybrid_that_contradicts_itself_is_named() {
    let mut card = python_hybrid();
    card["url"] = "https://elsewhere.example".into();
    assert_eq!(lints(&found(&card)), ["url url"]);
}

#[test]
fn what_cannot_be_a_card_is_refused() {
    #[track_caller]
    fn check(json: impl AsRef<[u8]>, problem: &str) {
        let Err(Fault::InvalidAgentResponse(message)) = read(json.as_ref()) else { panic!("not refused: {problem}") };
        assert!(message.contains(problem), "{message:?} does not say {problem:?}");
        assert!(message.len() <= 512, "{} bytes", message.len());
    }
    check("", "cannot be read");
    check("<html>", "cannot be read");
    check([0xff, b'{'], "not UTF-8");
    check("[]", "not an object");
    check("null", "not an object");
    check("{}", "has no name");
    check(r#"{"name":null}"#, "has no name");
    check(r#"{"name":""}"#, "has no name");
    check(r#"{"name":[]}"#, "has no name");
    check(r#"{"name":"a","name":"b"}"#, "duplicate member \"name\"");
    check(r#"{"name":"a","skills":[{"id":"x","id":"y"}]}"#, "duplicate member \"id\"");
    check(r#"{"name":"a","iconUrl":"b","icon_url":"c"}"#, "duplicate member \"iconUrl\"");
    check(r#"{"name":"a","skills":[{"input_modes":[],"inputModes":[]}]}"#, "skills[0]: duplicate member");
    check(format!(r#"{{"name":"n","{0}":1,"{0}":2}}"#, "x".repeat(100_000)), "duplicate member");
    let deep = |levels: usize| format!(r#"{{"name":"n","x":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
    assert!(read(deep(63).as_bytes()).is_ok());
    check(deep(64), "deeper than 64");
    check(deep(100_000), "deeper than 64");
    let long = |bytes: usize| format!(r#"{{"name":"{}"}}"#, "n".repeat(bytes - 11));
    assert!(read(long(CARD_BYTES_MAX).as_bytes()).is_ok());
    check(long(CARD_BYTES_MAX + 1), "1048577 bytes long");
}

/// The largest card that a foreign server can send costs time in proportion to its length, and no more.
#[test]
fn a_hostile_card_stays_within_bounds() {
    let filled = |open: &str, item: &dyn Fn(usize) -> String, close: &str| {
        let mut text = open.to_owned();
        for i in 0.. {
            let item = item(i);
            if text.len() + item.len() + close.len() + 1 > CARD_BYTES_MAX {
                break;
            }
            let joint = if i == 0 { "" } else { "," };
            text.push_str(joint);
            text.push_str(&item);
        }
        text + close
    };
    let long = "k".repeat(500_000);
    for text in [
        filled(r#"{"name":"n","skills":["#, &|_| "{}".into(), "]}"),
        filled(r#"{"name":"n","#, &|i| format!(r#""{i}":0"#), "}"),
        filled(r#"{"name":"n","#, &|i| format!(r#""a_{i}":0"#), "}"),
        filled(r#"{"name":"n","url":"u","additionalInterfaces":["#, &|_| r#"{"url":"u"}"#.into(), "]}"),
        filled(r#"{"name":"n","url":"u","additionalInterfaces":["#, &|i| format!(r#"{{"url":"{i}"}}"#), "]}"),
        filled(r#"{"name":"n","supportedInterfaces":["#, &|_| r#"{"protocolVersion":"0.3"}"#.into(), "]}"),
        filled(r#"{"name":"n","securitySchemes":{"#, &|i| format!(r#""{i}":{{"type":"oauth2"}}"#), "}}"),
        filled(r#"{"name":"n","authentication":{"schemes":["#, &|i| format!(r#""{i}""#), "]}}"),
        filled(r#"{"name":"n","defaultInputModes":["#, &|_| r#""text""#.into(), "]}"),
        format!(r#"{{"name":"n","securitySchemes":{{"{long}":{{"type":"oauth2","flows":{{"a":{{}},"b":{{}}}}}}}}}}"#),
    ] {
        let read = read(text.as_bytes()).unwrap();
        assert!(read.lint.len() <= LINTS_MAX);
        let told: usize = read.lint.iter().map(|l| l.path.len() + l.message.len()).sum();
        assert!(told < 64 * 1024, "{told} bytes of findings");
        let lost: usize = read.losses.notes().iter().map(|l| l.path.len()).sum();
        assert!(lost < 64 * 1024, "{lost} bytes of losses");
        for form in CardSchema::ALL {
            write(&read.card, form, &mut Losses::new());
        }
    }
}
