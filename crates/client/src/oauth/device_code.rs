//! The device flow (RFC 8628): the user confirms on another device while the client polls.
//!
//! The flow needs no browser and no terminal here, so it suits people and scripts. The server sets the pace: the client
//! never polls faster than its interval, slows down when told to, and backs off when the server does not answer.

use super::token_endpoint::{seconds, unreadable_error};
use super::{Clock, Http, OAuthClient, OAuthError, Prompt, ShowPrompt, Token, check_endpoint, printable};
use crate::oauth::token_endpoint::TokenResponse;
use serde_json::Value;
use std::time::Duration;
use url::Url;

/// The polling interval if the server does not name one (RFC 8628 §3.2).
const INTERVAL: Duration = Duration::from_secs(5);
/// How much the interval grows with each `slow_down` (RFC 8628 §3.5).
const SLOW_DOWN: Duration = Duration::from_secs(5);
/// The longest interval that the client chooses itself, when the server does not answer.
const BACK_OFF_MAX: Duration = Duration::from_secs(60);
/// The number of polls in a row that may have no answer.
const SILENCES_MAX: u32 = 5;
/// The lifetime of a code if the server does not name it, although it must.
const CODE_LIFE: Duration = Duration::from_secs(15 * 60);
/// The longest code that a user is asked to type.
const USER_CODE_CHARACTERS_MAX: usize = 64;

/// The parameters of the device flow.
#[derive(Debug)]
pub struct DeviceCodeFlow<'a> {
    /// The `deviceAuthorizationUrl` of the card.
    pub device_url: &'a Url,
    /// The `tokenUrl` of the card.
    pub token_url: &'a Url,
    /// The scopes to ask for.
    pub scopes: &'a [String],
    /// When to give up, if that is earlier than the server's limit.
    pub timeout: Option<Duration>,
}

/// A device code that the user has not confirmed yet.
struct PendingDeviceCode {
    device_code: String,
    user_code: String,
    verification_url: String,
    complete_url: Option<String>,
    expires_in: Duration,
    interval: Duration,
}

impl<H: Http, C: Clock> OAuthClient<'_, H, C> {
    /// Runs the device flow to its end. `show` is called once, when the code is known.
    pub async fn device_code(&self, flow: &DeviceCodeFlow<'_>, show: ShowPrompt<'_>) -> Result<Token, OAuthError> {
        self.device_grant(flow, show).await?.into_token(flow.scopes, self.clock.now())
    }

    pub(super) async fn device_grant(
        &self,
        flow: &DeviceCodeFlow<'_>,
        show: ShowPrompt<'_>,
    ) -> Result<TokenResponse, OAuthError> {
        check_endpoint(flow.token_url)?;
        let started = self.clock.now();
        let waiting = self.request_device_code(flow).await?;
        show(&Prompt::Device {
            verification_url: &waiting.verification_url,
            complete_url: waiting.complete_url.as_deref(),
            user_code: &waiting.user_code,
            expires_in: waiting.expires_in,
        });
        let expires = self.clock.now().saturating_add(waiting.expires_in.as_secs());
        let patience = flow.timeout.map(|timeout| (started.saturating_add(timeout.as_secs()), timeout));
        let mut interval = waiting.interval;
        let mut silences = 0;
        loop {
            self.wait(interval, expires, patience).await?;
            match self.poll(flow.token_url, &waiting.device_code).await {
                Ok(granted) => return Ok(granted),
                Err(OAuthError::Refused { error, description }) => match error.as_str() {
                    "authorization_pending" => silences = 0,
                    "slow_down" => (silences, interval) = (0, interval + SLOW_DOWN),
                    "access_denied" => return Err(OAuthError::Denied),
                    "expired_token" => return Err(OAuthError::CodeExpired),
                    _ => return Err(OAuthError::Refused { error, description }),
                },
                Err(error) if is_transient(&error) && silences < SILENCES_MAX => {
                    silences += 1;
                    interval = interval.max((interval * 2).min(BACK_OFF_MAX));
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn request_device_code(&self, flow: &DeviceCodeFlow<'_>) -> Result<PendingDeviceCode, OAuthError> {
        let url = flow.device_url;
        let scope = flow.scopes.join(" ");
        let form: &[_] = if scope.is_empty() { &[] } else { &[("scope", scope.as_str())] };
        let (status, answer) = self.post_form(url, form).await?;
        let text = |name: &str| answer.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let missing = |what: &str| unreadable_error(url, status, &format!("no `{what}`"));
        let user_code = text("user_code").ok_or_else(|| missing("user_code"))?;
        if printable(user_code) != user_code || user_code.chars().count() > USER_CODE_CHARACTERS_MAX {
            return Err(unreadable_error(url, status, "a user code that cannot be shown"));
        }
        // Google used its own name before the standard had one.
        let verification_url = text("verification_uri").or_else(|| text("verification_url"));
        let verification_url = verification_url.ok_or_else(|| missing("verification_uri"))?;
        let number = |name: &str| answer.get(name).and_then(seconds).map(Duration::from_secs);
        Ok(PendingDeviceCode {
            device_code: text("device_code").ok_or_else(|| missing("device_code"))?.to_owned(),
            user_code: user_code.to_owned(),
            verification_url: printable_url(verification_url)?,
            complete_url: text("verification_uri_complete").map(printable_url).transpose()?,
            expires_in: number("expires_in").unwrap_or(CODE_LIFE),
            interval: number("interval").unwrap_or(INTERVAL).max(Duration::from_secs(1)),
        })
    }

    /// Sleeps until the next poll is allowed; returns an error if the code or the timeout ends first.
    async fn wait(
        &self,
        interval: Duration,
        expires: u64,
        patience: Option<(u64, Duration)>,
    ) -> Result<(), OAuthError> {
        let now = self.clock.now();
        let next = now.saturating_add(interval.as_secs());
        if let Some((until, timeout)) = patience.filter(|(until, _)| *until < next && *until <= expires) {
            self.clock.sleep(Duration::from_secs(until.saturating_sub(now))).await;
            return Err(OAuthError::TimedOut(timeout));
        }
        if expires < next {
            self.clock.sleep(Duration::from_secs(expires.saturating_sub(now))).await;
            return Err(OAuthError::CodeExpired);
        }
        self.clock.sleep(interval).await;
        Ok(())
    }

    async fn poll(&self, token_url: &Url, device_code: &str) -> Result<TokenResponse, OAuthError> {
        let grant = "urn:ietf:params:oauth:grant-type:device_code";
        self.request_token(token_url, &[("grant_type", grant), ("device_code", device_code)]).await
    }
}

/// Whether a later poll may succeed: there was no answer, or a server error.
fn is_transient(error: &OAuthError) -> bool {
    match error {
        OAuthError::NoAnswer { .. } => true,
        OAuthError::Unreadable { status, .. } => {
            status.is_server_error() || *status == http::StatusCode::TOO_MANY_REQUESTS
        }
        _ => false,
    }
}

/// Checks the URL that a user is asked to open, and removes tricks against terminals.
fn printable_url(text: &str) -> Result<String, OAuthError> {
    let bad = || OAuthError::BadUrl { what: "verification URL", value: printable(text) };
    let url = Url::parse(text).map_err(|_| bad())?;
    check_endpoint(&url).map_err(|_| bad())?;
    Ok(url.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oauth::fakes::{FakeClock, FakeHttp, form_of, url};
    use crate::secret::Secret;
    use serde_json::json;
    use std::sync::Mutex;

    const DEVICE: &str = "https://as.example/device";
    const TOKEN: &str = "https://as.example/token";

    fn code() -> (u16, Value) {
        let verification = "https://as.example/activate";
        (
            200,
            json!({"device_code": "dc", "user_code": "WDJB-MJHT", "verification_uri": verification, "expires_in": 600}),
        )
    }

    fn refused(error: &str) -> (u16, Value) {
        (400, json!({"error": error}))
    }

    fn granted() -> (u16, Value) {
        (200, json!({"access_token": "at", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "rt"}))
    }

    async fn run(http: &FakeHttp, clock: &FakeClock, timeout: Option<u64>) -> Result<Token, OAuthError> {
        let scopes = ["read".to_owned()];
        let (device_url, token_url) = (url(DEVICE), url(TOKEN));
        let timeout = timeout.map(Duration::from_secs);
        let flow = DeviceCodeFlow { device_url: &device_url, token_url: &token_url, scopes: &scopes, timeout };
        OAuthClient::new(http, clock, "me", None).device_code(&flow, &|_| {}).await
    }

    #[tokio::test]
    async fn we_ask_at_the_servers_pace_until_the_user_has_confirmed() {
        let pending = || refused("authorization_pending");
        let http = FakeHttp::answers([code(), pending(), refused("slow_down"), pending(), granted()]);
        let clock = FakeClock::at(1000);
        let shown = Mutex::new(Vec::new());
        let (device_url, token_url) = (url(DEVICE), url(TOKEN));
        let flow = DeviceCodeFlow { device_url: &device_url, token_url: &token_url, scopes: &[], timeout: None };
        let show = |prompt: &Prompt<'_>| shown.lock().unwrap().push(format!("{prompt:?}"));
        let token = OAuthClient::new(&http, &clock, "me", None).device_code(&flow, &show).await.unwrap();
        assert_eq!(clock.slept(), [5, 5, 10, 10]);
        assert_eq!((token.access.expose(), token.expires), ("at", Some(1030 + 3600)));
        assert_eq!(token.refresh.as_ref().map(Secret::expose), Some("rt"));
        let shown = shown.lock().unwrap();
        assert_eq!(shown.len(), 1);
        assert!(shown[0].contains("WDJB-MJHT") && shown[0].contains("https://as.example/activate"), "{shown:?}");
        assert!(!shown[0].contains("dc"), "the device code is ours alone: {shown:?}");
        let requests = http.requests();
        assert_eq!(form_of(&requests[0]), [("client_id", "me")]);
        let grant = ("grant_type", "urn:ietf:params:oauth:grant-type:device_code");
        assert_eq!(form_of(&requests[1]), [grant, ("device_code", "dc"), ("client_id", "me")]);
    }

    #[tokio::test]
    async fn the_interval_of_the_server_counts() {
        let mut code = code();
        code.1["interval"] = json!(30);
        let clock = FakeClock::at(0);
        run(&FakeHttp::answers([code, refused("slow_down"), granted()]), &clock, None).await.unwrap();
        assert_eq!(clock.slept(), [30, 35]);
    }

    #[tokio::test]
    async fn a_denial_an_expiry_and_other_refusals_end_it() {
        let run = async |error| run(&FakeHttp::answers([code(), refused(error)]), &FakeClock::at(0), None).await;
        assert!(matches!(run("access_denied").await, Err(OAuthError::Denied)));
        assert!(matches!(run("expired_token").await, Err(OAuthError::CodeExpired)));
        assert!(
            matches!(run("invalid_grant").await, Err(OAuthError::Refused { error, .. }) if error == "invalid_grant")
        );
    }

    #[tokio::test]
    async fn a_code_expires_by_our_clock_too() {
        let http = FakeHttp::answers([code()]);
        (0..1000).for_each(|_| http.then(400, json!({"error": "authorization_pending"})));
        let clock = FakeClock::at(0);
        assert!(matches!(run(&http, &clock, None).await, Err(OAuthError::CodeExpired)));
        assert_eq!(clock.now(), 600);
        assert_eq!(http.posts().len(), 1 + 120);
    }

    #[tokio::test]
    async fn our_own_patience_may_end_first() {
        let http = FakeHttp::answers([code(), refused("authorization_pending")]);
        let clock = FakeClock::at(0);
        assert!(matches!(run(&http, &clock, Some(8)).await, Err(OAuthError::TimedOut(time)) if time.as_secs() == 8));
        assert_eq!(clock.slept(), [5, 3]);
    }

    #[tokio::test]
    async fn silence_makes_us_slower_and_then_give_up() {
        let silence = || (0, Value::Null);
        let down = || (503, json!({}));
        let clock = FakeClock::at(0);
        let http = FakeHttp::answers([code(), silence(), down(), refused("authorization_pending"), granted()]);
        run(&http, &clock, None).await.unwrap();
        assert_eq!(clock.slept(), [5, 10, 20, 20]);
        let clock = FakeClock::at(0);
        assert!(matches!(run(&FakeHttp::answers([code()]), &clock, None).await, Err(OAuthError::NoAnswer { .. })));
        assert_eq!(clock.slept(), [5, 10, 20, 40, 60, 60]);
    }

    #[tokio::test]
    async fn what_cannot_be_shown_is_refused() {
        for (member, value) in [
            ("user_code", json!("A\u{1b}]0;B")),
            ("user_code", json!("x".repeat(USER_CODE_CHARACTERS_MAX + 1))),
            ("user_code", json!("")),
            ("device_code", json!(null)),
            ("verification_uri", json!("javascript:alert(1)")),
            ("verification_uri", json!("http://as.example/activate")),
            ("verification_uri", json!(null)),
            ("verification_uri_complete", json!("file:///etc/passwd")),
        ] {
            let mut code = code();
            code.1[member] = value.clone();
            let http = FakeHttp::answers([code, granted()]);
            assert!(run(&http, &FakeClock::at(0), None).await.is_err(), "{member} {value}");
            assert_eq!(http.requests().len(), 1, "{member} {value}");
        }
    }

    #[tokio::test]
    async fn a_plain_token_endpoint_is_refused_before_a_code_is_asked_for() {
        let http = FakeHttp::answers([code()]);
        let (device_url, token_url) = (url(DEVICE), url("http://as.example/token"));
        let flow = DeviceCodeFlow { device_url: &device_url, token_url: &token_url, scopes: &[], timeout: None };
        let clock = FakeClock::at(0);
        let result = OAuthClient::new(&http, &clock, "me", None).device_code(&flow, &|_| {}).await;
        assert!(matches!(result, Err(OAuthError::Insecure(_))));
        assert!(http.requests().is_empty());
    }
}
