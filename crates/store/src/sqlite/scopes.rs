//! Owners by number. They are few and never removed, so all of them are in memory.

use crate::Scope;
use rusqlite::Connection;
use sabir_proto::{AgentName, Caller, Tenant};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

#[derive(Debug, Default)]
pub(super) struct Scopes(RwLock<ScopeMaps>);

#[derive(Debug, Default)]
struct ScopeMaps {
    numbers: HashMap<Arc<Scope>, i64>,
    scopes: HashMap<i64, Arc<Scope>>,
}

impl Scopes {
    pub(super) fn load(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut statement = connection.prepare("SELECT n, tenant, caller, agent FROM scope")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (tenant, caller, agent): (String, String, String) = (row.get(1)?, row.get(2)?, row.get(3)?);
            // The name was legal when it was written and no longer is: its tasks are unreachable, not lost.
            let (Ok(tenant), Ok(agent)) = (Tenant::parse(&tenant), AgentName::parse(&agent)) else { continue };
            self.remember(Arc::new(Scope { tenant, caller: Caller::named(&caller), agent }), row.get(0)?);
        }
        Ok(())
    }

    pub(super) fn number(&self, scope: &Scope) -> Option<i64> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).numbers.get(scope).copied()
    }

    pub(super) fn scope(&self, number: i64) -> Option<Arc<Scope>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).scopes.get(&number).cloned()
    }

    /// The number of an owner, assigned and committed on first use. Outside the group's transaction, so that a group
    /// that fails cannot leave a number in memory that the file does not have.
    pub(super) fn intern(&self, connection: &Connection, scope: &Arc<Scope>) -> rusqlite::Result<i64> {
        if let Some(number) = self.number(scope) {
            return Ok(number);
        }
        connection.execute(
            "INSERT INTO scope (tenant, caller, agent) VALUES (?1, ?2, ?3)",
            (scope.tenant.as_str(), scope.caller.name(), scope.agent.as_str()),
        )?;
        let number = connection.last_insert_rowid();
        self.remember(scope.clone(), number);
        Ok(number)
    }

    fn remember(&self, scope: Arc<Scope>, number: i64) {
        let mut maps = self.0.write().unwrap_or_else(PoisonError::into_inner);
        maps.numbers.insert(scope.clone(), number);
        maps.scopes.insert(number, scope);
    }
}
