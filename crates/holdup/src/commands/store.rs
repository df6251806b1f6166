//! `holdup store`: keeps bundles in a folder or in PostgreSQL, and gives them back.

use crate::output;
use clap::Subcommand;
use holdup_model::Problem;
use holdup_model::foreign::line;
use holdup_model::kept::KeptFilter;
use holdup_model::text::count;
use holdup_store::{Incoming, Place, Pushed, Store, VARIABLE};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Keep bundles in a folder or in PostgreSQL, and get them back
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
A store is a folder, or a database: postgresql://USER@HOST/DATABASE, or words
such as service=lab. $HOLDUP_STORE names it where --store does not.

Examples:
  holdup store init --store postgresql://db1/results
  holdup store push --store results *.holdup
  holdup store list --store results --plan demo --last 20
  holdup store pull --store results 4f2a91c0 --out old.holdup
  holdup store prune --store results --older-than 180d --dry-run

Exit codes:
  0  done
  2  wrong command line
  3  the store or a bundle cannot be used")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    store: StoreArg,
}

// The store.
#[derive(Debug, clap::Args)]
pub(super) struct StoreArg {
    /// The store: a folder, or a connection to PostgreSQL
    #[arg(long, value_name = "DIR|URL", env = VARIABLE, hide_env = true, global = true)]
    store: Option<String>,
}

impl StoreArg {
    /// Opens it.
    ///
    /// # Errors
    /// When none is named, or it cannot be reached.
    pub(super) fn open(&self) -> Result<Box<dyn Store>, Problem> {
        open(self.store.as_deref())
    }
}

/// Opens a store that is named.
///
/// # Errors
/// As for [`StoreArg::open`].
pub(super) fn open(named: Option<&str>) -> Result<Box<dyn Store>, Problem> {
    let named = named.filter(|text| !text.is_empty()).ok_or_else(|| {
        Problem::usage("the store", "none is named")
            .hint(format!("give --store DIR, --store postgresql://HOST/DATABASE, or set {VARIABLE}"))
    })?;
    let mut store = holdup_store::open(&Place::of(named)?)?;
    store.say_with(output::say);
    Ok(store)
}

/// Says which files of a store could not be read.
pub(super) fn say_left_out(store: &dyn Store) {
    store.left_out().iter().for_each(|left_out| output::say(&line(left_out)));
}

#[derive(Debug, Subcommand)]
enum What {
    /// Keep bundles; those that are there stay as they are
    Push {
        /// The bundles
        #[arg(value_name = "FILE.holdup", required = true)]
        files: Vec<PathBuf>,
        /// The host's name, where the bundles do not have it
        #[arg(long, value_name = "NAME")]
        host: Option<String>,
    },
    /// Write the bundle of a run
    Pull {
        /// The run, or how its id begins
        run: String,
        /// Write this file [default: RUN.holdup]
        #[arg(short, long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// List the runs, newest first
    List(List),
    /// Make the store, or bring an older one up to date
    Init,
    /// Remove old runs
    Prune {
        /// Remove runs that were begun longer ago, such as 180d
        #[arg(long, value_name = "TIME", value_parser = age)]
        older_than: Duration,
        /// Only list them
        #[arg(short = 'n', long)]
        dry_run: bool,
    },
}

// What is listed.
#[derive(Debug, clap::Args)]
struct List {
    #[command(flatten)]
    filter: FilterArgs,
    /// Print everything instead of one screen
    #[arg(long)]
    details: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

// Which runs.
#[derive(Debug, clap::Args)]
pub(super) struct FilterArgs {
    /// Only runs of this plan
    #[arg(long, value_name = "NAME")]
    pub(super) plan: Option<String>,
    /// Only runs of this host
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Only runs begun since, such as 30d
    #[arg(long, value_name = "TIME", value_parser = age)]
    since: Option<Duration>,
    /// Only the newest N runs
    #[arg(long, value_name = "N")]
    last: Option<usize>,
}

impl FilterArgs {
    /// What the store is asked for.
    pub(super) fn filter(&self, plan: Option<String>) -> KeptFilter {
        KeptFilter {
            plan: plan.or_else(|| self.plan.clone()),
            host: self.host.clone(),
            since_unix_ns: self.since.map(ago),
            last: self.last,
            ..KeptFilter::default()
        }
    }
}

/// A duration with days and weeks: `180d`, `26w`, `12h`.
pub(super) fn age(text: &str) -> Result<Duration, String> {
    let days = |number: &str, days: u64| {
        let number: u64 = number.parse().map_err(|_| "not a number of days such as 180d".to_owned())?;
        Ok(Duration::from_secs(number.saturating_mul(days).saturating_mul(86_400)))
    };
    match (text.strip_suffix('d'), text.strip_suffix('w')) {
        (Some(number), _) => days(number, 1),
        (_, Some(number)) => days(number, 7),
        _ => crate::cli::duration(text).map_err(|_| "not a time such as 180d, 26w or 12h".to_owned()),
    }
}

/// Then, ns since 1970.
fn ago(age: Duration) -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.saturating_sub(age).as_nanos()).unwrap_or(i64::MAX)
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let mut store = args.store.open()?;
    let store = store.as_mut();
    match &args.what {
        What::Push { files, host } => return push(store, files, host.as_deref()),
        What::Pull { run, out } => pull(store, run, out.as_ref())?,
        What::List(list) => {
            let runs = store.list(&list.filter.filter(None))?;
            say_left_out(&*store);
            output::data(&match list.json {
                true => holdup_report::kept_list_json(&runs),
                false => holdup_report::kept_list(&runs, &output::terminal(list.details)),
            })?;
        }
        What::Init => store.init()?.iter().for_each(|sentence| output::say(sentence)),
        What::Prune { older_than, dry_run } => {
            let gone = store.prune(ago(*older_than), *dry_run)?;
            output::data(&holdup_report::kept_list(&gone, &output::terminal(false)))?;
            let done = if *dry_run { "would be removed" } else { "removed" };
            output::say(&format!("{} {done}", count(gone.len(), "run")));
        }
    }
    Ok(0)
}

/// Keeps bundles one by one: one that cannot be kept does not stop the others.
fn push(store: &mut dyn Store, files: &[PathBuf], host: Option<&str>) -> anyhow::Result<u8> {
    let (mut new, mut there, mut replaced) = (0, 0, 0);
    let mut failed = Vec::new();
    for file in files {
        match Incoming::read(file, host).and_then(|bundle| store.push(&bundle)) {
            Ok(Pushed::New) => new += 1,
            Ok(Pushed::There) => there += 1,
            Ok(Pushed::Replaced) => replaced += 1,
            Err(problem) => {
                output::problem(&problem);
                failed.push(problem);
            }
        }
    }
    let kept = |n: usize, how: &str| (n > 0).then(|| format!("{} {how}", count(n, "run")));
    let parts = [
        kept(new, "pushed"),
        kept(replaced, "replaced by a bundle with more trials"),
        kept(there, "there already"),
        kept(failed.len(), "not kept"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    output::say(&parts.join(", "));
    Ok(failed.first().map_or(0, |problem| problem.kind.exit_code()))
}

fn pull(store: &mut dyn Store, run: &str, out: Option<&PathBuf>) -> Result<(), Problem> {
    let found = holdup_store::find(store, run)?;
    let bytes = store.pull(&found.run_id)?;
    // The store says the id, and not where a file is made.
    let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let default = || PathBuf::from(format!("{}.holdup", found.run_id.chars().take(8).map(safe).collect::<String>()));
    let path = out.cloned().unwrap_or_else(default);
    if path.symlink_metadata().is_ok() {
        return Err(Problem::usage(format!("cannot write {}", path.display()), "it exists")
            .hint("name another file with --out"));
    }
    holdup_files::write_output(&path, &bytes)
        .map_err(|e| Problem::usage(format!("cannot write {}", path.display()), e.to_string()))?;
    output::say(&format!(
        "bundle: {} ({}, {})",
        path.display(),
        line(&found.plan),
        count(found.trials_done as usize, "trial")
    ));
    Ok(())
}
