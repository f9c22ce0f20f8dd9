//! Organisations: callers whose tokens are signed with a secret of their own. Only the reference to it is stored.

use super::operation::{Endpoint, OperationAccess, Perform, StorePart};
use super::service::{AdminService, Operator, ServiceHost};
use super::{AdminError, AdminErrorCode};
use sabir_proto::Timestamp;
use sabir_store::{Domain, Organisation, SecretRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Lists the organisations by domain.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListOrganisations {}

/// Adds an organisation, or changes the reference to its secret.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddOrganisation {
    pub domain: String,
    /// `env:NAME` or `file:PATH`, as the server finds it.
    pub secret: String,
}

/// Removes an organisation: its tokens are refused from then on.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveOrganisation {
    pub domain: String,
}

/// The organisations of a server.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct OrganisationList {
    pub organisations: Vec<OrganisationView>,
}

/// An organisation with the reference to its secret.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrganisationView {
    pub domain: String,
    pub secret: String,
    #[schemars(with = "String")]
    pub added_at: Timestamp,
}

/// An organisation that was added.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct AddedOrganisation {
    pub domain: String,
    pub secret: String,
    /// The reference that it replaced.
    pub replaced: Option<String>,
}

impl From<Organisation> for OrganisationView {
    fn from(one: Organisation) -> Self {
        Self { domain: one.domain.to_string(), secret: one.secret.to_string(), added_at: one.added_at }
    }
}

impl Perform for ListOrganisations {
    const ACCESS: OperationAccess = OperationAccess::Look;
    const STORE: StorePart = StorePart::ExistingGuard;
    const ENDPOINT: Endpoint = Endpoint::get("/organisations", "List the organisations");

    async fn perform(self, service: &AdminService, _: &Operator) -> Result<OrganisationList, AdminError> {
        let all = service.store.organisations().await?;
        Ok(OrganisationList { organisations: all.into_iter().map(OrganisationView::from).collect() })
    }
}

impl Perform for AddOrganisation {
    const ACCESS: OperationAccess = OperationAccess::Change;
    const STORE: StorePart = StorePart::Guard;
    const ENDPOINT: Endpoint = Endpoint::create("/organisations", "Add an organisation, or change its secret");

    async fn perform(self, service: &AdminService, operator: &Operator) -> Result<AddedOrganisation, AdminError> {
        let domain = parse_domain(&self.domain)?;
        let secret = SecretRef::parse(&self.secret)
            .map_err(|fault| AdminError::invalid(format!("secret: {fault}")).with_hint("sabir org add --help"))?;
        check_secret(service, &secret)?;
        let replaced = service.store.add(domain.clone(), secret.clone(), operator.actor()).await?;
        let replaced = replaced.map(|old| old.secret.to_string());
        Ok(AddedOrganisation { domain: domain.to_string(), secret: secret.to_string(), replaced })
    }
}

impl Perform for RemoveOrganisation {
    const ACCESS: OperationAccess = OperationAccess::Change;
    const STORE: StorePart = StorePart::ExistingGuard;
    const ENDPOINT: Endpoint = Endpoint::delete("/organisations/{domain}", "Remove an organisation");

    async fn perform(self, service: &AdminService, operator: &Operator) -> Result<OrganisationView, AdminError> {
        let domain = parse_domain(&self.domain)?;
        let removed = service.store.remove(domain.clone(), operator.actor()).await?;
        let unknown =
            || AdminError::new(AdminErrorCode::UnknownOrganisation, format!("there is no organisation {domain}"));
        Ok(removed.ok_or_else(unknown)?.into())
    }
}

/// Refuses an environment variable that a running server does not have: its environment cannot change any more. A file
/// may be created later, so a missing one is not refused.
fn check_secret(service: &AdminService, secret: &SecretRef) -> Result<(), AdminError> {
    if service.host == ServiceHost::Command || !matches!(secret, SecretRef::Env(_)) {
        return Ok(());
    }
    service.secrets.resolve(secret).map(drop).map_err(|reason| {
        AdminError::new(AdminErrorCode::Secret, format!("the running server cannot read {secret}: {reason}"))
    })
}

fn parse_domain(text: &str) -> Result<Domain, AdminError> {
    let wrong = || AdminError::invalid(format!("{text:?} is no domain, such as example.com"));
    Domain::parse(text).ok_or_else(|| wrong().with_hint("sabir org --help"))
}
