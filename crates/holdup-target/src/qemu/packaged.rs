//! PostgreSQL from Debian's packages.

use holdup_guest::image::PostgresFiles;
use holdup_kernels::{Cache, Options};
use holdup_model::{Observer, Problem};

/// The files of a version of PostgreSQL, fetched where it is not cached.
///
/// # Errors
/// When no suite has it, or it cannot be fetched; offline, when it is not cached.
pub(super) fn postgres(
    version: &str,
    cache: &Cache,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<PostgresFiles, Problem> {
    let postgres = holdup_kernels::postgres(version, cache, options, observer)?;
    Ok(PostgresFiles::Root { root: postgres.root, bin: postgres.bin })
}
