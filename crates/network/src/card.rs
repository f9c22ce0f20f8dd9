//! The skills of the network for its agent card: one for each intent.

use sabir_gateway::Intent;
use sabir_proto::card::Skill;

/// All intents as skills, with descriptions, tags and examples.
pub fn skills() -> Vec<Skill> {
    Intent::ALL.into_iter().map(skill).collect()
}

/// One intent as a skill.
pub fn skill(intent: Intent) -> Skill {
    let (name, description, tags, examples): (&str, &str, &[&str], &[&str]) = match intent {
        Intent::NetworkPing => (
            "Ping the network",
            "Says how many venues can be booked, and who you are to the network. Takes {}.",
            &["network", "status"],
            &["ping"],
        ),
        Intent::VenueList => (
            "List venues",
            "Lists venues by category and place. Takes {category?, location?, limit? up to 100}.",
            &["venues", "places", "list", "restaurants", "hotels"],
            &["venues restaurant in Canggu", "{\"category\":\"restaurant\",\"location\":\"Canggu\"}"],
        ),
        Intent::BookingSearch => (
            "Search for something to book",
            "Searches names, descriptions and categories of venues and shows open slots. Takes {query?, location?, limit? up to \
             25}; what it shows is good for five minutes.",
            &["search", "booking", "venues", "slots", "availability"],
            &["search wood fired pizza in Canggu", "{\"query\":\"pizza\",\"location\":\"Canggu\"}"],
        ),
        Intent::BookingConfirm => (
            "Book a venue",
            "Books a venue. Takes {venue_id: its slug or id, slot_id?, time?, party_size?, user_note?}. Metered.",
            &["booking", "reservation", "book", "reserve", "confirm"],
            &["book la-brisa slot s1 for 4", "{\"venue_id\":\"la-brisa\",\"slot_id\":\"s1\",\"party_size\":4}"],
        ),
        Intent::BookingStatus => (
            "Track a booking",
            "Says where one of your bookings stands: pending, confirmed, cancelled and so on. Takes {booking_id}.",
            &["booking", "reservation", "status", "track"],
            &[
                "track 01890a5d-ac96-774b-bcce-b302099a8057",
                "{\"booking_id\":\"01890a5d-ac96-774b-bcce-b302099a8057\"}",
            ],
        ),
        Intent::PaymentAuthorize => (
            "Book and pay",
            "Authorises a payment, and books a venue with it in one step. Takes {amount, token, booking?, capture?}. Must be \
             signed.",
            &["payment", "booking", "pay"],
            &[],
        ),
    };
    let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    Skill {
        id: intent.name().into(),
        name: name.into(),
        description: description.into(),
        tags: own(tags),
        examples: own(examples),
        input_modes: Vec::new(),
        output_modes: Vec::new(),
        security_requirements: Vec::new(),
    }
}
