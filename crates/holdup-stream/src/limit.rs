//! How many files holdup may have open.

use holdup_model::Problem;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Standard streams, the store, sockets of namespaces, collectors: what is open beside the connections.
const OTHER_FILES: u64 = 256;

/// A raised limit on open files (RLIMIT_NOFILE), which is put back when this is dropped.
#[derive(Debug)]
pub(crate) struct FileLimit {
    before: Option<Rlimit>,
}

impl FileLimit {
    /// Makes sure that this number of connections, both ends of each, can be open: raises the soft limit up to the hard one,
    /// and the hard one where that is permitted.
    ///
    /// # Errors
    /// Of kind `Host`, with the limit, when it is too low.
    pub(crate) fn raise(connections: u64) -> Result<Self, Problem> {
        let files = 2 * connections + OTHER_FILES;
        let before = getrlimit(Resource::Nofile);
        let enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= files);
        if enough(before.current) {
            return Ok(FileLimit { before: None });
        }
        let maximum = if enough(before.maximum) { before.maximum } else { Some(files) };
        match setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum }) {
            Ok(()) => Ok(FileLimit { before: Some(before) }),
            Err(_) => {
                let limit = before.maximum.or(before.current).unwrap_or(0);
                Err(Problem::host(
                    format!("{connections} connections"),
                    format!(
                        "both ends of them take {files} open files with what else is open, and {limit} are allowed"
                    ),
                )
                .hint("raise the hard limit (ulimit -Hn, LimitNOFILE=), or take fewer"))
            }
        }
    }
}

impl Drop for FileLimit {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            // The soft limit first would do; what is refused here leaves a higher limit and no harm.
            let _back = setrlimit(Resource::Nofile, before);
        }
    }
}
