//! The tools whose results can be read: one file each, and its line in [`KINDS`].

mod benchbase;
mod criterion;
mod cyclictest;
mod fio;
mod go_bench;
mod google_benchmark;
mod hackbench;
mod hammerdb;
mod hyperfine;
mod iperf3;
mod jmh;
mod kernel_bench;
mod lkp_tests;
mod mmtests;
mod netperf;
mod perf_bench;
mod pgbench;
mod phoronix;
mod schbench;
mod sockperf;
mod stress_ng;
mod sysbench;
mod uperf;

use crate::{Input, Results};
use holdup_model::{Direction, Meta, Metric, Problem};

/// A tool whose results can be read.
pub struct Kind {
    /// What it says about itself.
    pub meta: Meta,
    /// True if the begin of a file looks like it.
    pub(crate) looks_like: fn(&str) -> bool,
    /// Reads a file.
    pub(crate) read: fn(&mut Input<'_>) -> Result<Results, Problem>,
    /// How a folder of its files is read.
    pub(crate) folder: Option<Folder>,
}

impl Kind {
    /// True if a file of a folder is read with it; `path` is relative to the folder.
    ///
    /// # Errors
    /// When a folder of this tool has no meaning.
    pub fn holds(&self, folder: &str, path: &str) -> Result<bool, Problem> {
        let Some(of) = &self.folder else {
            return Err(Problem::usage(folder, format!("a folder, and results of {} are files", self.meta.id))
                .hint("name the files"));
        };
        let end = [".gz", ".zst", ".xz"].iter().find_map(|end| path.strip_suffix(end));
        Ok((of.holds)(end.unwrap_or(path)))
    }
}

/// A folder of results.
pub(crate) struct Folder {
    /// True if the file at this path in it is read; the end of a compressed file is left out.
    pub(crate) holds: fn(&str) -> bool,
    /// The kinds that its files may be of, besides its own.
    pub(crate) parts: &'static [&'static str],
    /// One run or several of its files, each with its path in the folder.
    pub(crate) join: fn(Vec<(String, Results)>) -> Results,
}

/// Every file stands for itself.
pub(crate) fn each(files: Vec<(String, Results)>) -> Results {
    files.into_iter().map(|(_, results)| results).collect()
}

pub static KINDS: &[Kind] = &[
    benchbase::KIND,
    criterion::KIND,
    cyclictest::KIND,
    fio::KIND,
    go_bench::KIND,
    google_benchmark::KIND,
    hackbench::KIND,
    hammerdb::KIND,
    hyperfine::KIND,
    iperf3::KIND,
    jmh::KIND,
    kernel_bench::KIND,
    lkp_tests::KIND,
    mmtests::KIND,
    netperf::KIND,
    perf_bench::KIND,
    pgbench::KIND,
    phoronix::KIND,
    schbench::KIND,
    sockperf::KIND,
    stress_ng::KIND,
    sysbench::KIND,
    uperf::KIND,
];

pub fn find(id: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.meta.id == id)
}

/// A name of a tool as the id of a metric.
pub(crate) fn id_of(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// A metric of a tool.
pub(crate) fn metric(id: &str, unit: &str, better: Direction, summary: &str) -> Metric {
    Metric { id: id.to_owned(), unit: unit.to_owned(), better, summary: summary.to_owned() }
}
