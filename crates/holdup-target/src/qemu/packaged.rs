//! PostgreSQL from packages.

use holdup_guest::image::PostgresFiles;
use holdup_kernels::{Cache, Options};
use holdup_model::{Observer, Problem};

pub(super) fn postgres(
    _major: &str,
    _cache: &Cache,
    _options: &Options,
    _observer: &mut dyn Observer,
) -> Result<PostgresFiles, Problem> {
    Err(Problem::internal("x", "y"))
}
