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
//! | `plain_text` | requests in plain text |
//! | `response` | results |
//! | `problem` | refusals of the guard, the ledger and the engine as problems of the network |
//! | `booking` | the transitions of a booking |
//! | `transition` | transitions by an operator |
//! | `payment` | payments, alone or with a booking |
//! | `billing` | sending metered usage to the biller |
//! | `service_transport` | calls to services that are no agents |
//! | `webhook` | notifications to subscribers |
//! | `import` | importing venues from a file |
//! | `envelope` | what the agent knows of the envelope around a request |
//! | `key_holder` | the API key behind a caller |
//! | `card` | the skills of the network |
//! | `record`, `registry` | the records of networks, and the search for networks that cover a place |
//! | `via`, `route` | forwarding envelopes, and the routes to venues and networks |
//! | `federation` | keeping up with peer networks |

pub mod billing;
pub mod booking;
mod card;
mod envelope;
pub mod federation;
pub mod import;
pub mod intent;
pub mod key_holder;
pub mod payment;
pub mod plain_text;
pub mod problem;
pub mod record;
pub mod registry;
pub mod response;
pub mod route;
mod service_transport;
mod transition;
mod venue;
pub mod via;
pub mod webhook;

pub use card::{skill, skills};
pub use envelope::{EnvelopeCall, PendingRecord, Recipient};
pub use key_holder::{KeyHolder, KeyHolderDirectory, NoKeyHolders};
pub use service_transport::ServiceTransport;
pub use transition::{BookingAdmin, TransitionError};
pub use venue::{BOOKING, CONFIRM_CENTS, NetworkAgent, NetworkTerms};
