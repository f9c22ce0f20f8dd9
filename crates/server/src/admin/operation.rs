//! The operations of administration: the one list from which requests, responses, the API and its description follow.
//!
//! An operation is a struct with its parameters. It says what it gives back, which scope it takes, which part of the
//! store it works on, and where the API has it. Each subject has a file with its operations; the table at the end of
//! this file names all of them. A transport knows only [`AdminRequest`] and [`AdminResponse`].

use super::agents::{
    AddAgent, AddedAgentView, AgentCardDocument, AgentHistory, AgentList, AgentView, ApproveAgent, DisableAgent,
    EnableAgent, ListAgents, RefreshAgent, RefreshedAgent, RegisteredAgentView, RemoveAgent, ShowAgent, ShowAgentCard,
    ShowAgentHistory, StoredCardView,
};
use super::audit::{AuditPage, AuditTail, ListAudit, TailAudit, VerifiedAudit, VerifyAudit};
use super::billing::{BatchList, CheckBilling, RunBilling, TallyView};
use super::bookings::{BookingList, BookingView, ListBookings, MoveBooking, ShowBooking};
use super::deliveries::{DeliveryList, DeliveryView, DropDelivery, ListDeliveries, RetryDelivery, ShowDelivery};
use super::envelopes::{EnvelopeList, ListEnvelopes};
use super::inbox::{InboxPage, ListInbox, QuestionView, RepliedTask, ReplyToQuestion, ShowQuestion};
use super::keys::{CreateKey, IssuedKeyView, KeyList, KeyView, ListKeys, RevokeKey, RotateKey};
use super::organisations::{
    AddOrganisation, AddedOrganisation, ListOrganisations, OrganisationList, OrganisationView, RemoveOrganisation,
};
use super::subscriptions::{
    ListSubscriptions, RotateSubscription, Subscribe, SubscriptionList, SubscriptionView, Unsubscribe,
};
use super::tasks::{
    CancelTree, CanceledTasks, CountTasks, ExchangeList, ListExchanges, ListTasks, TaskList, TaskStatistics,
};
use super::venues::{
    AddVenue, EnableVenue, ImportVenueFile, ImportVenues, ImportedVenues, ListVenues, VenueList, VenueView,
};
use super::webhook::{TestWebhook, WebhookTrial};
use super::{AdminError, AdminService, Operator};
use http::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::future::Future;
use url::Url;

/// An operation of administration, as those who ask for it see it.
pub trait AdminOperation: Serialize + DeserializeOwned + JsonSchema + Send + 'static {
    /// What the operation gives back.
    type Output: Serialize + DeserializeOwned + JsonSchema;

    /// The request for this operation.
    fn into_request(self) -> AdminRequest;

    /// What a response gives back; `None` if it is the response to another operation.
    fn from_response(response: AdminResponse) -> Option<Self::Output>;

    /// The operation as a request to the API; `None` for one that only a command on the server's machine may ask for.
    fn to_http(&self) -> Result<Option<ApiRequest>, String>;
}

/// A request to the API of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiRequest {
    pub method: Method,
    /// The path below `/api/v1`, with the query.
    pub path: String,
    /// The parameters that the path does not have, in JSON.
    pub body: Option<String>,
}

/// An operation, as the service runs it.
pub(crate) trait Perform: AdminOperation {
    const ACCESS: OperationAccess;
    const STORE: StorePart;
    const ENDPOINT: Endpoint;

    /// Runs the operation for an operator.
    fn perform(
        self,
        service: &AdminService,
        operator: &Operator,
    ) -> impl Future<Output = Result<Self::Output, AdminError>> + Send;
}

/// The scope that an operation takes of a caller of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperationAccess {
    /// It only reads: `admin.read`.
    Look,
    /// It changes something: `admin`.
    Change,
}

/// The part of the store that an operation works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StorePart {
    /// The guard's part, which must exist. It is open to several processes at once.
    ExistingGuard,
    /// The guard's part, which is created where there is none: the first key may be made before the first start.
    Guard,
    /// The tasks, which must exist. One process has them.
    ExistingTasks,
    /// The tasks, which are created where there are none.
    Tasks,
}

/// The method of a path of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApiMethod {
    Get,
    Post,
    Delete,
}

impl From<ApiMethod> for Method {
    fn from(method: ApiMethod) -> Self {
        match method {
            ApiMethod::Get => Self::GET,
            ApiMethod::Post => Self::POST,
            ApiMethod::Delete => Self::DELETE,
        }
    }
}

/// Where the API has an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endpoint {
    pub(crate) method: ApiMethod,
    /// The path below `/api/v1`; `None` for an operation that only a command on this machine may ask for.
    pub(crate) path: Option<&'static str>,
    pub(crate) summary: &'static str,
    /// The HTTP status of a success.
    pub(crate) status: u16,
}

impl Endpoint {
    pub(crate) const fn get(path: &'static str, summary: &'static str) -> Self {
        Self { method: ApiMethod::Get, path: Some(path), summary, status: 200 }
    }

    pub(crate) const fn post(path: &'static str, summary: &'static str) -> Self {
        Self { method: ApiMethod::Post, path: Some(path), summary, status: 200 }
    }

    /// A `POST` that makes something new.
    pub(crate) const fn create(path: &'static str, summary: &'static str) -> Self {
        Self { status: 201, ..Self::post(path, summary) }
    }

    pub(crate) const fn delete(path: &'static str, summary: &'static str) -> Self {
        Self { method: ApiMethod::Delete, path: Some(path), summary, status: 200 }
    }

    /// An operation that the API does not have.
    pub(crate) const fn local(summary: &'static str) -> Self {
        Self { method: ApiMethod::Post, path: None, summary, status: 200 }
    }
}

/// An operation, as the API serves and describes it.
#[derive(Debug, Clone)]
pub(crate) struct ApiOperation {
    pub(crate) name: &'static str,
    pub(crate) endpoint: Endpoint,
    pub(crate) access: OperationAccess,
    pub(crate) parameters: fn(&mut SchemaGenerator) -> Schema,
    pub(crate) output: fn(&mut SchemaGenerator) -> Schema,
    pub(crate) read: fn(Value) -> serde_json::Result<AdminRequest>,
}

/// The name in a segment of a path such as `{id}`.
pub(crate) fn placeholder(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}

/// Puts the parameters of an operation where its endpoint has them: into the path, and the others into the query or the
/// body.
fn to_http(endpoint: &Endpoint, operation: &impl Serialize) -> Result<Option<ApiRequest>, String> {
    let Some(template) = endpoint.path else { return Ok(None) };
    let parameters = serde_json::to_value(operation).map_err(|error| error.to_string())?;
    let Value::Object(mut members) = parameters else { return Err("the parameters are no object".into()) };
    members.retain(|_, value| !value.is_null());
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    // Only the path and the query of this URL are used.
    let mut url = Url::parse("http://localhost/").map_err(|error| error.to_string())?;
    for segment in template.split('/').skip(1) {
        let segment = match placeholder(segment) {
            Some(name) => text(&members.remove(name).ok_or_else(|| format!("{name} is missing"))?),
            None => segment.to_owned(),
        };
        if matches!(&*segment, "" | "." | "..") {
            return Err(format!("{segment:?} cannot be part of a path"));
        }
        url.path_segments_mut().map_err(|()| "no path")?.pop_if_empty().push(&segment);
    }
    let has_body = endpoint.method == ApiMethod::Post;
    for (name, value) in members.iter().filter(|_| !has_body) {
        let items = match value {
            Value::Array(items) => items.as_slice(),
            value => std::slice::from_ref(value),
        };
        for item in items {
            url.query_pairs_mut().append_pair(name, &text(item));
        }
    }
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    Ok(Some(ApiRequest {
        method: endpoint.method.into(),
        path: format!("{}{query}", url.path()),
        body: (has_body && !members.is_empty()).then(|| Value::Object(members).to_string()),
    }))
}

/// Makes the requests, the responses and the dispatch from the table of operations and of what each gives back.
macro_rules! operations {
    ($($name:ident -> $output:ty,)*) => {
        /// A request of an operator.
        #[derive(Debug, Serialize, Deserialize)]
        #[serde(tag = "operation", content = "parameters", rename_all = "camelCase")]
        pub enum AdminRequest {
            $($name(Box<$name>),)*
        }

        /// The response to an [`AdminRequest`] that succeeded.
        #[derive(Debug, Serialize, Deserialize)]
        #[serde(tag = "operation", content = "result", rename_all = "camelCase")]
        pub enum AdminResponse {
            $($name(Box<$output>),)*
        }

        $(impl AdminOperation for $name {
            type Output = $output;

            fn into_request(self) -> AdminRequest {
                AdminRequest::$name(Box::new(self))
            }

            fn from_response(response: AdminResponse) -> Option<$output> {
                match response {
                    AdminResponse::$name(output) => Some(*output),
                    _ => None,
                }
            }

            fn to_http(&self) -> Result<Option<ApiRequest>, String> {
                to_http(&<Self as Perform>::ENDPOINT, self)
            }
        })*

        /// All operations, as the API has them.
        pub(crate) fn api_operations() -> Vec<ApiOperation> {
            vec![$(ApiOperation {
                name: stringify!($name),
                endpoint: <$name as Perform>::ENDPOINT,
                access: <$name as Perform>::ACCESS,
                parameters: <$name as JsonSchema>::json_schema,
                output: |generator| generator.subschema_for::<$output>(),
                read: |value| serde_json::from_value::<$name>(value).map($name::into_request),
            },)*]
        }

        impl AdminRequest {
            /// The scope that the request takes.
            pub(crate) const fn access(&self) -> OperationAccess {
                match self {
                    $(Self::$name(_) => <$name as Perform>::ACCESS,)*
                }
            }

            /// The part of the store that the request works on.
            pub(crate) const fn store_part(&self) -> StorePart {
                match self {
                    $(Self::$name(_) => <$name as Perform>::STORE,)*
                }
            }

            /// Runs the operation for an operator, on this service.
            pub(crate) async fn perform(
                self,
                service: &AdminService,
                operator: &Operator,
            ) -> Result<AdminResponse, AdminError> {
                Ok(match self {
                    $(Self::$name(operation) => {
                        AdminResponse::$name(Box::new(Box::pin(operation.perform(service, operator)).await?))
                    })*
                })
            }
        }

        impl AdminResponse {
            /// What the operation gives back, as JSON without the name of the operation.
            pub(crate) fn output_json(&self) -> serde_json::Result<Vec<u8>> {
                match self {
                    $(Self::$name(output) => serde_json::to_vec(output),)*
                }
            }
        }
    };
}

operations! {
    ListKeys -> KeyList,
    CreateKey -> IssuedKeyView,
    RotateKey -> IssuedKeyView,
    RevokeKey -> KeyView,
    ListOrganisations -> OrganisationList,
    AddOrganisation -> AddedOrganisation,
    RemoveOrganisation -> OrganisationView,
    ListAgents -> AgentList,
    ShowAgent -> AgentView,
    ShowAgentHistory -> AgentHistory,
    ShowAgentCard -> AgentCardDocument,
    AddAgent -> AddedAgentView,
    RemoveAgent -> RegisteredAgentView,
    EnableAgent -> RegisteredAgentView,
    DisableAgent -> RegisteredAgentView,
    RefreshAgent -> RefreshedAgent,
    ApproveAgent -> StoredCardView,
    TailAudit -> AuditTail,
    ListAudit -> AuditPage,
    VerifyAudit -> VerifiedAudit,
    ListDeliveries -> DeliveryList,
    ShowDelivery -> DeliveryView,
    RetryDelivery -> DeliveryView,
    DropDelivery -> DeliveryView,
    TestWebhook -> WebhookTrial,
    ListInbox -> InboxPage,
    ShowQuestion -> QuestionView,
    ReplyToQuestion -> RepliedTask,
    ListTasks -> TaskList,
    CountTasks -> TaskStatistics,
    CancelTree -> CanceledTasks,
    ListExchanges -> ExchangeList,
    ListVenues -> VenueList,
    AddVenue -> VenueView,
    ImportVenues -> ImportedVenues,
    ImportVenueFile -> ImportedVenues,
    EnableVenue -> VenueView,
    ListBookings -> BookingList,
    ShowBooking -> BookingView,
    MoveBooking -> BookingView,
    ListSubscriptions -> SubscriptionList,
    Subscribe -> SubscriptionView,
    RotateSubscription -> SubscriptionView,
    Unsubscribe -> SubscriptionView,
    RunBilling -> BatchList,
    CheckBilling -> TallyView,
    ListEnvelopes -> EnvelopeList,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_becomes_a_path_a_query_and_a_body() {
        let http = |operation: Result<Option<ApiRequest>, String>| operation.unwrap().unwrap();
        let rotate = http(RotateKey { id: "k 1/é".into(), grace_seconds: 5 }.to_http());
        assert_eq!(rotate.path, "/keys/k%201%2F%C3%A9/rotate");
        assert_eq!((rotate.method, rotate.body.as_deref()), (Method::POST, Some(r#"{"graceSeconds":5}"#)));
        let list = http(ListAudit { after: 7, caller: Some("key:k&1".into()), job: None }.to_http());
        assert_eq!((list.path.as_str(), list.body), ("/audit?after=7&caller=key%3Ak%261", None));
        assert_eq!(ImportVenueFile { path: "/venues.json".into() }.to_http(), Ok(None));
        assert!(RevokeKey { id: "..".into() }.to_http().is_err(), "it would be another path");
    }
}
