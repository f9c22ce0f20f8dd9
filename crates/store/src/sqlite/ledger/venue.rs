//! Venues, in the order of their keys.
//!
//! A venue's key is its rank among all venues, so the index returns matches in the right order and reading stops when
//! there are enough. There are gaps between keys for later venues; when a gap is used up, all keys are assigned anew.
//! [`vocabulary`](super::vocabulary) finds the words that a query matches.

use super::vocabulary::{self, Vocabulary, WordMatch};
use crate::ledger::{
    BookableVenue, Fee, ImportCounts, ImportError, SCAN_ROWS_MAX, Slot, Venue, VenueListing, VenueQuery, VenueRef,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::sync::Arc;

/// The gap between two keys, when all keys are assigned anew.
const GAP: i64 = 1 << 20;
/// From this many venues in one import on, all keys are assigned anew.
const RENUMBER_FROM: usize = 1000;
const COLUMNS: &str =
    "v.id, v.slug, v.name, v.agent_id, v.category, v.description, v.area, v.city, v.tags, v.price_range,
    v.priority_rank, v.endpoint, v.settings, v.basis_points, v.floor_cents, v.flat_cents, v.active";

fn read(row: &Row<'_>) -> rusqlite::Result<Venue> {
    let tags: String = row.get(8)?;
    Ok(Venue {
        id: row.get(0)?,
        slug: row.get(1)?,
        name: row.get(2)?,
        agent_id: row.get(3)?,
        category: row.get(4)?,
        description: row.get(5)?,
        area: row.get(6)?,
        city: row.get(7)?,
        tags: serde_json::from_str(&tags).unwrap_or_default(),
        price_range: row.get(9)?,
        priority_rank: row.get(10)?,
        endpoint: row.get(11)?,
        settings: row.get(12)?,
        fee: Fee { basis_points: row.get(13)?, floor_cents: row.get(14)?, flat_cents: row.get(15)? },
        active: row.get(16)?,
    })
}

pub(super) fn find(connection: &Connection, name: VenueRef<'_>) -> rusqlite::Result<Option<Venue>> {
    let (column, text) = match name {
        VenueRef::Id(id) => ("id", id),
        VenueRef::Slug(slug) => ("slug", slug),
        VenueRef::Agent(agent) => ("agent_id", agent),
    };
    let sql = format!("SELECT {COLUMNS} FROM venue v WHERE v.{column} = ?1");
    connection.prepare_cached(&sql)?.query_row([text], read).optional()
}

pub(super) fn search(connection: &Connection, query: &VenueQuery) -> rusqlite::Result<Vec<Venue>> {
    let wanted = query.normalized();
    let meant = if query.inactive { WordMatch::Anything } else { vocabulary::match_words(connection, &wanted)? };
    let (sql, asked) = match (&meant, &wanted.category) {
        _ if query.inactive => (format!("SELECT {COLUMNS} FROM venue v ORDER BY v.n"), None),
        (WordMatch::Nothing, _) => return Ok(Vec::new()),
        (WordMatch::These(tokens), _) => (
            format!(
                "SELECT {COLUMNS} FROM venue_text t CROSS JOIN venue v ON v.n = t.rowid
                 WHERE venue_text MATCH ?1 ORDER BY t.rowid"
            ),
            Some(tokens),
        ),
        (WordMatch::Anything, Some(category)) => (
            format!(
                "SELECT {COLUMNS} FROM venue v INDEXED BY venue_category
                 WHERE v.active = 1 AND v.category_key = ?1 ORDER BY v.n"
            ),
            Some(category),
        ),
        (WordMatch::Anything, None) => {
            (format!("SELECT {COLUMNS} FROM venue v INDEXED BY venue_active WHERE v.active = 1 ORDER BY v.n"), None)
        }
    };
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = match asked {
        Some(asked) => statement.query([asked])?,
        None => statement.query([])?,
    };
    let (mut found, mut in_vain) = (Vec::new(), 0);
    while found.len() < query.limit
        && (in_vain < SCAN_ROWS_MAX || query.inactive)
        && let Some(row) = rows.next()?
    {
        let venue = read(row)?;
        if wanted.matches(&venue) {
            found.push(venue);
        } else {
            in_vain += 1;
        }
    }
    Ok(found)
}

pub(super) fn slots(connection: &Connection, venue: &str) -> rusqlite::Result<Vec<Slot>> {
    let sql = "SELECT id, time, capacity, taken FROM slot WHERE venue = ?1 AND capacity > 0 ORDER BY time, id";
    let slot =
        |row: &Row<'_>| Ok(Slot { id: row.get(0)?, time: row.get(1)?, capacity: row.get(2)?, taken: row.get(3)? });
    connection.prepare_cached(sql)?.query_map([venue], slot)?.collect()
}

/// A venue with its slots, and the last commit in them. To be called on one view of the file.
pub(super) fn bookable(connection: &Connection, name: VenueRef<'_>) -> rusqlite::Result<Option<(BookableVenue, u64)>> {
    let Some(venue) = find(connection, name)? else { return Ok(None) };
    let slots = Arc::new(slots(connection, &venue.id)?);
    let sql = "SELECT number FROM latest";
    let as_of = connection.prepare_cached(sql)?.query_row([], |row| row.get::<_, i64>(0))?;
    Ok(Some((BookableVenue { venue: Arc::new(venue), slots }, as_of.cast_unsigned())))
}

pub(super) fn import(
    connection: &Connection,
    mut listings: Vec<VenueListing>,
) -> rusqlite::Result<Result<ImportCounts, ImportError>> {
    let mut imported = ImportCounts::default();
    let mut anew = listings.len() >= RENUMBER_FROM;
    listings.sort_by(|a, b| a.venue.sort_key().cmp(&b.venue.sort_key()));
    if let Some(twice) = find_duplicate(&listings) {
        return Ok(Err(twice));
    }
    // Replaced venues are deleted first, or two venues could not swap names.
    for listing in &mut listings {
        let sql = "SELECT n, id FROM venue WHERE slug = ?1";
        let known = connection
            .prepare_cached(sql)?
            .query_row([&listing.venue.slug], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)));
        match known.optional()? {
            Some((n, id)) => {
                listing.venue.id = id;
                connection.prepare_cached("DELETE FROM venue WHERE n = ?1")?.execute([n])?;
                connection.prepare_cached("DELETE FROM venue_text WHERE rowid = ?1")?.execute([n])?;
                imported.replaced += 1;
            }
            None => imported.added += 1,
        }
    }
    let mut vocabulary = Vocabulary::default();
    for VenueListing { venue, slots } in &listings {
        if let Some(taken) = find_conflict(connection, venue)? {
            return Ok(Err(taken));
        }
        let n = match if anew { None } else { free_key(connection, venue)? } {
            Some(n) => n,
            None => {
                anew = true;
                let sql = "SELECT max(ifnull(max(n), 0), 0) + 1 FROM venue";
                connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?
            }
        };
        put(connection, n, venue)?;
        if !anew {
            vocabulary.index(connection, n, venue)?;
        }
        put_slots(connection, &venue.id, slots)?;
    }
    if anew {
        renumber(connection)?;
    }
    Ok(Ok(imported))
}

/// A name that two venues of one import share.
fn find_duplicate(listings: &[VenueListing]) -> Option<ImportError> {
    let mut seen = std::collections::HashSet::new();
    for VenueListing { venue, .. } in listings {
        for (what, text) in [("slug", &venue.slug), ("id", &venue.id), ("agent_id", &venue.agent_id)] {
            if !seen.insert((what, text)) {
                return Some(ImportError::Taken { slug: venue.slug.clone(), what });
            }
        }
    }
    None
}

/// A name of this venue that another venue has.
fn find_conflict(connection: &Connection, venue: &Venue) -> rusqlite::Result<Option<ImportError>> {
    for (what, text) in [("id", &venue.id), ("agent_id", &venue.agent_id)] {
        let sql = format!("SELECT EXISTS (SELECT 1 FROM venue WHERE {what} = ?1)");
        if connection.prepare_cached(&sql)?.query_row([text], |row| row.get(0))? {
            return Ok(Some(ImportError::Taken { slug: venue.slug.clone(), what }));
        }
    }
    Ok(None)
}

/// A key between those of its neighbours; `None` where there is no gap.
fn free_key(connection: &Connection, venue: &Venue) -> rusqlite::Result<Option<i64>> {
    let neighbour = |sql: &str| {
        let place = params![venue.reverse_rank(), venue.name, venue.id];
        connection.prepare_cached(sql)?.query_row(place, |row| row.get::<_, i64>(0)).optional()
    };
    let before = neighbour(
        "SELECT n FROM venue INDEXED BY venue_place WHERE (below, name, id) < (?1, ?2, ?3)
         ORDER BY below DESC, name DESC, id DESC LIMIT 1",
    )?;
    let after = neighbour(
        "SELECT n FROM venue INDEXED BY venue_place WHERE (below, name, id) > (?1, ?2, ?3)
         ORDER BY below, name, id LIMIT 1",
    )?;
    Ok(match (before, after) {
        (before, None) => before.unwrap_or(0).checked_add(GAP),
        (None, Some(after)) => (after > 1).then_some(after / 2),
        (Some(before), Some(after)) => (after - before > 1).then_some(before + (after - before) / 2),
    })
}

fn put(connection: &Connection, n: i64, venue: &Venue) -> rusqlite::Result<()> {
    let sql = "INSERT INTO venue (n, id, slug, agent_id, name, category, description, area, city, tags, price_range,
                   priority_rank, below, endpoint, settings, basis_points, floor_cents, flat_cents, active, category_key)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)";
    connection.prepare_cached(sql)?.execute(params![
        n,
        venue.id,
        venue.slug,
        venue.agent_id,
        venue.name,
        venue.category,
        venue.description,
        venue.area,
        venue.city,
        serde_json::to_string(&venue.tags).unwrap_or_else(|_| "[]".into()),
        venue.price_range,
        venue.priority_rank,
        venue.reverse_rank(),
        venue.endpoint,
        venue.settings,
        venue.fee.basis_points,
        venue.fee.floor_cents,
        venue.fee.flat_cents,
        venue.active,
        venue.category.to_ascii_lowercase(),
    ])?;
    Ok(())
}

fn put_slots(connection: &Connection, venue: &str, slots: &[Slot]) -> rusqlite::Result<()> {
    let names = serde_json::to_string(&slots.iter().map(|slot| &*slot.id).collect::<Vec<_>>()).unwrap_or_default();
    // A slot that has bookings stays, so that it is not booked twice should a later import name it again.
    let sql = "UPDATE slot SET capacity = 0 WHERE venue = ?1 AND id NOT IN (SELECT value FROM json_each(?2))";
    connection.prepare_cached(sql)?.execute([venue, &names])?;
    let sql = "DELETE FROM slot WHERE venue = ?1 AND taken = 0 AND id NOT IN (SELECT value FROM json_each(?2))";
    connection.prepare_cached(sql)?.execute([venue, &names])?;
    let sql = "INSERT INTO slot (venue, id, time, capacity, taken) VALUES (?1, ?2, ?3, ?4, 0)
               ON CONFLICT DO UPDATE SET time = ?3, capacity = ?4";
    let mut statement = connection.prepare_cached(sql)?;
    for slot in slots {
        statement.execute(params![venue, slot.id, slot.time, slot.capacity])?;
    }
    Ok(())
}

/// Assigns a new key to every venue, and rebuilds the index.
fn renumber(connection: &Connection) -> rusqlite::Result<()> {
    // The old keys are made negative first: a new key may equal another venue's old one.
    connection.execute_batch(
        "UPDATE venue SET n = -n; INSERT INTO venue_text (venue_text) VALUES ('delete-all'); DELETE FROM venue_word;
         INSERT INTO venue_word_text (venue_word_text) VALUES ('delete-all');",
    )?;
    let sql = "SELECT n FROM venue INDEXED BY venue_place ORDER BY below, name, id";
    let keys: Vec<i64> = connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut update = connection.prepare("UPDATE venue SET n = ?2 WHERE n = ?1")?;
    let mut select = connection.prepare(&format!("SELECT {COLUMNS} FROM venue v WHERE v.n = ?1"))?;
    let mut vocabulary = Vocabulary::default();
    for (old, new) in keys.into_iter().zip((1..).map(|i| i * GAP)) {
        update.execute((old, new))?;
        vocabulary.index(connection, new, &select.query_row([new], read)?)?;
    }
    Ok(())
}

pub(super) fn enable(connection: &Connection, slug: &str, active: bool) -> rusqlite::Result<bool> {
    let sql = format!("SELECT {COLUMNS}, v.n FROM venue v WHERE v.slug = ?1");
    let found = connection.prepare_cached(&sql)?.query_row([slug], |row| Ok((read(row)?, row.get::<_, i64>(17)?)));
    let Some((mut venue, n)) = found.optional()? else { return Ok(false) };
    if venue.active != active {
        venue.active = active;
        connection.prepare_cached("UPDATE venue SET active = ?2 WHERE n = ?1")?.execute((n, active))?;
        connection.prepare_cached("DELETE FROM venue_text WHERE rowid = ?1")?.execute([n])?;
        Vocabulary::default().index(connection, n, &venue)?;
    }
    Ok(true)
}
