//! `sabir auth login` by a browser, against an issuer of the test: what an issuer, a page or another program on this machine
//! can do to it.

use crate::chat::TerminalUser;
use crate::command_runner::CommandDirectory;
use crate::http_client::{HttpConnection, Request, TEST_TIMEOUT};
use crate::stub_agent;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What the issuer of the test calls its tokens.
const TOKEN: &str = "an-access-token-0123456789";

/// An agent, and the authorization server of its card, at one address.
struct IssuerStub {
    url: String,
    /// The forms that its token endpoint was sent.
    forms: Arc<Mutex<Vec<HashMap<String, String>>>>,
}

impl IssuerStub {
    /// `change` edits the document in which the issuer says what it is.
    fn start(change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let forms: Arc<Mutex<Vec<HashMap<String, String>>>> = Arc::default();
        let (base, asked) = (url.clone(), forms.clone());
        stub_agent::serve_at(listener, move |request| {
            let answer = match request.path.as_str() {
                "/.well-known/agent-card.json" => agent_card(&base),
                "/.well-known/oauth-authorization-server" => {
                    let mut document = json!({
                        "issuer": base,
                        "authorization_endpoint": format!("{base}/authorize"),
                        "token_endpoint": format!("{base}/token"),
                        "code_challenge_methods_supported": ["S256"],
                        "authorization_response_iss_parameter_supported": true,
                    });
                    change(&mut document);
                    document
                }
                "/token" => {
                    let form = url::form_urlencoded::parse(request.body.as_bytes()).into_owned().collect();
                    asked.lock().unwrap().push(form);
                    json!({"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600})
                }
                _ => return (404, "text/plain", String::new()),
            };
            (200, "application/json", answer.to_string())
        });
        Self { url, forms }
    }

    fn forms(&self) -> Vec<HashMap<String, String>> {
        self.forms.lock().unwrap().clone()
    }
}

/// A card whose endpoints come from the document of its issuer.
fn agent_card(base: &str) -> Value {
    let mut card: Value = serde_json::from_str(&stub_agent::card(base)).unwrap();
    let flow = json!({"authorizationUrl": "", "tokenUrl": "", "scopes": {"read": "reads"}});
    card["securitySchemes"] = json!({"oauth": {"oauth2SecurityScheme": {
        "flows": {"authorizationCode": flow},
        "oauth2MetadataUrl": format!("{base}/.well-known/oauth-authorization-server"),
    }}});
    card
}

/// A login at a terminal that has shown the address for the browser.
struct Login {
    desk: CommandDirectory,
    person: TerminalUser,
    /// The parameters of that address.
    asked: HashMap<String, String>,
    redirect: url::Url,
}

impl Login {
    fn begin(issuer: &IssuerStub) -> Self {
        let desk = CommandDirectory::new();
        let command = desk.command(&["auth", "login", "-a", &issuer.url, "--client-id", "cli"]);
        let mut person = TerminalUser::start(command);
        person.wait_for_text("Open in a browser on this machine: ");
        let line = person.reads_line();
        // Up to the end of the colour of the line.
        let shown = url::Url::parse(line.split('\x1b').next().unwrap()).unwrap();
        assert_eq!(shown.path(), "/authorize", "{shown}");
        let asked: HashMap<String, String> = shown.query_pairs().into_owned().collect();
        let redirect = url::Url::parse(&asked["redirect_uri"]).unwrap();
        assert_eq!(redirect.host_str(), Some("127.0.0.1"));
        Self { desk, person, asked, redirect }
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.redirect.port().unwrap()))
    }

    /// The browser comes back; the status of the page that it gets.
    fn come_back(&self, answer: &[(&str, &str)]) -> u16 {
        let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(answer).finish();
        let mut wire = HttpConnection::open(self.address());
        wire.send(&Request::get(&format!("{}?{query}", self.redirect.path())));
        wire.response().status
    }

    /// Ends; whether a token was stored, and what was shown.
    fn ends(mut self) -> (bool, String) {
        let code = self.person.wait_for_exit();
        let stored = self.desk.run(&["auth", "status", "-o", "json"]).json();
        let tokens = stored["tokens"].as_array().unwrap().len();
        assert_eq!(code == 0, tokens == 1, "{}", self.person.screen());
        (code == 0, self.person.screen())
    }
}

#[test]
fn a_login_proves_with_pkce_that_the_code_is_its_own() {
    let issuer = IssuerStub::start(|_| {});
    let login = Login::begin(&issuer);
    let (state, challenge) = (login.asked["state"].clone(), login.asked["code_challenge"].clone());
    assert_eq!((&*login.asked["code_challenge_method"], &*login.asked["response_type"]), ("S256", "code"));
    assert!(state.len() >= 43 && challenge.len() == 43, "{:?}", login.asked);
    let address = login.address();
    assert_eq!(login.come_back(&[("code", "c-1"), ("state", &state), ("iss", &issuer.url)]), 200);
    let redirect = login.asked["redirect_uri"].clone();
    let (logged_in, screen) = login.ends();
    assert!(logged_in && !screen.contains(TOKEN), "{screen}");
    let forms = issuer.forms();
    assert_eq!(forms.len(), 1);
    let form = &forms[0];
    assert_eq!((&*form["grant_type"], &*form["code"], &*form["client_id"]), ("authorization_code", "c-1", "cli"));
    assert_eq!(form["redirect_uri"], redirect);
    assert_eq!(URL_SAFE_NO_PAD.encode(Sha256::digest(&form["code_verifier"])), challenge);
    // The same return once more finds no listener, so a code is not taken twice.
    assert!(TcpStream::connect_timeout(&address, TEST_TIMEOUT).is_err());
}

#[test]
fn two_logins_have_nothing_in_common() {
    let issuer = IssuerStub::start(|_| {});
    let (first, second) = (Login::begin(&issuer), Login::begin(&issuer));
    for name in ["state", "code_challenge", "redirect_uri"] {
        assert_ne!(first.asked[name], second.asked[name], "{name}");
    }
    // An answer to one of them is none to the other.
    let answer = [("code", "c-1"), ("state", &*first.asked["state"]), ("iss", &issuer.url)];
    assert_eq!(second.come_back(&answer), 400);
    assert!(!second.ends().0);
    assert!(issuer.forms().is_empty());
    assert_eq!(first.come_back(&answer), 200);
    assert!(first.ends().0);
}

#[test]
fn an_answer_of_another_state_or_of_another_issuer_gets_no_token() {
    let issuer = IssuerStub::start(|_| {});
    let check = |made: &dyn Fn(&str) -> Vec<(&'static str, String)>, words: &str| {
        let login = Login::begin(&issuer);
        let answer = made(&login.asked["state"]);
        let answer: Vec<(&str, &str)> = answer.iter().map(|(name, value)| (*name, &**value)).collect();
        assert_eq!(login.come_back(&answer), 400);
        let (logged_in, screen) = login.ends();
        assert!(!logged_in && screen.contains(words), "{screen}");
        assert!(issuer.forms().is_empty(), "no code reaches the token endpoint");
    };
    let own = issuer.url.clone();
    let code = || ("code", "c-1".to_owned());
    check(&|_| vec![code(), ("state", "guessed".into()), ("iss", own.clone())], "does not belong to this login");
    check(&|_| vec![code(), ("iss", own.clone())], "does not belong to this login");
    check(&|state| vec![code(), ("state", state[..42].into()), ("iss", own.clone())], "does not belong to this login");
    check(&|state| vec![code(), ("state", state.into()), ("state", "x".into())], "given twice");
    check(&|state| vec![code(), ("state", state.into()), ("iss", "https://evil.example".into())], "does not match");
    check(&|state| vec![code(), ("state", state.into())], "does not name its issuer");
    check(&|state| vec![("error", "access_denied".into()), ("state", state.into()), ("iss", own.clone())], "denied");
}

#[test]
fn an_issuer_that_gives_another_name_or_has_no_pkce_is_not_asked() {
    let check = |change: fn(&mut Value), words: &str| {
        let issuer = IssuerStub::start(change);
        let desk = CommandDirectory::new();
        let mut person = TerminalUser::start(desk.command(&["auth", "login", "-a", &issuer.url, "--client-id", "cli"]));
        assert_ne!(person.wait_for_exit(), 0);
        let screen = person.screen();
        assert!(screen.contains(words) && !screen.contains("Open in a browser"), "{screen}");
        assert!(issuer.forms().is_empty());
    };
    check(|document| document["issuer"] = json!("https://login.example"), "does not match");
    check(|document| document["code_challenge_methods_supported"] = json!(["plain"]), "PKCE");
    check(
        |document| document["token_endpoint"] = json!("http://login.example/token"),
        "neither https nor on this machine",
    );
}

#[test]
fn without_a_terminal_no_browser_is_asked_for() {
    let issuer = IssuerStub::start(|_| {});
    let ran = CommandDirectory::new().run(&["auth", "login", "-a", &issuer.url, "--client-id", "cli"]);
    assert!(ran.code != 0 && ran.stderr.contains("browser"), "{ran:#?}");
    assert!(issuer.forms().is_empty());
}
