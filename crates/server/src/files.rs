//! How many files this process may have open: every connection is one of them.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the number of files that may be open to what the system allows this process; how many that are, where it says.
///
/// The usual soft limit is for programs that cannot count beyond it. A server with it stops accepting after a thousand
/// connections in and out, whatever its own limits are. Commands of agents inherit it.
pub fn raise_file_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::warn!(%error, ?current, ?maximum, "the number of open files cannot be raised");
            current
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_files_may_be_open_as_the_system_allows() {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        // Lower first, as most systems have it; but not below what other tests have open.
        setrlimit(Resource::Nofile, Rlimit { current: Some(1024), maximum }).unwrap();
        assert_eq!(raise_file_limit(), maximum);
        assert_eq!(getrlimit(Resource::Nofile).current, maximum);
    }
}
