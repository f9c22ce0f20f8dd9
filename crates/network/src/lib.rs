//! The booking network: venues, bookings, usage and payments, and peer networks.
//!
//! A network is an agent like any other: its intents are skills, their payloads are data parts, and a confirmed booking
//! is a task. So an envelope and a message in any dialect of A2A run the same code, and what must be true together is
//! one commit of the task log.
//!
//! | Module | Content |
//! |---|---|
//! | `venue` | the agent of the network |
//! | `intent` | requests, parsed strictly |
//! | `words` | requests in plain text |
//! | `answer` | results |
//! | `booking` | the transitions of a booking |
//! | `transition` | transitions by an operator |
//! | `payment` | payments, alone or with a booking |
//! | `billing` | sending metered usage to the biller |
//! | `errand` | calls to services that are no agents |
//! | `webhook` | notifications to subscribers |
//! | `import` | importing venues from a file |
//! | `patron` | the API key behind a caller |
//! | `card` | the skills of the network |
//! | `record`, `registry` | the records of networks, and the search for networks that cover a place |
//! | `via`, `route` | forwarding envelopes, and the routes to venues and networks |
//! | `federation` | keeping up with peer networks |

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
