//! Organisations, as rows of the guard's file.

use super::audit;
use crate::{AuditActor, AuditRecord, AuditSubject, ChangeError, Domain, ORGANISATIONS_MAX, Organisation, SecretRef};
use rusqlite::{Connection, OptionalExtension, Row, params};
use sabir_proto::Timestamp;

/// All organisations by domain; in place of an unreadable one, the problem.
pub(super) fn read(connection: &Connection) -> rusqlite::Result<Vec<Result<Organisation, String>>> {
    let mut statement = connection.prepare("SELECT domain, secret, added_at FROM organisation ORDER BY domain")?;
    let rows = statement.query_map([], organisation)?;
    rows.collect()
}

fn organisation(row: &Row<'_>) -> rusqlite::Result<Result<Organisation, String>> {
    let (domain, secret): (String, String) = (row.get(0)?, row.get(1)?);
    let added_at = Timestamp::from_millis(row.get(2)?);
    Ok(match (Domain::parse(&domain), SecretRef::parse(&secret)) {
        (Some(domain), Ok(secret)) => Ok(Organisation { domain, secret, added_at }),
        (None, _) => Err(format!("organisation {domain:?}: its domain is not one")),
        // The invalid text may be a secret, so the message leaves it out.
        (_, Err(problem)) => Err(format!("organisation {domain:?}: {problem}")),
    })
}

fn one(connection: &Connection, domain: &Domain) -> rusqlite::Result<Option<Organisation>> {
    let sql = "SELECT domain, secret, added_at FROM organisation WHERE domain = ?1";
    let found = connection.query_row(sql, [domain.as_str()], organisation).optional()?;
    Ok(found.and_then(Result::ok))
}

type OrganisationChangeResult = rusqlite::Result<Result<Option<Organisation>, ChangeError>>;

pub(super) fn add(connection: &Connection, new: &Organisation, by: &AuditActor) -> OrganisationChangeResult {
    let old = one(connection, &new.domain)?;
    let all: u32 = connection.query_row("SELECT count(*) FROM organisation", [], |row| row.get(0))?;
    if old.is_none() && usize::try_from(all).is_ok_and(|all| all >= ORGANISATIONS_MAX) {
        return Ok(Err(ChangeError::TooMany { what: "organisations", max: ORGANISATIONS_MAX }));
    }
    let sql = "INSERT INTO organisation (domain, secret, added_at) VALUES (?1, ?2, ?3)
               ON CONFLICT (domain) DO UPDATE SET secret = ?2, added_at = ?3";
    connection.execute(sql, params![new.domain.as_str(), new.secret.to_string(), new.added_at.millis()])?;
    let about = Some(AuditSubject::Organisation(new.domain.clone()));
    audit::append(connection, &[AuditRecord::change(by, "organisation.add", about)])?;
    Ok(Ok(old))
}

pub(super) fn remove(connection: &Connection, domain: &Domain, by: &AuditActor) -> OrganisationChangeResult {
    let old = one(connection, domain)?;
    if connection.execute("DELETE FROM organisation WHERE domain = ?1", [domain.as_str()])? > 0 {
        let about = Some(AuditSubject::Organisation(domain.clone()));
        audit::append(connection, &[AuditRecord::change(by, "organisation.remove", about)])?;
    }
    Ok(Ok(old))
}
