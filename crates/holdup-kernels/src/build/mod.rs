//! Kernels that are built here.

use crate::{BuildSpec, Cache, Kernel, Options};
use holdup_model::{Observer, Problem};

/// Builds a kernel.
///
/// # Errors
/// Always: build specs are made elsewhere.
pub fn build(
    spec: &BuildSpec,
    _cache: &Cache,
    _options: &Options,
    _observer: &mut dyn Observer,
) -> Result<Kernel, Problem> {
    Err(Problem::usage(format!("kernel `{spec}`"), "this holdup builds no kernels"))
}
