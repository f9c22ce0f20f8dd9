//! `sabir venue …`: the places that the booking network of a server can book.

use super::{ServerTarget, print_json};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::output::Output;
use crate::problem::{Outcome, Problem};
use crate::render::Fields;
use clap::Args;
use sabir_server::admin::{AddVenue, EnableVenue, ImportVenueFile, ImportVenues, ListVenues, ROWS_MAX, VenueView};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Take venues from a file: a JSON array, all of it or nothing.
///
/// Each row is an object: slug, name and category, and as far as they are known description, area, city, tags,
/// price_range, priority_rank, agent_id, endpoint, referral_fee_pct, active, and slots of {id, time, capacity}. Ids are
/// made. A row whose slug is known replaces that venue; what the row leaves out of active and slots stays as it is, and so
/// does what is taken of its slots. The first row that is wrong is named, and nothing is taken then.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir venue import venues.json\n  \
    sabir venue import venues.json --config sabir.toml -o json\n\n\
    A file that is imported at every start is named in the configuration: [network] venues = \"venues.json\".")]
pub(crate) struct VenueImport {
    /// The file.
    file: PathBuf,
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for VenueImport {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let wrong = |error: &dyn std::fmt::Display| Problem::usage(format!("{}: {error}", self.file.display()));
        // The server may run in another directory, so the path counts from where it was typed.
        let path = std::path::absolute(&self.file).map_err(|error| wrong(&error))?;
        if out.shows_progress() {
            out.spin(0, &format!("importing {}", path.display()));
        }
        let imported = if self.server.is_remote() {
            let text = std::fs::read_to_string(&path).map_err(|error| wrong(&error))?;
            self.server.ask(ImportVenues { rows: serde_json::from_str(&text).map_err(|error| wrong(&error))? })
        } else {
            self.server.ask(ImportVenueFile { path })
        };
        out.clear_progress();
        let imported = imported?;
        print_json(&out, &imported)?;
        out.text(|fields| {
            fields.field("Added", &imported.added.to_string());
            fields.field("Replaced", &imported.replaced.to_string());
        })?;
        Ok(Exit::Done)
    }
}

/// Add a venue, or replace the one of that slug.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir venue add la-brisa --name \"La Brisa\" --category restaurant --city Bali --area Canggu --tag seafood\n  \
    sabir venue add la-brisa --name \"La Brisa\" --category restaurant --slot s1=2026-12-01T19:00:00Z=4")]
pub(crate) struct VenueAdd {
    /// Its short name: lower-case letters, digits, - and _.
    slug: String,
    /// Its name.
    #[arg(long)]
    name: String,
    /// What kind of place it is, such as restaurant.
    #[arg(long)]
    category: String,
    /// More about it.
    #[arg(long)]
    description: Option<String>,
    /// The part of town.
    #[arg(long)]
    area: Option<String>,
    /// The town.
    #[arg(long)]
    city: Option<String>,
    /// A word about it; may be repeated.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// What it costs, such as $$.
    #[arg(long, value_name = "TEXT")]
    price_range: Option<String>,
    /// Higher comes first.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority_rank: Option<i64>,
    /// Its agent; venue:SLUG where none is named.
    #[arg(long, value_name = "ID")]
    agent_id: Option<String>,
    /// Where its own agent takes envelopes.
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// What a referral costs, in per cent; the network's fee where nothing is said.
    #[arg(long, value_name = "PCT")]
    referral_fee_pct: Option<f64>,
    /// A slot, as ID=TIME=CAPACITY; may be repeated.
    #[arg(long = "slot", value_name = "ID=TIME=CAPACITY", value_parser = slot)]
    slots: Vec<Value>,
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for VenueAdd {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let mut row = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                row.insert(name.to_owned(), value);
            }
        };
        put("slug", Some(self.slug.into()));
        put("name", Some(self.name.into()));
        put("category", Some(self.category.into()));
        put("description", self.description.map(Into::into));
        put("area", self.area.map(Into::into));
        put("city", self.city.map(Into::into));
        put("tags", (!self.tags.is_empty()).then(|| self.tags.into()));
        put("price_range", self.price_range.map(Into::into));
        put("priority_rank", self.priority_rank.map(Into::into));
        put("agent_id", self.agent_id.map(Into::into));
        put("endpoint", self.endpoint.map(Into::into));
        put("referral_fee_pct", self.referral_fee_pct.map(Into::into));
        put("slots", (!self.slots.is_empty()).then(|| self.slots.into()));
        let row = Value::Object(row);
        print_venue(&out, &self.server.ask(AddVenue { row })?)
    }
}

/// List venues, those that cannot be booked as well.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir venue list\n  \
    sabir venue list pizza --location Canggu -o json")]
pub(crate) struct VenueList {
    /// Words that are in its name, its description or its category.
    terms: Vec<String>,
    /// Of this category.
    #[arg(long)]
    category: Option<String>,
    /// This is part of its area or its city.
    #[arg(long, value_name = "PLACE")]
    location: Option<String>,
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for VenueList {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        if !(1..=ROWS_MAX).contains(&self.limit) {
            return Err(Problem::usage(format!("--limit is between 1 and {ROWS_MAX}")).into());
        }
        let Self { terms, category, location, limit, server } = self;
        let list = server.ask(ListVenues { terms, category, location, limit })?;
        print_json(&out, &list)?;
        out.text(|fields| {
            list.venues.iter().for_each(|venue| write_fields(fields, venue));
            fields.field("Total", &list.venues.len().to_string());
        })?;
        Ok(Exit::Done)
    }
}

/// Have a venue neither found nor booked. What was booked stays.
#[derive(Debug, Args)]
pub(crate) struct VenueDisable {
    /// Its slug.
    slug: String,
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for VenueDisable {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        print_venue(&out, &self.server.ask(EnableVenue { slug: self.slug, active: false })?)
    }
}

/// Have a venue found and booked again.
#[derive(Debug, Args)]
pub(crate) struct VenueEnable {
    /// Its slug.
    slug: String,
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for VenueEnable {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        print_venue(&out, &self.server.ask(EnableVenue { slug: self.slug, active: true })?)
    }
}

fn print_venue(out: &Output, venue: &VenueView) -> Outcome {
    print_json(out, venue)?;
    out.text(|fields| write_fields(fields, venue))?;
    Ok(Exit::Done)
}

fn write_fields(fields: &mut Fields, venue: &VenueView) {
    fields.field("Venue", &venue.slug);
    fields.field("Name", &venue.name);
    fields.field("ID", &venue.id);
    fields.field("Agent", &venue.agent_id);
    fields.field("Category", &venue.category);
    let place: Vec<&str> = [&venue.area, &venue.city].into_iter().flatten().map(String::as_str).collect();
    fields.maybe("Place", Some(place.join(", ")).filter(|place| !place.is_empty()).as_deref());
    fields.maybe("Own agent at", venue.endpoint.as_deref());
    fields.field("Fee", &format!("{} %", venue.referral_fee_pct));
    fields.field("Bookable", if venue.active { "yes" } else { "no" });
    for slot in &venue.slots {
        fields.field("Slot", &format!("{} at {}: {} of {} taken", slot.id, slot.time, slot.taken, slot.capacity));
    }
}

/// Parses `ID=TIME=CAPACITY`. A time has no `=` in it.
fn slot(text: &str) -> Result<Value, String> {
    let wrong = || "a slot is ID=TIME=CAPACITY, such as s1=2026-12-01T19:00:00Z=4".to_owned();
    let mut parts = text.splitn(3, '=');
    let (Some(id), Some(time), Some(capacity)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(wrong());
    };
    let capacity: u32 = capacity.parse().map_err(|_| wrong())?;
    Ok(json!({"id": id, "time": time, "capacity": capacity}))
}
