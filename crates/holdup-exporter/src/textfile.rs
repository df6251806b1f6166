//! The same for node_exporter's textfile collector.

use crate::Exposed;
use holdup_live::Format;
use holdup_model::Problem;
use std::path::Path;

/// Writes the sums as they are now. A reader sees the file before or after, never half.
///
/// # Errors
/// When it cannot be written.
pub fn write(exposed: &Exposed, path: &Path) -> Result<(), Problem> {
    let bytes = exposed.render(Format::Text);
    holdup_files::write_output(path, &bytes).map_err(|e| {
        Problem::host(path.display().to_string(), e.to_string())
            .hint("the folder of node_exporter's --collector.textfile.directory, with a name that ends in .prom")
    })
}
