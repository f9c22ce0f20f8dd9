//! The login flows that a card offers, and how each is run.

use super::Flow;
use crate::call::Session;
use sabir_client::Client;
use sabir_client::oauth::{
    self, AuthorizationCodeFlow, DeviceCodeFlow, OpenIdFlow, Prompt, Token, WallClock, endpoint_or,
};
use sabir_proto::AgentCard;
use sabir_proto::card::{OAuthFlows, SecurityScheme};
use std::time::Duration;
use url::Url;

/// The time that a user has to log in, unless `--timeout` sets another.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// A security scheme that a user can log in to.
#[derive(Debug, Clone)]
pub(super) struct LoginScheme {
    pub(super) scheme: String,
    pub(super) flow: Flow,
    endpoints: FlowEndpoints,
}

/// The endpoints that the card declares for a flow.
#[derive(Debug, Clone)]
enum FlowEndpoints {
    Device { device: String, token: String, refresh: Option<String>, metadata: Option<String> },
    Client { token: String, refresh: Option<String>, metadata: Option<String> },
    Browser { authorization: String, token: String, refresh: Option<String>, metadata: Option<String> },
    OpenId { discovery: String },
}

/// The token from a login, and where it is renewed.
pub(super) struct LoginResult {
    pub(super) token: Token,
    pub(super) token_url: String,
    pub(super) refresh_url: Option<String>,
    /// Who logged in, where that is known.
    pub(super) subject: Option<String>,
}

/// A client of the authorization server.
type OAuthClient<'a> = oauth::OAuthClient<'a, Client, WallClock>;

/// Every scheme of a card that can be logged in to.
pub(super) fn login_schemes(card: &AgentCard) -> Vec<LoginScheme> {
    let of = |(scheme, declared): (&String, &SecurityScheme)| {
        let (flow, endpoints) = match declared {
            SecurityScheme::OpenIdConnect { open_id_connect_url, .. } => {
                (Flow::Oidc, FlowEndpoints::OpenId { discovery: open_id_connect_url.clone() })
            }
            SecurityScheme::OAuth2 { flows, oauth2_metadata_url, .. } => {
                let metadata = oauth2_metadata_url.clone();
                match flows {
                    OAuthFlows::DeviceCode { device_authorization_url, token_url, refresh_url, .. } => {
                        let (device, token) = (device_authorization_url.clone(), token_url.clone());
                        (
                            Flow::DeviceCode,
                            FlowEndpoints::Device { device, token, refresh: refresh_url.clone(), metadata },
                        )
                    }
                    OAuthFlows::ClientCredentials { token_url, refresh_url, .. } => {
                        let (token, refresh) = (token_url.clone(), refresh_url.clone());
                        (Flow::ClientCredentials, FlowEndpoints::Client { token, refresh, metadata })
                    }
                    OAuthFlows::AuthorizationCode { authorization_url, token_url, refresh_url, .. } => {
                        let (authorization, token) = (authorization_url.clone(), token_url.clone());
                        let refresh = refresh_url.clone();
                        (Flow::AuthorizationCode, FlowEndpoints::Browser { authorization, token, refresh, metadata })
                    }
                    // Both were withdrawn because they hand secrets around.
                    OAuthFlows::Implicit { .. } | OAuthFlows::Password { .. } => return None,
                }
            }
            SecurityScheme::ApiKey { .. } | SecurityScheme::HttpAuth { .. } | SecurityScheme::MutualTls { .. } => {
                return None;
            }
        };
        Some(LoginScheme { scheme: scheme.clone(), flow, endpoints })
    };
    card.security_schemes.iter().filter_map(of).collect()
}

impl LoginScheme {
    /// Runs the flow and returns the token.
    pub(super) async fn log_in(
        &self,
        session: &Session,
        client: &OAuthClient<'_>,
        scopes: &[String],
    ) -> Result<LoginResult, oauth::OAuthError> {
        let limit = session.settings.timeout.copied();
        let show = |prompt: &Prompt<'_>| self::show_prompt(session, prompt);
        let browser = session.out.is_interactive();
        match &self.endpoints {
            FlowEndpoints::Device { device, token, refresh, metadata } => {
                let document = self::metadata(client, metadata.as_deref()).await?;
                let missing = |what| Err(oauth::OAuthError::Missing(what));
                let from_metadata = document.as_ref().map_or_else(
                    || missing("device authorization endpoint"),
                    |document| {
                        document.device_url()?.ok_or(oauth::OAuthError::Missing("device authorization endpoint"))
                    },
                );
                let device_url = endpoint_or(device, from_metadata, "deviceAuthorizationUrl")?;
                let token_url = token_endpoint(token, document.as_ref())?;
                let flow = DeviceCodeFlow { device_url: &device_url, token_url: &token_url, scopes, timeout: limit };
                let token = client.device_code(&flow, &show).await?;
                Ok(LoginResult { token, token_url: token_url.to_string(), refresh_url: refresh.clone(), subject: None })
            }
            FlowEndpoints::Client { token, refresh, metadata } => {
                let document = self::metadata(client, metadata.as_deref()).await?;
                let token_url = token_endpoint(token, document.as_ref())?;
                let token = client.client_credentials(&token_url, scopes).await?;
                Ok(LoginResult { token, token_url: token_url.to_string(), refresh_url: refresh.clone(), subject: None })
            }
            FlowEndpoints::Browser { .. } if !browser => Err(oauth::OAuthError::NeedsBrowser),
            FlowEndpoints::Browser { authorization, token, refresh, metadata } => {
                let document = self::metadata(client, metadata.as_deref()).await?;
                if document.as_ref().is_some_and(|document| !document.offers_pkce()) {
                    return Err(oauth::OAuthError::NoPkce);
                }
                let from_metadata =
                    document.as_ref().map_or(Err(oauth::OAuthError::Missing("authorization endpoint")), |document| {
                        document.authorization_url()
                    });
                let authorization_url = endpoint_or(authorization, from_metadata, "authorizationUrl")?;
                let token_url = token_endpoint(token, document.as_ref())?;
                let flow = AuthorizationCodeFlow {
                    authorization_url: &authorization_url,
                    token_url: &token_url,
                    scopes,
                    issuer: document.as_ref().map(|document| document.issuer.as_str()),
                    issuer_in_answer: document
                        .as_ref()
                        .is_some_and(|document| document.authorization_response_iss_parameter_supported),
                    port: 0,
                    timeout: limit.unwrap_or(LOGIN_TIMEOUT),
                };
                let token = client.authorization_code(&flow, &show).await?;
                Ok(LoginResult { token, token_url: token_url.to_string(), refresh_url: refresh.clone(), subject: None })
            }
            FlowEndpoints::OpenId { discovery } => {
                let bad = |_| oauth::OAuthError::BadUrl { what: "openIdConnectUrl", value: discovery.clone() };
                let discovery_url: Url = discovery.parse().map_err(bad)?;
                let timeout = limit.unwrap_or(LOGIN_TIMEOUT);
                let flow = OpenIdFlow { discovery_url: &discovery_url, scopes, browser, port: 0, timeout };
                let login = client.openid_connect(&flow, &show).await?;
                let token_url = login.metadata.token_url()?.to_string();
                Ok(LoginResult {
                    token: login.token,
                    token_url,
                    refresh_url: None,
                    subject: Some(login.identity.subject),
                })
            }
        }
    }
}

/// RFC 8414: a document may say what the card leaves out.
async fn metadata(client: &OAuthClient<'_>, url: Option<&str>) -> Result<Option<oauth::Metadata>, oauth::OAuthError> {
    let Some(url) = url else { return Ok(None) };
    let bad = |_| oauth::OAuthError::BadUrl { what: "oauth2MetadataUrl", value: url.to_owned() };
    client.metadata(&url.parse().map_err(bad)?).await.map(Some)
}

fn token_endpoint(card: &str, document: Option<&oauth::Metadata>) -> Result<Url, oauth::OAuthError> {
    let from_metadata = document.map_or(Err(oauth::OAuthError::Missing("token endpoint")), oauth::Metadata::token_url);
    endpoint_or(card, from_metadata, "tokenUrl")
}

/// Shows the user what to do, on standard error: standard output is for the outcome.
fn show_prompt(session: &Session, prompt: &Prompt<'_>) {
    match prompt {
        Prompt::Device { verification_url, complete_url, user_code, expires_in } => {
            let url = complete_url.unwrap_or(verification_url);
            session.out.note(&format!(
                "Verification URL: {verification_url}\nUser code: {user_code}\nExpires: in {} min",
                expires_in.as_secs().div_ceil(60)
            ));
            if url != *verification_url {
                session.out.note(&format!("Or open: {url}"));
            }
        }
        Prompt::Browser { url } => session.out.note(&format!("Open in a browser on this machine: {url}")),
    }
}
