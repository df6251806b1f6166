//! Reading a page of a file that is in the page cache.

use super::bench::{on_cpu, pieces_ns, refused, repeats};
use super::samples::quiet;
use super::{Context, Cost, Samples};
use holdup_model::Problem;
use std::io::Write;
use std::os::unix::fs::FileExt;

pub(super) const COST: Cost = Cost {
    name: "pg_read_ns",
    docs: "pread(2) of 8 KB out of a file of 2 MB in the working directory that was just written, less syscall_ns, 10 \
           passes; what the server does around it is not in it",
    measure,
};

/// Bytes of a page of PostgreSQL.
pub(super) const PAGE_BYTES: usize = 8192;
const PAGES: u64 = 256;

fn measure(context: &Context) -> Result<Samples, Problem> {
    let syscall_ns = context.known("syscall_ns")?;
    let failed = refused("a file in the working directory");
    let mut file = tempfile::tempfile_in(&context.workdir).map_err(&failed)?;
    file.write_all(&vec![1; PAGE_BYTES * PAGES as usize]).map_err(&failed)?;
    on_cpu(context.cpu()?, || {
        let mut page = [0u8; PAGE_BYTES];
        repeats("reads of pages", || {
            let (mut at, mut result) = (0, Ok(()));
            let pieces = pieces_ns(10, PAGES as u32, || {
                if let Err(e) = file.read_exact_at(&mut page, at % PAGES * PAGE_BYTES as u64) {
                    result = Err(e);
                }
                at += 1;
            });
            result.map_err(&failed)?;
            Ok(quiet(pieces).map(|ns| ns - syscall_ns))
        })
    })
}
