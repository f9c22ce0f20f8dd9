//! Exit codes: what each number means, in one place.

use std::process::ExitCode;

/// How the process ends. The numbers are the CLI specification's; 130 is the shell's word for Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The tool did its job and reported the answer, whatever the answer was.
    Done,
    /// It could not, and nothing more precise fits.
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
}

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
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}
