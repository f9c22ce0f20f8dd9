//! The authorization code flow for programs on the user's machine (RFC 8252), with PKCE (RFC 7636).
//!
//! The browser brings a code to a listener on loopback, where other programs may listen or connect. Three random values
//! protect the login: `state` ties the answer to our request, the PKCE verifier makes an intercepted code worthless,
//! and the nonce ties the id token to both.

use super::loopback::Loopback;
use super::token_endpoint::TokenResponse;
use super::{Clock, Http, OAuthClient, OAuthError, Prompt, ShowPrompt, Token, check_endpoint, printable};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::time::Duration;
use url::Url;

/// The parameters of the authorization code flow.
#[derive(Debug)]
pub struct AuthorizationCodeFlow<'a> {
    /// The `authorizationUrl` of the card.
    pub authorization_url: &'a Url,
    /// The `tokenUrl` of the card.
    pub token_url: &'a Url,
    /// The scopes to ask for.
    pub scopes: &'a [String],
    /// The issuer that must have answered, if it is known (RFC 9207).
    pub issuer: Option<&'a str>,
    /// The server states that its answers name the issuer, so an answer without an issuer is refused.
    pub issuer_in_answer: bool,
    /// The port on 127.0.0.1 for the redirect; 0 lets the system choose.
    pub port: u16,
    /// How long the user may take to log in.
    pub timeout: Duration,
}

impl<H: Http, C: Clock> OAuthClient<'_, H, C> {
    /// Runs the flow: shows a URL for a browser on this machine, and waits for the redirect.
    pub async fn authorization_code(
        &self,
        flow: &AuthorizationCodeFlow<'_>,
        show: ShowPrompt<'_>,
    ) -> Result<Token, OAuthError> {
        self.authorization_code_grant(flow, None, show).await?.into_token(flow.scopes, self.clock.now())
    }

    pub(super) async fn authorization_code_grant(
        &self,
        flow: &AuthorizationCodeFlow<'_>,
        nonce: Option<&str>,
        show: ShowPrompt<'_>,
    ) -> Result<TokenResponse, OAuthError> {
        check_endpoint(flow.authorization_url)?;
        check_endpoint(flow.token_url)?;
        let (state, verifier) = (random_token(), random_token());
        let loopback = Loopback::bind(flow.port).await?;
        let redirect = loopback.redirect_uri();
        let scope = flow.scopes.join(" ");
        let mut url = flow.authorization_url.clone();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", self.id)
            .append_pair("redirect_uri", &redirect)
            .append_pair("state", &state)
            .append_pair("code_challenge", &challenge(&verifier))
            .append_pair("code_challenge_method", "S256");
        if !scope.is_empty() {
            url.query_pairs_mut().append_pair("scope", &scope);
        }
        if let Some(nonce) = nonce {
            url.query_pairs_mut().append_pair("nonce", nonce);
        }
        show(&Prompt::Browser { url: &url });
        let code = loopback.wait(flow.timeout, |answer| read_code(answer, &state, flow)).await?;
        let form = [
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("redirect_uri", &redirect),
            ("code_verifier", &verifier),
        ];
        self.request_token(flow.token_url, &form).await
    }
}

/// Reads the code from an answer to our request. The state is checked first: without it not even a refusal counts.
fn read_code(answer: &Url, state: &str, flow: &AuthorizationCodeFlow<'_>) -> Result<String, OAuthError> {
    let one = |name: &str| {
        let mut values = answer.query_pairs().filter(|(key, _)| key == name).map(|(_, value)| value.into_owned());
        let value = values.next();
        if values.next().is_some() { Err(OAuthError::Redirect("a parameter is given twice")) } else { Ok(value) }
    };
    let returned = one("state")?.unwrap_or_default();
    verify_slices_are_equal(returned.as_bytes(), state.as_bytes())
        .map_err(|_| OAuthError::Redirect("it does not belong to this login"))?;
    match (one("iss")?, flow.issuer) {
        (Some(found), Some(expected)) if found != expected => {
            return Err(OAuthError::Issuer { expected: expected.to_owned(), found: printable(&found) });
        }
        (None, Some(_)) if flow.issuer_in_answer => return Err(OAuthError::Redirect("it does not name its issuer")),
        _ => {}
    }
    if let Some(error) = one("error")? {
        let description = one("error_description")?.map(|text| printable(&text));
        let denied = error == "access_denied";
        return Err(if denied {
            OAuthError::Denied
        } else {
            OAuthError::Refused { error: printable(&error), description }
        });
    }
    one("code")?.filter(|code| !code.is_empty()).ok_or(OAuthError::Redirect("it holds no code"))
}

/// 256 random bits as text that fits in URLs and forms.
pub(super) fn random_token() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
}

fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::oauth::fakes::{FakeClock, FakeHttp, form_of, url};
    use serde_json::json;
    use std::collections::HashMap;
    use std::sync::Mutex;
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpStream;

    #[test]
    fn the_challenge_is_that_of_the_standards_example() {
        assert_eq!(
            challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        );
        assert_eq!(random_token().len(), 43);
        assert_ne!(random_token(), random_token());
    }

    /// A browser that logs in as soon as it gets a URL, and returns with what `answer` makes of its query.
    pub(crate) struct Browser {
        seen: Mutex<Option<Url>>,
    }

    impl Browser {
        pub(crate) fn new() -> Self {
            Self { seen: Mutex::default() }
        }

        pub(crate) fn show(&self, prompt: &Prompt<'_>) {
            let Prompt::Browser { url } = prompt else { panic!("a browser is not for {prompt:?}") };
            *self.seen.lock().unwrap() = Some((*url).clone());
        }

        /// The query of the URL that we were asked to open, once it was shown.
        pub(crate) async fn asked(&self) -> HashMap<String, String> {
            loop {
                let seen = self.seen.lock().unwrap().clone();
                match seen {
                    Some(url) => return url.query_pairs().into_owned().collect(),
                    None => tokio::time::sleep(Duration::from_millis(1)).await,
                }
            }
        }

        pub(crate) async fn come_back(&self, answer: impl Fn(&HashMap<String, String>) -> String) {
            let asked = self.asked().await;
            let redirect = url(&asked["redirect_uri"]);
            assert_eq!(redirect.host_str(), Some("127.0.0.1"));
            let mut stream = TcpStream::connect(("127.0.0.1", redirect.port().unwrap())).await.unwrap();
            let request = format!("GET {}?{} HTTP/1.1\r\nHost: x\r\n\r\n", redirect.path(), answer(&asked));
            stream.write_all(request.as_bytes()).await.unwrap();
        }
    }

    async fn run(
        http: &FakeHttp,
        issuer: Option<&str>,
        answer: impl Fn(&HashMap<String, String>) -> String,
    ) -> (Result<Token, OAuthError>, HashMap<String, String>) {
        let (authorization_url, token_url) =
            (url("https://as.example/authorize?tenant=t"), url("https://as.example/token"));
        let scopes = ["read".to_owned()];
        let flow = AuthorizationCodeFlow {
            authorization_url: &authorization_url,
            token_url: &token_url,
            scopes: &scopes,
            issuer,
            issuer_in_answer: issuer.is_some(),
            port: 0,
            timeout: Duration::from_secs(20),
        };
        let (browser, clock) = (Browser::new(), FakeClock::at(0));
        let client = OAuthClient::new(http, &clock, "me", None);
        let show = |prompt: &Prompt<'_>| browser.show(prompt);
        let (result, ()) = tokio::join!(client.authorization_code(&flow, &show), browser.come_back(answer));
        (result, browser.asked().await)
    }

    #[tokio::test]
    async fn the_code_is_exchanged_with_the_verifier_behind_the_challenge() {
        let http = FakeHttp::answers([(200, json!({"access_token": "at"}))]);
        let (result, asked) = run(&http, None, |asked| format!("code=c%2F1&state={}", asked["state"])).await;
        assert_eq!(result.unwrap().access.expose(), "at");
        assert_eq!(asked["tenant"], "t");
        assert_eq!((asked["response_type"].as_str(), asked["scope"].as_str()), ("code", "read"));
        assert_eq!(asked["code_challenge_method"], "S256");
        let form: HashMap<_, _> = form_of(&http.requests()[0]).into_iter().collect();
        assert_eq!((form["code"], form["client_id"]), ("c/1", "me"));
        assert_eq!(form["redirect_uri"], asked["redirect_uri"]);
        assert_eq!(challenge(form["code_verifier"]), asked["code_challenge"]);
    }

    #[tokio::test]
    async fn an_answer_to_another_question_is_not_exchanged() {
        let issuer = Some("https://as.example");
        let ours = |asked: &HashMap<String, String>| format!("state={}", asked["state"]);
        let http = FakeHttp::default();
        let (result, _) = run(&http, None, |_| "code=c&state=guess".to_owned()).await;
        assert!(matches!(result, Err(OAuthError::Redirect(_))));
        let (result, _) = run(&http, None, |_| "error=access_denied".to_owned()).await;
        assert!(matches!(result, Err(OAuthError::Redirect(_))), "a refusal without state is nobody's");
        let (result, _) = run(&http, None, |asked| format!("code=c&{0}&{0}", ours(asked))).await;
        assert!(matches!(result, Err(OAuthError::Redirect(_))));
        let (result, _) = run(&http, None, ours).await;
        assert!(matches!(result, Err(OAuthError::Redirect(_))));
        let (result, _) = run(&http, issuer, |asked| format!("code=c&{}&iss=https://evil.example", ours(asked))).await;
        assert!(matches!(result, Err(OAuthError::Issuer { .. })));
        let (result, _) = run(&http, issuer, |asked| format!("code=c&{}", ours(asked))).await;
        assert!(matches!(result, Err(OAuthError::Redirect(_))));
        assert!(http.requests().is_empty());
    }

    #[tokio::test]
    async fn the_user_may_say_no() {
        let http = FakeHttp::default();
        let (result, _) = run(&http, None, |asked| format!("error=access_denied&state={}", asked["state"])).await;
        assert!(matches!(result, Err(OAuthError::Denied)));
        let (result, _) = run(&http, None, |asked| format!("error=server_error&state={}", asked["state"])).await;
        assert!(matches!(result, Err(OAuthError::Refused { error, .. }) if error == "server_error"));
    }
}
