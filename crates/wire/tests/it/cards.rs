//! A card can be written and read in every form, and the losses name what does not survive.

mod found;
mod roundtrip;
mod shown;

use sabir_wire::card::Read;

/// The lints of a card as `id path`.
fn lints(read: &Read) -> Vec<String> {
    read.lint.iter().map(|lint| format!("{} {}", lint.id, lint.path)).collect()
}

/// The losses as `kind: path`.
fn losses(losses: &sabir_wire::Losses) -> Vec<String> {
    losses.notes().iter().map(ToString::to_string).collect()
}
