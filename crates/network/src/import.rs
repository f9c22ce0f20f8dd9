//! Importing venues from a file: a JSON array of rows, imported whole or not at all.
//!
//! Operators write such files by hand or with a short script, so an error names the row, its slug and its member.

use crate::NetworkTerms;
use crate::intent::{NAME_CHARS_MAX, TIME_CHARS_MAX};
use sabir_store::{Fee, ImportCounts, Ledger, Slot, Venue, VenueListing, VenueRef};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Bytes of a file, at most.
pub const FILE_BYTES_MAX: u64 = 512 << 20;
/// Venues in a file, at most.
pub const VENUES_MAX: usize = 250_000;
/// Slots of one venue, at most.
pub const SLOTS_MAX: usize = 2000;
/// Tags of one venue, at most.
pub const TAGS_MAX: usize = 32;
/// Characters of a name, a category, an area, a city, a tag or a price range.
pub const LABEL_CHARS_MAX: usize = 200;
/// Characters of a description.
pub const DESCRIPTION_CHARS_MAX: usize = 4000;
/// Bookings of one slot, at most.
pub const CAPACITY_MAX: u32 = 100_000;
/// Characters of a URL, at most.
pub const URL_CHARS_MAX: usize = 2000;

/// Why a file is not imported. The message is shown as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VenueFileError {
    /// The file is not a JSON array of at most [`VENUES_MAX`] rows.
    #[error("{0}")]
    File(String),
    /// A row is invalid.
    #[error("row {row}{}: {problem}", Named(slug))]
    Row {
        /// The number of the row, counted from 1.
        row: usize,
        /// The slug of the row, if it has one.
        slug: Option<String>,
        /// The error in the row.
        problem: String,
    },
}

/// Prints the slug of a row, if it has one.
struct Named<'a>(&'a Option<String>);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |slug| write!(f, " ({slug:?})"))
    }
}

/// A venue as a file describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct VenueRow {
    /// The slug in URLs and orders; identifies the venue when it is imported again.
    pub slug: String,
    /// The name that people see.
    pub name: String,
    /// The category, such as `restaurant`.
    pub category: String,
    pub description: Option<String>,
    pub area: Option<String>,
    pub city: Option<String>,
    pub tags: Vec<String>,
    /// The price range, in the venue's own notation.
    pub price_range: Option<String>,
    /// The rank in lists: higher comes first; venues without one come last.
    pub priority_rank: Option<i64>,
    /// The id of its agent; `venue:SLUG` where the row has none.
    pub agent_id: String,
    /// The URL of its own agent, if it has one.
    pub endpoint: Option<String>,
    /// The referral fee, in hundredths of a percent; the network's fee where the row has none.
    pub fee: Option<u32>,
    /// Whether it can be found and booked. Without it a known venue stays as it is, and a new one is active.
    pub active: Option<bool>,
    /// Its slots; without them the slots stay as they are.
    pub slots: Option<Vec<SlotRow>>,
}

/// A slot as a file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotRow {
    /// The id of the slot, within the venue.
    pub id: String,
    /// The time, as the venue writes it.
    pub time: String,
    /// The number of bookings it takes.
    pub capacity: u32,
}

/// Reads a file. Two rows with the same slug or the same agent are an error, since it is unclear which of them counts.
pub fn read(text: &str) -> Result<Vec<VenueRow>, VenueFileError> {
    let rows: Vec<Value> = match serde_json::from_str(text) {
        Ok(Value::Array(rows)) => rows,
        Ok(_) => return Err(VenueFileError::File("the file must be a JSON array of venues".into())),
        Err(error) => return Err(VenueFileError::File(format!("the file is not JSON: {error}"))),
    };
    if rows.len() > VENUES_MAX {
        return Err(VenueFileError::File(format!("{} venues, over the limit of {VENUES_MAX}", rows.len())));
    }
    let (mut slugs, mut agents) = (BTreeMap::new(), BTreeMap::new());
    let mut venues = Vec::with_capacity(rows.len());
    for (at, row) in rows.into_iter().enumerate() {
        let slug = row.get("slug").and_then(Value::as_str).map(|slug| slug.chars().take(NAME_CHARS_MAX).collect());
        let wrong = |problem: String| VenueFileError::Row { row: at + 1, slug, problem };
        let venue = match VenueRow::read(row) {
            Ok(venue) => venue,
            Err(problem) => return Err(wrong(problem)),
        };
        if let Some(before) = slugs.insert(venue.slug.clone(), at + 1) {
            return Err(wrong(format!("slug: is also that of row {before}")));
        }
        if let Some(before) = agents.insert(venue.agent_id.clone(), at + 1) {
            return Err(wrong(format!("agent_id: {:?} is also that of row {before}", venue.agent_id)));
        }
        venues.push(venue);
    }
    Ok(venues)
}

impl VenueRow {
    /// Reads one row; returns what is wrong with it.
    pub fn read(row: Value) -> Result<Self, String> {
        let Value::Object(members) = row else { return Err("must be an object".into()) };
        let mut row = RowMembers(members);
        let slug = row.required("slug", NAME_CHARS_MAX)?;
        check_slug(&slug)?;
        let agent_id = row.text("agent_id", 256)?;
        if agent_id.as_deref().is_some_and(|id| id.is_empty() || id.contains(char::is_whitespace)) {
            return Err("agent_id: must be a word".into());
        }
        if agent_id.as_deref().is_some_and(|id| id.starts_with("network:")) {
            return Err("agent_id: networks, and no venues, are called network:…".into());
        }
        let venue = Self {
            agent_id: agent_id.unwrap_or_else(|| format!("venue:{slug}")),
            slug,
            name: row.required("name", LABEL_CHARS_MAX)?,
            category: row.required("category", LABEL_CHARS_MAX)?,
            description: row.prose("description")?,
            area: row.text("area", LABEL_CHARS_MAX)?,
            city: row.text("city", LABEL_CHARS_MAX)?,
            tags: row.tags()?,
            price_range: row.text("price_range", LABEL_CHARS_MAX)?,
            priority_rank: row.whole("priority_rank")?,
            endpoint: row.endpoint()?,
            fee: row.fee()?,
            active: row.flag("active")?,
            slots: row.slots()?,
        };
        row.reject_unknown()?;
        Ok(venue)
    }
}

/// Imports venues into the ledger, all of them or none. Where a row leaves out `active` or `slots`, a known venue keeps
/// its own.
pub async fn import(
    ledger: &dyn Ledger,
    terms: &NetworkTerms,
    rows: Vec<VenueRow>,
) -> Result<ImportCounts, sabir_store::ImportError> {
    let mut listings = Vec::with_capacity(rows.len());
    for row in rows {
        let known = ledger.venue(VenueRef::Slug(&row.slug)).await?;
        let slots = match (&row.slots, &known) {
            (None, Some(venue)) => ledger.slots(&venue.id).await?,
            (slots, _) => slots.iter().flatten().map(Slot::from).collect(),
        };
        let active = row.active.unwrap_or_else(|| known.as_ref().is_none_or(|venue| venue.active));
        let id = known.map_or_else(|| id_of(&terms.id, &row.slug), |venue| venue.id);
        let venue = Venue {
            id,
            active,
            slug: row.slug,
            name: row.name,
            agent_id: row.agent_id,
            category: row.category,
            description: row.description,
            area: row.area,
            city: row.city,
            tags: row.tags,
            price_range: row.price_range,
            priority_rank: row.priority_rank,
            endpoint: row.endpoint,
            settings: None,
            fee: Fee { basis_points: row.fee.unwrap_or(terms.fee), floor_cents: None, flat_cents: None },
        };
        listings.push(VenueListing { venue, slots });
    }
    ledger.import_venues(listings).await
}

impl From<&SlotRow> for Slot {
    fn from(row: &SlotRow) -> Self {
        Self { id: row.id.clone(), time: row.time.clone(), capacity: row.capacity, taken: 0 }
    }
}

/// The id of a new venue: a UUID (version 8) of its network and its slug, so that the same file makes the same venues
/// wherever it is imported.
fn id_of(network: &str, slug: &str) -> String {
    use sha2::Digest as _;
    let hash = sha2::Sha256::digest(format!("sabir venue\0{network}\0{slug}"));
    let mut bytes: [u8; 16] = hash[..16].try_into().unwrap_or_default();
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = sabir_proto::digest::hex(&bytes);
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Checks a slug, which is used in URLs and spoken on the telephone; one that looks like an id would be taken for one.
fn check_slug(slug: &str) -> Result<(), String> {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    if !slug.bytes().all(legal) || slug.starts_with(['-', '_']) {
        return Err("slug: must be lower-case letters, digits, - and _, beginning with a letter or a digit".into());
    }
    if is_uuid(slug) {
        return Err("slug: looks like an id".into());
    }
    Ok(())
}

/// Whether a text has the form of a venue id.
pub(crate) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, b)| match at {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}

/// The members of a row that are still to be read.
struct RowMembers(Map<String, Value>);

impl RowMembers {
    fn text(&mut self, name: &str, chars_max: usize) -> Result<Option<String>, String> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => line(name, text, chars_max).map(Some),
            Some(_) => Err(format!("{name}: must be text")),
        }
    }

    fn required(&mut self, name: &str, chars_max: usize) -> Result<String, String> {
        let text = self.text(name, chars_max)?.ok_or_else(|| format!("{name}: must be given"))?;
        if text.trim().is_empty() { Err(format!("{name}: must not be empty")) } else { Ok(text) }
    }

    /// Reads a text that may have paragraphs.
    fn prose(&mut self, name: &str) -> Result<Option<String>, String> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.chars().count() > DESCRIPTION_CHARS_MAX => {
                Err(format!("{name}: must not be longer than {DESCRIPTION_CHARS_MAX} characters"))
            }
            Some(Value::String(text)) => {
                let odd = text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'));
                if odd { Err(format!("{name}: must not have control characters")) } else { Ok(Some(text)) }
            }
            Some(_) => Err(format!("{name}: must be text")),
        }
    }

    fn tags(&mut self) -> Result<Vec<String>, String> {
        let tags = match self.0.remove("tags") {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(tags)) => tags,
            Some(_) => return Err("tags: must be an array of texts".into()),
        };
        if tags.len() > TAGS_MAX {
            return Err(format!("tags: no more than {TAGS_MAX}"));
        }
        let tag = |tag: Value| match tag {
            Value::String(text) => line("tags", text, LABEL_CHARS_MAX),
            _ => Err("tags: must be an array of texts".to_owned()),
        };
        tags.into_iter().map(tag).collect()
    }

    fn whole(&mut self, name: &str) -> Result<Option<i64>, String> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value.as_i64().map(Some).ok_or_else(|| format!("{name}: must be a whole number")),
        }
    }

    fn flag(&mut self, name: &str) -> Result<Option<bool>, String> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(_) => Err(format!("{name}: must be true or false")),
        }
    }

    /// Reads a percentage into hundredths, so that sums of money are never computed with fractions.
    fn fee(&mut self) -> Result<Option<u32>, String> {
        match self.0.remove("referral_fee_pct") {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let pct = value.as_f64().ok_or("referral_fee_pct: must be a number")?;
                percent_to_basis_points(pct).map(Some).ok_or_else(|| {
                    "referral_fee_pct: must be between 0 and 100, with at most two digits after the point".to_owned()
                })
            }
        }
    }

    fn endpoint(&mut self) -> Result<Option<String>, String> {
        let Some(endpoint) = self.text("endpoint", URL_CHARS_MAX)? else { return Ok(None) };
        let url = url::Url::parse(&endpoint).map_err(|e| format!("endpoint: {e}"))?;
        let plain = url.username().is_empty() && url.password().is_none();
        match url.scheme() {
            "http" | "https" if url.has_host() && plain => Ok(Some(endpoint)),
            _ => Err("endpoint: must be an http or https URL without a name and a password in it".into()),
        }
    }

    fn slots(&mut self) -> Result<Option<Vec<SlotRow>>, String> {
        let slots = match self.0.remove("slots") {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Array(slots)) => slots,
            Some(_) => return Err("slots: must be an array".into()),
        };
        if slots.len() > SLOTS_MAX {
            return Err(format!("slots: no more than {SLOTS_MAX}"));
        }
        let mut ids = BTreeSet::new();
        let mut read = Vec::with_capacity(slots.len());
        for (at, slot) in slots.into_iter().enumerate() {
            let slot = SlotRow::read(slot).map_err(|problem| format!("slot {}: {problem}", at + 1))?;
            if !ids.insert(slot.id.clone()) {
                return Err(format!("slot {}: id: {:?} is there twice", at + 1, slot.id));
            }
            read.push(slot);
        }
        Ok(Some(read))
    }

    /// Reports a member that was not read as unknown.
    fn reject_unknown(self) -> Result<(), String> {
        self.0.keys().next().map_or(Ok(()), |name| {
            let shown: String = name.chars().filter(|c| !c.is_control()).take(40).collect();
            Err(format!("{shown}: is not known"))
        })
    }
}

impl SlotRow {
    fn read(slot: Value) -> Result<Self, String> {
        let Value::Object(members) = slot else { return Err("must be an object".into()) };
        let mut row = RowMembers(members);
        let (id, time) = (row.required("id", NAME_CHARS_MAX)?, row.required("time", TIME_CHARS_MAX)?);
        let capacity = row.whole("capacity")?.unwrap_or(1);
        let capacity = u32::try_from(capacity).ok().filter(|capacity| *capacity <= CAPACITY_MAX);
        let capacity = capacity.ok_or_else(|| format!("capacity: must be between 0 and {CAPACITY_MAX}"))?;
        row.reject_unknown()?;
        Ok(Self { id, time, capacity })
    }
}

/// A percentage in hundredths; `None` for a number outside 0 to 100 or with more digits.
pub fn percent_to_basis_points(pct: f64) -> Option<u32> {
    let scaled = pct * 100.0;
    let whole = scaled.round();
    let fits = (0.0..=10_000.0).contains(&whole) && (scaled - whole).abs() < 1e-6;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 10,000")]
    fits.then_some(whole as u32)
}

/// Checks a text of one line.
fn line(name: &str, text: String, chars_max: usize) -> Result<String, String> {
    if text.chars().count() > chars_max {
        return Err(format!("{name}: must not be longer than {chars_max} characters"));
    }
    if text.chars().any(char::is_control) {
        return Err(format!("{name}: must not have control characters"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row() -> Value {
        json!({
            "slug": "luigis", "name": "Luigi’s 🍕 مطعم", "category": "restaurant", "description": "Wood fire.\nNo pineapple.",
            "area": "Canggu", "city": "Bali", "tags": ["pizza"], "price_range": "$$", "priority_rank": 10,
            "agent_id": "venue_luigis", "endpoint": "https://luigis.example/a2a/v1", "referral_fee_pct": 7.5, "active": true,
            "slots": [{"id": "s1", "time": "2026-12-01T19:00:00Z", "capacity": 4}],
        })
    }

    fn with(name: &str, value: Value) -> Value {
        let mut row = row();
        row[name] = value;
        row
    }

    fn problem(rows: &[Value]) -> String {
        read(&json!(rows).to_string()).expect_err("it is wrong").to_string()
    }

    #[test]
    fn a_venue_is_read_with_everything_it_says() {
        let venues = read(&json!([row()]).to_string()).unwrap();
        let venue = &venues[0];
        assert_eq!((venue.fee, venue.priority_rank, venue.active), (Some(750), Some(10), Some(true)));
        assert_eq!(venue.slots.as_ref().unwrap()[0].capacity, 4);
        let least = read(r#"[{"slug":"a","name":"A","category":"bar"}]"#).unwrap().remove(0);
        assert_eq!((least.agent_id.as_str(), least.slots, least.active, least.fee), ("venue:a", None, None, None));
        assert_eq!(read("[]"), Ok(Vec::new()));
    }

    #[test]
    fn a_mistake_is_named_by_row_slug_and_member() {
        let second = |name: &str, value: Value| {
            problem(&[json!({"slug": "a", "name": "A", "category": "b"}), with(name, value)])
        };
        for (name, value) in [
            ("slug", json!("Luigi's")),
            ("slug", json!("")),
            ("slug", json!("01890a5d-ac96-774b-bcce-b302099a8057")),
            ("slug", Value::Null),
            ("name", json!(7)),
            ("name", json!("a\nb")),
            ("name", json!("x".repeat(201))),
            ("category", json!(" ")),
            ("tags", json!("pizza")),
            ("tags", json!([1])),
            ("priority_rank", json!(1.5)),
            ("agent_id", json!("two words")),
            ("agent_id", json!("network:agnt")),
            ("endpoint", json!("ftp://x")),
            ("endpoint", json!("https://me:secret@x.example")),
            ("referral_fee_pct", json!(101)),
            ("referral_fee_pct", json!(-1)),
            ("referral_fee_pct", json!("7")),
            ("active", json!("yes")),
            ("slots", json!({})),
            ("slots", json!([{"id": "s", "time": "t", "capacity": -1}])),
            ("slots", json!([{"id": "s", "time": "t"}, {"id": "s", "time": "u"}])),
            ("slots", json!([{"id": "s", "time": "t", "seats": 4}])),
            ("openning_hours", json!("9-17")),
        ] {
            let said = second(name, value.clone());
            let what = if name == "slots" { "slot" } else { name };
            assert!(said.starts_with("row 2") && said.contains(what), "{name} = {value}: {said}");
        }
        assert!(second("city", json!(1)).starts_with("row 2 (\"luigis\"): city"), "it is named by its slug");
    }

    #[test]
    fn two_rows_are_not_one_venue() {
        assert!(problem(&[row(), row()]).contains("slug: is also that of row 1"));
        assert!(problem(&[row(), with("slug", json!("other"))]).contains("agent_id"));
        assert!(read("{}").is_err() && read("[").is_err() && read("[1]").is_err());
    }

    #[test]
    fn shares_are_kept_in_hundredths() {
        for (pct, kept) in [(7.0, Some(700)), (0.07, Some(7)), (7.35, Some(735)), (0.0, Some(0)), (100.0, Some(10_000))]
        {
            assert_eq!(percent_to_basis_points(pct), kept, "{pct}");
        }
        for pct in [7.001, 100.01, -0.01, f64::NAN, f64::INFINITY] {
            assert_eq!(percent_to_basis_points(pct), None, "{pct}");
        }
    }
}
