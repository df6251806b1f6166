//! Flushing the log.

use super::bench::{each_ns, on_cpu, refused, repeats};
use super::pg_read::PAGE_BYTES;
use super::samples::middle;
use super::{Context, Cost, Samples};
use holdup_model::Problem;
use std::io::Write;
use std::os::unix::fs::FileExt;

pub(super) const COST: Cost = Cost {
    name: "pg_flush_ns",
    docs: "fdatasync(2) after 8 KB were written over a part of a file of 1 MB in the working directory, the middle of 5 in a \
           repeat; a server's log may lie on another device",
    measure,
};

const PAGES: u64 = 128;

fn measure(context: &Context) -> Result<Samples, Problem> {
    let failed = refused("a file in the working directory");
    let mut file = tempfile::tempfile_in(&context.workdir).map_err(&failed)?;
    let page = [1u8; PAGE_BYTES];
    file.write_all(&page.repeat(PAGES as usize)).and_then(|()| file.sync_all()).map_err(&failed)?;
    on_cpu(context.cpu()?, || {
        let mut at = 0;
        repeats("flushes", || {
            let mut pieces = Vec::with_capacity(5);
            for _ in 0..5 {
                file.write_all_at(&page, at % PAGES * PAGE_BYTES as u64).map_err(&failed)?;
                at += 1;
                let mut result = Ok(());
                pieces.push(each_ns(1, || result = file.sync_data()));
                result.map_err(&failed)?;
            }
            Ok(middle(pieces))
        })
    })
}
