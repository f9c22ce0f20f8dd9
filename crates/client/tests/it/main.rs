//! What the client promises, seen from the other end of the wire: every server here is a script of bytes.

mod cards;
mod credentials;
mod delegation;
mod repeats;
mod streams;
mod stub;
mod waits;
