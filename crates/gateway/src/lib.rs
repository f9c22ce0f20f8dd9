//! What this server calls: agents elsewhere, webhooks and services, all under one address policy.
//!
//! | Module | Contents |
//! |---|---|
//! | `document_fetcher` | documents for the guard: key sets, metadata of issuers, tables of a chain |
//! | `webhook_sender` | deliveries for the engine: webhooks, signed |
//! | `remote` | agents elsewhere, behind our log |
//! | `delegation` | another agent's task, mirrored into ours |
//! | `balance`, `retry_budget`, `health` | which replica of an upstream, how many retries, and its health |
//! | `oauth_grant` | tokens of our own, from an authorization server |
//! | `user_tokens` | calls on behalf of our caller, between apps that know the same users |
//! | `card_policy` | which card of an agent elsewhere counts |
//! | `agent_probe` | probing an agent before it is called |
//! | `breaker`, `circuit` | circuit breakers: one for each upstream, one for all of them |
//! | `envelope_sender` | envelopes to venues' own agents and to other booking networks |
//! | `exchange_log` | the log of requests and responses, for debugging |
//! | [`handoff`] | tasks that leave for another server |
//! | `failure_words` | what callers are told about a failed call |
//! | `service_client` | requests to services that are no agents: payment processors, billers, chains |
//! | `outbound_url` | which URLs are called at all |
//!
//! Connections are the client crate's: its HTTP client, its address policy, its TLS. Nothing here opens a socket by
//! itself.

mod agent_probe;
mod balance;
mod breaker;
mod card_policy;
mod circuit;
mod delegation;
mod derived_uuid;
mod document_fetcher;
mod envelope_sender;
pub mod exchange_log;
mod failure_words;
pub mod handoff;
mod health;
mod metrics;
mod oauth_grant;
mod outbound_url;
mod remote;
mod retry_budget;
mod service_client;
mod user_tokens;
mod webhook_sender;

pub use agent_probe::{
    AgentProbe, CardRejection, ChosenInterface, ProbedInterface, SignatureCheck, has_interface_at, is_own_address,
};
pub use balance::{ReplicaCandidate, choose_candidate};
pub use breaker::{
    Breaker, BreakerPermit, BreakerRefusal, BreakerRules, BreakerState, CallOutcome, CountedFailures, FailureSource,
};
pub use card_policy::{CardCheck, CardPolicy, chosen_interface, with_interface_first};
pub use circuit::{CallPermit, Circuit, CircuitStatus, Hub};
pub use delegation::{ArtifactMirroring, DelegationOutcome, MirrorSettings, delegate, outgoing_metadata};
pub use document_fetcher::{DocumentFetcher, FETCH_TIME_MAX};
pub use envelope_sender::{ANSWER_MARGIN, CIRCUITS_MAX, EnvelopePeer, EnvelopeRoute, EnvelopeSender};
pub use failure_words::{SILENCE_REPORTED_AFTER, address_words, duration_words, failure_reason};
pub use health::{HealthChecks, HealthStatus, ReplicaHealth};
pub use metrics::Metrics;
pub use oauth_grant::{OAuthGrant, OAuthGrantSettings};
pub use outbound_url::{URL_BYTES_MAX, UrlFault, host_of, parse_outbound_url};
pub use remote::{CARD_FRESH, FollowPolicy, RemoteAgent, RemoteAgentDirectory, Upstream, UpstreamReplica, WaitLimits};
pub use retry_budget::RetryBudget;
/// The envelopes of the booking network and their vocabulary, which is defined in `wire`.
pub use sabir_client::envelope::{
    Envelope, EnvelopeHop, EnvelopeKey, Intent, KeyDerivation, NETWORK, NanoTimestamp, Problem, ProblemCode, VIA_MAX,
};
pub use sabir_client::native_token::{NativeTokenIssuer, Organisation};
pub use sabir_client::redact;
pub use sabir_client::xpr::XprAccount;
/// The types of the client that configure outgoing calls.
pub use sabir_client::{
    Capacity, CapacityShare, Credentials, DiscoveredCard, Egress, EndpointClient, EndpointRequest, EndpointResponse,
    Error, RequestCredential, Timeouts, Tls, VendorProfile, egress::Lookup, send_message,
};
pub use service_client::{RESPONSE_BYTES_MAX, ServiceClient, ServiceRequest, ServiceResponse};
pub use user_tokens::UserTokens;
pub use webhook_sender::{
    ATTEMPT_TIME_MAX, ReceiverSecrets, WebhookBody, WebhookEncoder, WebhookSender, WebhookSigner, WebhookTokenKey,
};
