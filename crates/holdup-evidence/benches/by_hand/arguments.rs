//! What the bench `watching` was asked for.

use crate::observers::ALL;
use std::path::PathBuf;

/// What to run, and how long.
#[derive(Debug, Clone)]
pub(crate) struct Arguments {
    pub(crate) loads: Vec<String>,
    pub(crate) observers: Vec<String>,
    pub(crate) blocks: u32,
    pub(crate) seconds: f64,
    /// Clients of pgbench.
    pub(crate) clients: u32,
    /// Groups of hackbench, 40 tasks each.
    pub(crate) groups: u32,
    pub(crate) seed: u64,
    /// Programs that are not packages of a distribution.
    pub(crate) rezolus: PathBuf,
    pub(crate) wprof: PathBuf,
    /// For the exporter: the release, or this build.
    pub(crate) holdup: PathBuf,
    pub(crate) pg_bin: PathBuf,
    /// Each trial's numbers, as lines of tab-separated values.
    pub(crate) raw: Option<PathBuf>,
}

pub(crate) const USAGE: &str = "--loads LOAD,… --observers OBSERVER,… --blocks N --seconds S --clients N --groups N \
                                --seed N --rezolus PROGRAM --wprof PROGRAM --holdup PROGRAM --pg-bin FOLDER --raw FILE";

impl Arguments {
    /// From the command line; Cargo's own `--bench` is passed over.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut a = Arguments {
            loads: ["pgbench", "hackbench"].map(str::to_owned).to_vec(),
            observers: ALL.map(str::to_owned).to_vec(),
            blocks: 10,
            seconds: 3.0,
            clients: 32,
            groups: 10,
            seed: 1,
            rezolus: "rezolus".into(),
            wprof: "wprof".into(),
            holdup: "holdup".into(),
            pg_bin: "/usr/lib/postgresql/15/bin".into(),
            raw: None,
        };
        while let Some(word) = words.next() {
            if word == "--bench" {
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{word} needs a value; {USAGE}"))?;
            let number = || value.parse::<u32>().map_err(|_| format!("{word} needs a number, not {value}"));
            let list = || value.split(',').map(str::to_owned).collect::<Vec<String>>();
            match word.as_str() {
                "--loads" => a.loads = list(),
                "--observers" => a.observers = list(),
                "--blocks" => a.blocks = number()?,
                "--seconds" => {
                    a.seconds = value.parse().map_err(|_| format!("--seconds needs a number, not {value}"))?;
                }
                "--clients" => a.clients = number()?,
                "--groups" => a.groups = number()?,
                "--seed" => a.seed = number()?.into(),
                "--rezolus" => a.rezolus = value.into(),
                "--wprof" => a.wprof = value.into(),
                "--holdup" => a.holdup = value.into(),
                "--pg-bin" => a.pg_bin = value.into(),
                "--raw" => a.raw = Some(value.into()),
                _ => return Err(format!("{word} is not known; {USAGE}")),
            }
        }
        // What all others are compared with; the second is the bench's own noise.
        a.observers.retain(|name| name != "none");
        Ok(a)
    }
}
