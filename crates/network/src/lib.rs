//! The booking network: venues, bookings, what is counted and paid, and the networks beside it.
//!
//! A network is an agent like any other: its intents are skills, what they take is a data part, and whoever confirms a
//! booking opens a task. So an envelope and a message in any dialect of A2A lead to the same lines, and what must be true
//! together is one commit of the task log.
//!
//! | Room | What is there |
//! |---|---|
//! | `venue` | the agent that stands for the network |
//! | `intent` | what is asked, read strictly |
//! | `words` | what is asked in plain words |
//! | `answer` | what is answered |
//! | `booking` | what a booking may do next |
//! | `transition` | moving a booking, as operators do |
//! | `payment` | paying, and booking with it |
//! | `billing` | what was counted, to whoever bills it |
//! | `errand` | services that are no agents |
//! | `webhook` | who is told of it |
//! | `import` | venues from a file |
//! | `patron` | who asks |
//! | `card` | what the network says it can do |
//! | `record`, `registry` | what networks say about themselves, and who covers what |
//! | `via`, `route` | envelopes that are passed on, and the ways out |
//! | `federation` | keeping up with the networks beside us |

pub mod answer;
pub mod billing;
pub mod booking;
mod card;
mod errand;
pub mod federation;
pub mod import;
pub mod intent;
pub mod patron;
pub mod payment;
pub mod record;
pub mod registry;
pub mod route;
mod transition;
mod venue;
pub mod via;
pub mod webhook;
pub mod words;

pub use card::{skill, skills};
pub use errand::Messenger;
pub use patron::{Patron, Patrons, Strangers};
pub use transition::{MoveError, Office};
pub use venue::{BOOKING, CONFIRM_CENTS, Terms, VenueAgent};
