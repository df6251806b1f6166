//! The parts of the host in memory that are one file of the kernel each: a table, and how the files answer to writes.

use holdup_host::fake::MemoryFs;
use holdup_model::Value;
use std::sync::{LazyLock, Mutex};

use super::{AUTOGROUP, HUGE_PAGES, MIGRATION_COST};

pub const BASE_SLICE: &str = "/sys/kernel/debug/sched/base_slice_ns";
pub const PREEMPT: &str = "/sys/kernel/debug/sched/preempt";
pub const FEATURES: &str = "/sys/kernel/debug/sched/features";
const FEATURES_AT_FIRST: &str = "PLACE_LAG RUN_TO_PARITY NO_NEXT_BUDDY WAKEUP_PREEMPTION NO_HRTICK NO_HRTICK_DL \n";

/// A factor that is one file of the kernel.
pub struct InFile {
    pub factor: &'static str,
    pub path: &'static str,
    /// What the file holds at first.
    pub content: &'static str,
    pub levels: [Value; 2],
    /// What someone else sets, and how a report names it. `None` where holdup and the kernel have all values between
    /// them, so that another writer's cannot be distinguished.
    pub foreign: Option<(&'static str, &'static str)>,
}

/// Every factor that is one file of the kernel. Made once: the sweeps ask for it at every step.
pub fn in_files() -> &'static [InFile] {
    static TABLE: LazyLock<Vec<InFile>> = LazyLock::new(table);
    &TABLE
}

fn table() -> Vec<InFile> {
    let number = |factor, path, content, levels: [i64; 2]| InFile {
        factor,
        path,
        content,
        levels: levels.map(Value::Integer),
        foreign: Some(("777\n", "777")),
    };
    let switch = |factor, path, content, levels: [bool; 2]| InFile {
        factor,
        path,
        content,
        levels: levels.map(Value::Bool),
        foreign: None,
    };
    vec![
        switch("autogroup", AUTOGROUP, "1\n", [false, false]),
        number("migration-cost", MIGRATION_COST, "500000\n", [5_000_000, 0]),
        // Fewer than the memory holds, because putting them back asks whether they fit.
        InFile { foreign: Some(("99\n", "99")), ..number("huge-pages-reserved", HUGE_PAGES, "1\n", [6, 3]) },
        number("base-slice", BASE_SLICE, "2100000\n", [4_000_000, 100_000]),
        number("nr-migrate", "/sys/kernel/debug/sched/nr_migrate", "32\n", [128, 8]),
        number("rseq-slice-length", "/sys/kernel/debug/rseq/slice_ext_nsec", "5000\n", [50_000, 20_000]),
        InFile {
            factor: "preempt",
            path: PREEMPT,
            content: "none voluntary full (lazy) \n",
            levels: ["full", "none"].map(Value::from),
            foreign: Some(("none (voluntary) full lazy \n", "voluntary")),
        },
        // Two knobs of one file, one that begins on and one that begins off.
        switch("sched-feature.RUN_TO_PARITY", FEATURES, FEATURES_AT_FIRST, [false, true]),
        switch("hrtick", FEATURES, FEATURES_AT_FIRST, [true, false]),
    ]
}

/// Puts the files there.
pub(super) fn put(fs: &MemoryFs) {
    for file in in_files() {
        fs.put(file.path, file.content);
    }
    answer_as_the_kernel_does(fs);
}

/// Whether two factors are in the same file.
pub(super) fn share_a_file(one: &str, other: &str) -> bool {
    let path = |factor: &str| in_files().iter().find(|f| f.factor == factor).map(|f| f.path);
    path(one).is_some_and(|path_of_one| path(other) == Some(path_of_one))
}

/// What is in force of a factor; `None` for one of another kind.
pub(super) fn state(fs: &MemoryFs, factor: &str) -> Option<String> {
    let file = in_files().iter().find(|f| f.factor == factor)?;
    Some(shown(factor, &fs.get(file.path).unwrap_or_default()))
}

/// What someone else does to a factor; gives the value as a report should name it.
pub(super) fn foreign(fs: &MemoryFs, factor: &str) -> Option<&'static str> {
    let file = in_files().iter().find(|f| f.factor == factor)?;
    let Some((content, named)) = file.foreign else { return Some("") };
    fs.put(file.path, content);
    Some(named)
}

/// What is in force by the text of a file: the word in parentheses, the word of a feature, or the only one.
fn shown(factor: &str, text: &str) -> String {
    let feature = if factor == "hrtick" { Some("HRTICK") } else { factor.strip_prefix("sched-feature.") };
    let mut words = text.split_whitespace();
    let found = match feature {
        Some(name) => words.find(|word| word.strip_prefix("NO_").unwrap_or(word) == name),
        None => words.clone().find(|word| word.starts_with('(')).or_else(|| words.next()),
    };
    found.unwrap_or_default().trim_matches(['(', ')']).to_owned()
}

/// Lets the files answer to writes as the kernel does: they do not show what was written but what came of it.
fn answer_as_the_kernel_does(fs: &MemoryFs) {
    fs.on_write(PREEMPT, |bytes| {
        let wanted = String::from_utf8_lossy(bytes).trim().to_owned();
        let models = ["none", "voluntary", "full", "lazy"];
        if !models.contains(&wanted.as_str()) {
            return Err(std::io::Error::from_raw_os_error(libc::EINVAL));
        }
        let shown = models.map(|model| if model == wanted { format!("({model}) ") } else { format!("{model} ") });
        Ok(format!("{}\n", shown.concat()).into_bytes())
    });
    let words = Mutex::new(FEATURES_AT_FIRST.to_owned());
    fs.on_write(FEATURES, move |bytes| {
        let wanted = String::from_utf8_lossy(bytes).trim().to_owned();
        let plain = |word: &str| word.strip_prefix("NO_").unwrap_or(word).to_owned();
        let mut words = words.lock().unwrap();
        if !words.split_whitespace().any(|word| plain(word) == plain(&wanted)) {
            return Err(std::io::Error::from_raw_os_error(libc::EINVAL));
        }
        let now =
            words.split_whitespace().map(|w| if plain(w) == plain(&wanted) { wanted.clone() } else { w.to_owned() });
        *words = now.map(|word| word + " ").collect::<String>() + "\n";
        Ok(words.clone().into_bytes())
    });
}
