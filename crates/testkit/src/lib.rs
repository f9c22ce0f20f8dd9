//! For tests only: the simulator, the store contracts, scripted agents and fake time.
//!
//! | Module | What is there |
//! |---|---|
//! | [`sim`] | the simulator: seeded crashes, lost replies, slow readers, full disks; and the checks that must hold |
//! | [`contract`] | the promises that every store must keep |
//! | [`agents`] | scripted agents, each doing one thing that an engine must handle |
//! | [`scripted_task`] | tasks built step by step without an engine, for tests of stores |
//! | [`host`], [`clock`], [`seeded_rng`] | fake time and seeded randomness |
//! | [`counting_log`], [`faulty_log`] | logs around logs: one counts what is written, one refuses or delays on demand |
//! | [`wait`](mod@wait) | waiting without a runtime |

pub mod agents;
pub mod clock;
pub mod contract;
pub mod counting_log;
pub mod faulty_log;
pub mod host;
pub mod scripted_task;
pub mod seeded_rng;
pub mod sim;
pub mod wait;
