//! The grants that need no user: client credentials, refresh, and token exchange.

use super::{Clock, Http, OAuthClient, OAuthError, Token};
use crate::secret::Secret;
use url::Url;

impl<H: Http, C: Clock> OAuthClient<'_, H, C> {
    /// Gets a token for the client itself (RFC 6749 §4.4).
    pub async fn client_credentials(&self, token_url: &Url, scopes: &[String]) -> Result<Token, OAuthError> {
        let scope = scopes.join(" ");
        let mut form = vec![("grant_type", "client_credentials")];
        if !scope.is_empty() {
            form.push(("scope", &scope));
        }
        self.request_token(token_url, &form).await?.into_token(scopes, self.clock.now())
    }

    /// Exchanges a subject token for one that is valid at another audience (RFC 8693). The actor token is always sent
    /// as well: a token that hides its bearer would be the identity of another party.
    pub async fn exchange_token(
        &self,
        token_url: &Url,
        subject: &Secret,
        actor: &Secret,
        audience: Option<&str>,
        scopes: &[String],
    ) -> Result<Token, OAuthError> {
        const ACCESS: &str = "urn:ietf:params:oauth:token-type:access_token";
        let scope = scopes.join(" ");
        let mut form = vec![
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("subject_token", subject.expose()),
            ("subject_token_type", ACCESS),
            ("actor_token", actor.expose()),
            ("actor_token_type", ACCESS),
        ];
        form.extend(audience.map(|audience| ("audience", audience)));
        if !scope.is_empty() {
            form.push(("scope", &scope));
        }
        self.request_token(token_url, &form).await?.into_token(scopes, self.clock.now())
    }

    /// Renews a token that is about to expire (RFC 6749 §6), at `refreshUrl` if the card has one and at `tokenUrl`
    /// otherwise. Servers that rotate refresh tokens send a new one, and the old one is invalid then; other servers
    /// send none, and the old one stays valid.
    pub async fn refresh(&self, url: &Url, token: &Token) -> Result<Token, OAuthError> {
        let refresh = token.refresh.as_ref().ok_or(OAuthError::NotRenewable)?;
        let form = [("grant_type", "refresh_token"), ("refresh_token", refresh.expose())];
        let mut next = self.request_token(url, &form).await?.into_token(&token.scopes, self.clock.now())?;
        next.refresh = next.refresh.or_else(|| token.refresh.clone());
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oauth::fakes::{FakeClock, FakeHttp, form_of, url};
    use serde_json::json;

    const TOKEN: &str = "https://as.example/token";

    #[tokio::test]
    async fn client_credentials_travel_in_a_header() {
        let http = FakeHttp::answers([(200, json!({"access_token": "at", "token_type": "Bearer", "expires_in": 60}))]);
        let (clock, secret) = (FakeClock::at(1000), Secret::new("hush"));
        let client = OAuthClient::new(&http, &clock, "me", Some(&secret));
        let token = client.client_credentials(&url(TOKEN), &["a".to_owned(), "b".to_owned()]).await.unwrap();
        assert_eq!((token.access.expose(), token.expires), ("at", Some(1060)));
        assert_eq!(token.scopes, ["a", "b"]);
        let request = &http.requests()[0];
        assert_eq!(request.uri(), TOKEN);
        assert_eq!(request.headers()["authorization"], "Basic bWU6aHVzaA==");
        assert_eq!(request.headers()["accept"], "application/json");
        assert_eq!(form_of(request), [("grant_type", "client_credentials"), ("scope", "a b")]);
    }

    #[tokio::test]
    async fn an_exchange_says_who_acts() {
        let granted = json!({"access_token": "narrow", "token_type": "Bearer", "expires_in": 60,
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"});
        let http = FakeHttp::answers([(200, granted)]);
        let (clock, secret) = (FakeClock::at(0), Secret::new("hush"));
        let client = OAuthClient::new(&http, &clock, "hub", Some(&secret));
        let (subject, actor) = (Secret::new("whose"), Secret::new("ours"));
        let token =
            client.exchange_token(&url(TOKEN), &subject, &actor, Some("https://b"), &["x".into()]).await.unwrap();
        assert_eq!(token.access.expose(), "narrow");
        let form = form_of(&http.requests()[0]);
        for expected in [
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("subject_token", "whose"),
            ("actor_token", "ours"),
            ("actor_token_type", "urn:ietf:params:oauth:token-type:access_token"),
            ("audience", "https://b"),
            ("scope", "x"),
        ] {
            assert!(form.contains(&expected), "{expected:?} in {form:?}");
        }
    }

    #[tokio::test]
    async fn a_server_that_wants_the_secret_in_the_form_gets_it_there_and_from_then_on() {
        let granted = json!({"access_token": "at", "token_type": "bearer"});
        let refused = json!({"error": "invalid_client"});
        let http = FakeHttp::answers([(401, refused), (200, granted.clone()), (200, granted)]);
        let (clock, secret) = (FakeClock::at(0), Secret::new("hush"));
        let client = OAuthClient::new(&http, &clock, "me", Some(&secret));
        client.client_credentials(&url(TOKEN), &[]).await.unwrap();
        client.client_credentials(&url(TOKEN), &[]).await.unwrap();
        let in_form = [("grant_type", "client_credentials"), ("client_id", "me"), ("client_secret", "hush")];
        let requests = http.requests();
        assert_eq!(requests.len(), 3);
        for request in &requests[1..] {
            assert!(!request.headers().contains_key("authorization"));
            assert_eq!(form_of(request), in_form);
        }
    }

    #[tokio::test]
    async fn a_wrong_secret_is_refused_once_in_each_way_and_never_shown() {
        let refused = json!({"error": "invalid_client", "error_description": "no\u{1b}[31m such"});
        let http = FakeHttp::answers([(401, refused.clone()), (401, refused)]);
        let (clock, secret) = (FakeClock::at(0), Secret::new("hush-hush"));
        let error = OAuthClient::new(&http, &clock, "me", Some(&secret))
            .client_credentials(&url(TOKEN), &[])
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), "the authorization server refused: invalid_client (no[31m such)");
        assert!(!format!("{error:?}").contains("hush"));
        assert_eq!(http.requests().len(), 2);
    }

    #[tokio::test]
    async fn answers_that_are_none_are_refused_in_words() {
        for (status, body, expected) in [
            (200, json!({"token_type": "Bearer"}), "no access token"),
            (200, json!({"access_token": ""}), "no access token"),
            (200, json!({"access_token": 7}), "no access token"),
            (200, json!([1]), "not a JSON object"),
            (302, json!({}), "neither an answer nor an error"),
            (500, json!({"message": "oops"}), "neither an answer nor an error"),
            (200, json!({"error": "unauthorized_client"}), "refused: unauthorized_client"),
            (200, json!({"access_token": "at", "token_type": "DPoP"}), "\"DPoP\" are not supported"),
            (200, json!({"access_token": "s3cr3t", "refresh_token": {"s3cr3t": 1}}), "unexpected types"),
            (200, json!({"access_token": "x".repeat(300_000)}), "larger than"),
        ] {
            let http = FakeHttp::answers([(status, body.clone())]);
            let clock = FakeClock::at(0);
            let result = OAuthClient::new(&http, &clock, "me", None).client_credentials(&url(TOKEN), &[]).await;
            let error = result.unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("s3cr3t"), "{error}");
        }
    }

    #[tokio::test]
    async fn secrets_are_not_sent_in_the_clear() {
        let (http, clock) = (FakeHttp::default(), FakeClock::at(0));
        let client = OAuthClient::new(&http, &clock, "me", None);
        let result = client.client_credentials(&url("http://as.example/token"), &[]).await;
        assert!(matches!(result, Err(OAuthError::Insecure(_))));
        assert!(http.requests().is_empty());
    }

    #[tokio::test]
    async fn a_rotated_refresh_token_replaces_the_old_one_and_silence_keeps_it() {
        let rotated = json!({"access_token": "a2", "refresh_token": "r2", "expires_in": 10, "scope": "a"});
        let http = FakeHttp::answers([(200, rotated), (200, json!({"access_token": "a3"}))]);
        let clock = FakeClock::at(100);
        let client = OAuthClient::new(&http, &clock, "me", None);
        let first = Token {
            access: Secret::new("a1"),
            refresh: Some(Secret::new("r1")),
            expires: Some(1),
            scopes: vec!["a".to_owned(), "b".to_owned()],
        };
        let second = client.refresh(&url(TOKEN), &first).await.unwrap();
        assert_eq!(second.refresh.as_ref().map(Secret::expose), Some("r2"));
        assert_eq!((second.expires, second.scopes.as_slice()), (Some(110), &["a".to_owned()][..]));
        let third = client.refresh(&url(TOKEN), &second).await.unwrap();
        assert_eq!(third.refresh.as_ref().map(Secret::expose), Some("r2"));
        assert_eq!((third.access.expose(), third.expires), ("a3", None));
        let form = [("grant_type", "refresh_token"), ("refresh_token", "r1"), ("client_id", "me")];
        assert_eq!(form_of(&http.requests()[0]), form);
    }

    #[tokio::test]
    async fn a_refusal_to_renew_says_that_a_login_is_due() {
        let http = FakeHttp::answers([(400, json!({"error": "invalid_grant"}))]);
        let clock = FakeClock::at(0);
        let client = OAuthClient::new(&http, &clock, "me", None);
        let mut token = Token { access: Secret::new("a"), refresh: None, expires: None, scopes: vec![] };
        assert!(client.refresh(&url(TOKEN), &token).await.unwrap_err().needs_login());
        token.refresh = Some(Secret::new("r"));
        assert!(client.refresh(&url(TOKEN), &token).await.unwrap_err().needs_login());
        assert!(matches!(client.refresh(&url(TOKEN), &token).await, Err(OAuthError::NoAnswer { .. })));
    }
}
