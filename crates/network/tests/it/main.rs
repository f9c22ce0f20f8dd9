//! The network with everything around it but a server.

mod billing;
mod payments;
mod processors;
