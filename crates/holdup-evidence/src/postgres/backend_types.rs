//! What PostgreSQL's processes are, by the server's major version.

/// In the order of `BackendType` (miscadmin.h), from 1 on: 0 is a process that is not set up.
const TYPES: [(u32, &[&str]); 5] = [
    (
        15,
        &[
            "autovacuum launcher",
            "autovacuum worker",
            "client backend",
            "background worker",
            "background writer",
            "checkpointer",
            "startup",
            "walreceiver",
            "walsender",
            "walwriter",
            "archiver",
            "logger",
        ],
    ),
    (
        16,
        &[
            "archiver",
            "autovacuum launcher",
            "autovacuum worker",
            "client backend",
            "background worker",
            "background writer",
            "checkpointer",
            "logger",
            "standalone backend",
            "startup",
            "walreceiver",
            "walsender",
            "walwriter",
        ],
    ),
    (
        17,
        &[
            "client backend",
            "autovacuum launcher",
            "autovacuum worker",
            "background worker",
            "walsender",
            "slotsync worker",
            "standalone backend",
            "archiver",
            "background writer",
            "checkpointer",
            "startup",
            "walreceiver",
            "walsummarizer",
            "walwriter",
            "logger",
        ],
    ),
    (18, SINCE_18),
    (19, SINCE_18),
];

const SINCE_18: &[&str] = &[
    "client backend",
    "dead-end client backend",
    "autovacuum launcher",
    "autovacuum worker",
    "background worker",
    "walsender",
    "slotsync worker",
    "standalone backend",
    "archiver",
    "background writer",
    "checkpointer",
    "io worker",
    "startup",
    "walreceiver",
    "walsummarizer",
    "walwriter",
    "logger",
];

/// What `backend_type` of `pg_stat_activity` says of a process with this `MyBackendType`; `background worker` where
/// that has the name that the worker gave itself. `None` where the version or the number is not known.
pub(crate) fn backend_type(major: u32, number: u32) -> Option<&'static str> {
    let (_, types) = TYPES.iter().find(|(of, _)| *of == major)?;
    types.get((number as usize).checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_another_process_in_another_version() {
        let fourth = [15, 16, 17, 18, 19].map(|major| backend_type(major, 4));
        let autovacuum = Some("autovacuum worker");
        assert_eq!(
            fourth,
            [Some("background worker"), Some("client backend"), Some("background worker"), autovacuum, autovacuum]
        );
        assert_eq!([backend_type(15, 0), backend_type(15, 13), backend_type(20, 1)], [None; 3]);
    }
}
