//! Exit codes: what each number means, in one place.

use std::process::ExitCode;

/// How the process ends. The numbers up to 5 are the CLI specification's, those from 10 are for
/// `--fail-on`, and 130 is the shell's word for Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The tool did its job and reported the answer, whatever the answer was.
    Done,
    /// The command failed, and no more precise status fits.
    Failed,
    /// Bad argument, flag or combination.
    Usage,
    /// The agent or its card cannot be reached.
    Unreachable,
    /// A credential is missing or was refused.
    Auth,
    /// `--timeout` ran out.
    Timeout,
    /// Ctrl-C.
    Interrupted,
    /// The task ended, or paused, in a state that `--fail-on` names.
    TaskFailed,
    TaskRejected,
    TaskInputRequired,
    TaskAuthRequired,
    TaskCanceled,
}

/// The states that `--fail-on` takes, with the exit status of each.
const STATES: [(&str, &str, Exit); 5] = [
    ("failed", "TASK_STATE_FAILED", Exit::TaskFailed),
    ("rejected", "TASK_STATE_REJECTED", Exit::TaskRejected),
    ("input-required", "TASK_STATE_INPUT_REQUIRED", Exit::TaskInputRequired),
    ("auth-required", "TASK_STATE_AUTH_REQUIRED", Exit::TaskAuthRequired),
    ("canceled", "TASK_STATE_CANCELED", Exit::TaskCanceled),
];
/// The word of `--fail-on` that means every state in `STATES`.
const ANY_STATE: &str = "any";

impl Exit {
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Unreachable => 3,
            Self::Auth => 4,
            Self::Timeout => 5,
            Self::Interrupted => 130,
            Self::TaskFailed => 10,
            Self::TaskRejected => 11,
            Self::TaskInputRequired => 12,
            Self::TaskAuthRequired => 13,
            Self::TaskCanceled => 14,
        }
    }

    /// The exit status that `--fail-on` gives a state, by its name on the wire.
    pub(crate) fn of_state(state: &str) -> Option<Self> {
        STATES.iter().find(|(_, wire, _)| *wire == state).map(|(_, _, exit)| *exit)
    }

    /// Whether a word of `--fail-on` means this status.
    pub(crate) fn is_named(self, word: &str) -> bool {
        word == ANY_STATE || STATES.iter().any(|(name, _, exit)| *name == word && *exit == self)
    }

    /// What is wrong with a list of states, as `--fail-on` takes it.
    pub(crate) fn check_states(list: &str) -> Result<(), String> {
        let known = |word: &str| word == ANY_STATE || STATES.iter().any(|(name, _, _)| *name == word);
        if list.split(',').all(|word| known(word.trim())) {
            return Ok(());
        }
        let names: Vec<&str> = STATES.iter().map(|(name, _, _)| *name).collect();
        Err(format!("the states are {} and {ANY_STATE}", names.join(", ")))
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}
