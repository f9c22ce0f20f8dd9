//! A card can be written and read in every form, and the losses name what does not survive.

mod reading;
mod roundtrip;
mod writing;

use sabir_wire::card::ReadCard;

/// The lints of a card as `id path`.
fn lints(read: &ReadCard) -> Vec<String> {
    read.lint.iter().map(|lint| format!("{} {}", lint.id, lint.path)).collect()
}

/// The losses as `kind: path`.
fn losses(losses: &sabir_wire::Losses) -> Vec<String> {
    losses.notes().iter().map(ToString::to_string).collect()
}
