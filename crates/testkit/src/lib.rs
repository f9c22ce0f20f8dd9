//! For tests only: everything that lets a test own the world.
//!
//! | Room | What is there |
//! |---|---|
//! | [`sim`] | the simulator: seeded crashes, lost replies, slow readers, full disks; and what must hold all the same |
//! | [`contract`] | what every store must keep before it may call itself one |
//! | [`agents`] | scripted agents, each doing one thing that an engine has to cope with |
//! | [`story`] | tasks told by hand, step by step, for tests of stores |
//! | [`host`], [`clock`], [`chance`] | fake time and seeded randomness |
//! | [`counting`], [`fickle`] | logs around logs: one weighs what is written, one refuses or dawdles on demand |
//! | [`wait`](mod@wait) | waiting without a runtime |

pub mod agents;
pub mod chance;
pub mod clock;
pub mod contract;
pub mod counting;
pub mod fickle;
pub mod host;
pub mod sim;
pub mod story;
pub mod wait;
