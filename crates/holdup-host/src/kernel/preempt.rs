//! The preemption model in force: every source is read, and the best one that names a model counts.
//!
//! What the sources say is parsed by `holdup_model::preempt`; their limits stand at each of them here.

use super::{KernelFacts, all_asked_for};
use crate::Host;
use crate::text::{one_line, shown};
use holdup_model::preempt::{
    DYNAMIC_NAMED_SINCE, DYNAMIC_SINCE, DynamicModels, LAZY_SINCE, RESTRICTED_SINCE, VersionFlag,
};
use holdup_model::survey::{PreemptSource, Preemption, Reading};
use holdup_model::{KernelVersion, PreemptModel};

const DEBUGFS: &str = "/sys/kernel/debug/sched/preempt";
/// Where it was in 5.12.
const DEBUGFS_5_12: &str = "/sys/kernel/debug/sched_preempt";
const LOG: &str = "the kernel's log";
const REALTIME: &str = "/sys/kernel/realtime";
const VERSION: &str = "/proc/version";
const COMMAND_LINE: &str = "/proc/cmdline";

/// The model in force, with all its sources.
pub fn preemption(host: &Host, kernel: &KernelFacts) -> Preemption {
    let words = kernel.command_line.get().map_or_else(Vec::new, |line| all_asked_for(line, "preempt"));
    let path = if host.exists(DEBUGFS_5_12) { DEBUGFS_5_12 } else { DEBUGFS };
    let debugfs = one_line(host, path);
    let choices = choices(kernel, &debugfs);
    let refusal = |word: &str| why_refused(word, &choices, kernel, &debugfs);
    // The kernel sets the model at each word that it takes and ignores the others, so the last one taken holds.
    let taken = words.iter().copied().rfind(|word| refusal(word).is_none());
    let refused = words.last().and_then(|word| refusal(word));
    let asked = words.last().map(|word| shown(word));
    let mut sources: Vec<PreemptSource> = realtime(host).into_iter().collect();
    sources.extend([
        in_debugfs(&debugfs),
        in_log(host),
        as_booted(kernel, asked.as_deref(), taken, refused.as_deref(), &choices),
        as_built(kernel, taken, &choices),
        in_version(host, kernel),
    ]);
    let model = decide(&sources, kernel);
    let disagreement = model.get().and_then(|model| disagreement(*model, best(&sources)?, &sources));
    Preemption { model, choices, asked, refused, sources, disagreement }
}

fn decide(sources: &[PreemptSource], kernel: &KernelFacts) -> Reading<PreemptModel> {
    if let Some(best) = best(sources) {
        return Reading::found(best.says[0], best.source.clone());
    }
    let notes: Vec<String> = sources.iter().map(|s| format!("{}: {}", s.source, s.note)).collect();
    let is_closed = kernel.lockdown.get().is_some_and(|state| state != "none");
    Reading::unknown(DEBUGFS, notes.join("; ")).but(if is_closed {
        "run `holdup check --probe`, which measures it: the kernel is locked down, which closes debugfs also to root"
    } else {
        "run holdup as root, or `holdup check --probe`, which measures it"
    })
}

/// The first source that names one model alone. A real-time kernel can be switched between full and lazy as well, so a
/// source that names PREEMPT_RT comes first. An unknown model before the first known one leaves the question open: the
/// sources behind it name the default at best.
fn best(sources: &[PreemptSource]) -> Option<&PreemptSource> {
    let realtime = sources.iter().find(|s| s.says == [PreemptModel::Rt]);
    let is_unknown = |s: &PreemptSource| s.note.starts_with(UNKNOWN_MODEL);
    realtime.or_else(|| sources.iter().find(|s| s.says.len() == 1 || is_unknown(s)).filter(|s| !is_unknown(s)))
}

/// How the note of a source begins that names a model which is unknown here.
const UNKNOWN_MODEL: &str = "a model that this holdup does not know: ";

/// The sources that exclude what the best one names.
fn disagreement(model: PreemptModel, best: &PreemptSource, sources: &[PreemptSource]) -> Option<String> {
    if model == PreemptModel::Rt {
        return None;
    }
    let others: Vec<String> = sources
        .iter()
        .filter(|s| !s.says.is_empty() && !s.says.contains(&model))
        .map(|s| format!("{} says {}", s.source, words(&s.says, " or ")))
        .collect();
    let others = others.join("; ");
    (!others.is_empty()).then(|| format!("{} says {}, which counts; {others}", best.source, model.word()))
}

fn words(models: &[PreemptModel], between: &str) -> String {
    models.iter().map(|m| m.word()).collect::<Vec<_>>().join(between)
}

fn source(source: &str, says: &[PreemptModel], note: impl Into<String>) -> PreemptSource {
    PreemptSource { source: source.to_owned(), says: says.to_vec(), note: note.into() }
}

/// The file exists in PREEMPT_RT's patch set only, and not in mainline.
fn realtime(host: &Host) -> Option<PreemptSource> {
    let value = host.read_value(REALTIME).ok()?;
    (value == "1").then(|| source(REALTIME, &[PreemptModel::Rt], "1"))
}

fn in_debugfs(file: &Reading<String>) -> PreemptSource {
    let Some(text) = file.get() else {
        return source(&file.source, &[], file.why_unknown.clone().unwrap_or_default());
    };
    match DynamicModels::parse(text).map(|models| PreemptModel::of_word(models.active)) {
        Some(Some(model)) => source(&file.source, &[model], shown(text)),
        Some(None) => source(&file.source, &[], format!("{UNKNOWN_MODEL}{}", shown(text))),
        None => source(&file.source, &[], format!("no model of `{}` is in parentheses", shown(text))),
    }
}

/// The last line of the log that names a model. The ring buffer may have lost it.
fn in_log(host: &Host) -> PreemptSource {
    match host.kernel_log() {
        Err(e) => source(LOG, &[], e.message),
        Ok(log) => match log.lines().rev().find_map(|line| PreemptModel::in_log(line).map(|model| (model, line))) {
            Some((Ok(model), line)) => source(LOG, &[model], shown(line.trim())),
            Some((Err(line), _)) => source(LOG, &[], format!("{UNKNOWN_MODEL}{}", shown(line.trim()))),
            None => source(LOG, &[], "no line `Dynamic Preempt: …` and no stack dump in it (any more)"),
        },
    }
}

/// `preempt=`, where this kernel heeds it: `asked` is the last word, `taken` the last that is not known to be refused,
/// `refused` why the last one is.
fn as_booted(
    kernel: &KernelFacts,
    asked: Option<&str>,
    taken: Option<&str>,
    refused: Option<&str>,
    choices: &Reading<Vec<PreemptModel>>,
) -> PreemptSource {
    let Some(asked) = asked else {
        let note = kernel.command_line.why_unknown.as_deref().unwrap_or("no preempt= on it");
        return source(COMMAND_LINE, &[], note);
    };
    let in_vain = refused.map(|why| format!("preempt={asked} has no effect: {why}"));
    let Some(taken) = taken else {
        return source(COMMAND_LINE, &[], in_vain.unwrap_or_default());
    };
    let behind = in_vain.map_or_else(String::new, |why| format!("; the later {why}"));
    let word = shown(taken);
    match (PreemptModel::of_word(taken), choices.get()) {
        (Some(model), Some(_)) => source(COMMAND_LINE, &[model], format!("preempt={word}{behind}")),
        _ => source(
            COMMAND_LINE,
            &[],
            format!("preempt={word} is asked for; whether this kernel heeds it is not known{behind}"),
        ),
    }
}

/// Why a word of the command line had no effect; `None` when it had, or when that is not known.
fn why_refused(
    word: &str,
    choices: &Reading<Vec<PreemptModel>>,
    kernel: &KernelFacts,
    debugfs: &Reading<String>,
) -> Option<String> {
    let Some(model) = PreemptModel::of_word(word) else {
        // A kernel outside the table, or one with patches, may have other models.
        let offered = debugfs.get().and_then(|text| DynamicModels::parse(text));
        let is_offered = offered.is_some_and(|models| models.offered.contains(&word));
        let is_read = kernel.version.value().is_some_and(KernelVersion::is_read);
        return (is_read && !is_offered).then(|| format!("`{}` is no model", shown(word)));
    };
    let choices = choices.get()?;
    if choices.len() <= 1 {
        return Some("this kernel was built without PREEMPT_DYNAMIC, so its model is fixed".to_owned());
    }
    if choices.contains(&model) {
        return None;
    }
    let is_realtime = kernel.option("CONFIG_PREEMPT_RT").value() == Some(true);
    let is_restricted = kernel.version.get().is_some_and(|version| *version >= RESTRICTED_SINCE) && !is_realtime;
    let since = if is_restricted { format!(" since {RESTRICTED_SINCE}") } else { String::new() };
    Some(format!("this kernel offers {} only{since}", words(choices, " and ")))
}

/// The models that can be set at boot or run time; one where it is fixed.
fn choices(kernel: &KernelFacts, debugfs: &Reading<String>) -> Reading<Vec<PreemptModel>> {
    if let Some(offered) = debugfs.get().and_then(|text| DynamicModels::parse(text)) {
        let models: Vec<_> = offered.offered.into_iter().filter_map(PreemptModel::of_word).collect();
        // The file is there only where there is a choice: a single known model among its words is not all of them.
        if models.len() > 1 {
            return Reading::found(models, debugfs.source.clone());
        }
    }
    let config = match &kernel.config {
        Ok(config) => config,
        Err(why) => return Reading::unknown("the kernel's configuration", why.clone()),
    };
    let from = config.source.clone();
    let found = config.is_on("CONFIG_PREEMPT_DYNAMIC").and_then(|is_dynamic| {
        if is_dynamic {
            Ok((offered(kernel)?, format!("{from} and the version")))
        } else {
            Ok((vec![built(kernel)?], from.clone()))
        }
    });
    match found {
        Ok((models, from)) => Reading::found(models, from),
        Err(why) => Reading::unknown(from, why),
    }
}

/// What a kernel with PREEMPT_DYNAMIC takes, by version and architecture.
fn offered(kernel: &KernelFacts) -> Result<Vec<PreemptModel>, String> {
    let config = kernel.config.as_ref().map_err(Clone::clone)?;
    let Some(version) = kernel.version.value() else { return Err("the kernel's version is not known".to_owned()) };
    if !version.is_read() {
        return Err(format!("what kernel {version} offers is not known to this holdup"));
    }
    let has_lazy = config.is_on("CONFIG_ARCH_HAS_PREEMPT_LAZY")?;
    let is_realtime = config.is_on("CONFIG_PREEMPT_RT")?;
    if is_realtime && !has_lazy {
        return Err("what a real-time kernel offers is not known".to_owned());
    }
    if !is_realtime && has_lazy && kernel.has_backports && version < RESTRICTED_SINCE {
        return Err(format!("whether its vendor took over the restriction of {RESTRICTED_SINCE} is not known"));
    }
    Ok(PreemptModel::switchable(version, has_lazy, is_realtime))
}

/// The default model of the configuration.
fn built(kernel: &KernelFacts) -> Result<PreemptModel, String> {
    let config = kernel.config.as_ref().map_err(Clone::clone)?;
    PreemptModel::in_config(&config.source, |option| config.is_on(option))
}

/// The default of the build, which is in force unless another was asked for with effect.
fn as_built(kernel: &KernelFacts, taken: Option<&str>, choices: &Reading<Vec<PreemptModel>>) -> PreemptSource {
    let from = match &kernel.config {
        Ok(config) => config.source.as_str(),
        Err(why) => return source("the kernel's configuration", &[], why.as_str()),
    };
    let model = match built(kernel) {
        Err(why) => return source(from, &[], why),
        Ok(PreemptModel::Rt) => return source(from, &[PreemptModel::Rt], "CONFIG_PREEMPT_RT=y"),
        Ok(model) => model,
    };
    let word = model.word();
    if choices.get().is_some_and(|choices| choices.len() == 1) {
        return source(from, &[model], format!("{word}, the only model of this kernel"));
    }
    let but = match (taken, choices.get(), kernel.command_line.get()) {
        (_, _, None) => format!("; what preempt= asked for cannot be read ({COMMAND_LINE})"),
        (None, ..) => return source(from, &[model], format!("{word}, the default of this kernel at boot")),
        (Some(asked), Some(_), _) => format!(", but preempt={} was asked for", shown(asked)),
        (Some(_), None, _) => "; whether preempt= on the command line is heeded is not known".to_owned(),
    };
    source(from, &[], format!("{word} by default{but}"))
}

/// The flag in the version string, which excludes some models at best.
fn in_version(host: &Host, kernel: &KernelFacts) -> PreemptSource {
    let text = match host.read_value(VERSION) {
        Ok(text) => text,
        Err(e) => return source(VERSION, &[], e.message),
    };
    let flag = match VersionFlag::parse(&text) {
        None => return source(VERSION, &[], "no build number in it"),
        Some(VersionFlag::Rt) => return source(VERSION, &[PreemptModel::Rt], "PREEMPT_RT"),
        Some(VersionFlag::Dynamic) => return source(VERSION, &[], "PREEMPT_DYNAMIC, which leaves the model open"),
        Some(flag) => flag,
    };
    let version = kernel.version.get();
    let may_be_silent = version.is_none_or(|v| (DYNAMIC_SINCE..DYNAMIC_NAMED_SINCE).contains(v));
    let is_open = kernel.config.as_ref().ok().and_then(|config| config.is_on("CONFIG_PREEMPT_DYNAMIC").ok());
    if is_open.unwrap_or(may_be_silent) {
        return source(VERSION, &[], "a kernel from 5.12 to 5.17 does not say here whether its model can be switched");
    }
    let is_older_than_lazy = !kernel.has_backports && version.is_some_and(|v| *v < LAZY_SINCE);
    match (flag, is_older_than_lazy) {
        (VersionFlag::Preempt, true) => {
            source(VERSION, &[PreemptModel::Full], "PREEMPT, and no lazy model in this version")
        }
        (VersionFlag::Preempt, false) => {
            source(VERSION, &[PreemptModel::Full, PreemptModel::Lazy], "PREEMPT: full or lazy")
        }
        _ => source(VERSION, &[PreemptModel::None, PreemptModel::Voluntary], "no PREEMPT in it: none or voluntary"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::MemoryFs;

    const DYNAMIC: &str = "CONFIG_PREEMPT_LAZY=y\nCONFIG_PREEMPT_DYNAMIC=y\nCONFIG_ARCH_HAS_PREEMPT_LAZY=y\n";
    const RELEASE: &str = "/proc/sys/kernel/osrelease";
    const V618: (&str, &str) = (RELEASE, "6.18.1\n");
    const V7: (&str, &str) = (RELEASE, "7.0.13+deb13-amd64\n");
    const CONFIG: (&str, &str) = ("/boot/config-6.18.1", DYNAMIC);
    const CONFIG7: (&str, &str) = ("/boot/config-7.0.13+deb13-amd64", DYNAMIC);
    const ASKED_NONE: (&str, &str) = ("/proc/cmdline", "quiet preempt=none\n");

    /// Started with `quiet` alone, where `files` do not say otherwise.
    fn found(files: &[(&str, &str)], log: Option<&str>) -> Preemption {
        let fs = MemoryFs::of(&[("/proc/cmdline", "quiet\n")]);
        files.iter().for_each(|(path, text)| fs.put(path, text));
        if let Some(log) = log {
            fs.put_kernel_log(log);
        }
        crate::kernel::preemption(&fs.host())
    }

    #[test]
    fn the_best_source_is_named() {
        let check = |files: &[(&str, &str)], log: Option<&str>, model: Option<&str>, source: &str| {
            let found = found(files, log);
            assert_eq!(found.model.get().map(|m| m.word()), model, "{files:?} {log:?}: {found:#?}");
            assert!(found.model.source.contains(source), "{files:?} {log:?}: {found:#?}");
        };
        let debug = (DEBUGFS, "full (lazy)\n");
        let log = "<6>[    0.3] Dynamic Preempt: none\n<6>[   1.0] x\n";
        check(&[debug, V618, CONFIG, ASKED_NONE], Some(log), Some("lazy"), "debug/sched/preempt");
        check(&[(DEBUGFS, "none voluntary full (lazy)\n")], None, Some("lazy"), "debug/sched/preempt");
        check(&[(DEBUGFS, "(none) voluntary full lazy\n")], None, Some("none"), "debug/sched/preempt");
        check(&[V618, CONFIG], Some(log), Some("none"), "the kernel's log");
        check(&[V618, CONFIG, ASKED_NONE], Some("nothing\n"), Some("none"), "/proc/cmdline");
        check(&[V618, CONFIG], None, Some("lazy"), "/boot/config-6.18.1");
        let refused = "[0.3] Dynamic Preempt: unsupported mode: none\n";
        check(&[V7, CONFIG7, ASKED_NONE], None, Some("lazy"), "/boot/config");
        check(&[V7, CONFIG7, ASKED_NONE], Some(refused), Some("lazy"), "/boot/config");
        let dump = "[9.9] CPU: 1 UID: 0 PID: 5 Comm: sh Not tainted 7.0.13+deb13-amd64 #1 PREEMPT(full)\n";
        check(&[V7, CONFIG7], Some(&format!("{log}{dump}")), Some("full"), "the kernel's log");
        let dump = "[9.9] CPU: 1 UID: 0 PID: 5 Comm: sh Not tainted 7.0.13 #1 PREEMPT_{RT,(full)}\n";
        check(&[V7], Some(dump), Some("rt"), "the kernel's log");
        let fixed = ("/boot/config-6.18.1", "CONFIG_PREEMPT_VOLUNTARY=y\n");
        check(&[V618, fixed, ASKED_NONE], None, Some("voluntary"), "/boot/config");
        check(&[V618, ("/boot/config-6.18.1", "CONFIG_PREEMPT_RT=y\nCONFIG_PREEMPT=y\n")], None, Some("rt"), "config");
        check(&[("/sys/kernel/realtime", "1\n"), debug], None, Some("rt"), "realtime");
        let realtime = (VERSION, "Linux version 7.0.13 (x) #1 SMP PREEMPT_RT Debian");
        check(&[(DEBUGFS, "(full) lazy\n"), realtime], Some("Dynamic Preempt: full\n"), Some("rt"), VERSION);
        let version = |flags: &'static str| (VERSION, flags);
        check(&[version("Linux version 6.1.0 (x) #1 SMP PREEMPT_RT Debian")], None, Some("rt"), VERSION);
        check(
            &[(RELEASE, "5.10.0"), version("Linux version 5.10.0 (x) #1 SMP PREEMPT Sat")],
            None,
            Some("full"),
            VERSION,
        );
    }

    #[test]
    fn sources_without_a_model_leave_it_open() {
        let check = |files: &[(&str, &str)]| {
            let found = found(files, None);
            assert_eq!(found.model.get(), None, "{files:?}: {found:#?}");
            assert!(found.model.remedy.is_some(), "{found:#?}");
        };
        check(&[]);
        check(&[ASKED_NONE]);
        check(&[("/proc/cmdline", "preempt=lots")]);
        check(&[(DEBUGFS, "none voluntary")]);
        // The active word stands in round brackets; square ones would be another file's.
        check(&[(DEBUGFS, "none [full] lazy")]);
        check(&[(VERSION, "Linux version 6.18.1 (x) #1 SMP PREEMPT_DYNAMIC Debian 6.18.1-1")]);
        check(&[(VERSION, "Linux version 6.18.1 (x) #1 SMP Debian 6.18.1-1")]);
        check(&[V7, (CONFIG7.0, "CONFIG_PREEMPT_LAZY=y\nCONFIG_PREEMPT_NONE=y\n")]);
        check(&[V7, (CONFIG7.0, "CONFIG_PREEMPT_LAZY=y\n# CONFIG_PREEMPT_LAZY is not set\n")]);
        // What was asked for cannot be read, so the default is not known to hold.
        check(&[V618, CONFIG, ("/proc/cmdline", "")]);
        // The active model is an unknown one, so the default does not hold.
        check(&[(DEBUGFS, "full (laziest)"), V618, CONFIG]);
        // 5.15 writes PREEMPT for a model that can be switched as well.
        check(&[(RELEASE, "5.15.0"), (VERSION, "Linux version 5.15.0 (x) #1 SMP PREEMPT Sat")]);
        check(&[(RELEASE, "6.12.0-55.el10"), (VERSION, "Linux version 6.12.0-55.el10 (x) #1 SMP PREEMPT Sat")]);
        // Cut off before it says whether the model can be chosen at boot, and another one was asked for.
        check(&[V618, ("/boot/config-6.18.1", "CONFIG_PREEMPT_LAZY=y\nCONFIG_PREE"), ASKED_NONE]);
        // What a kernel outside the table offers is not known.
        check(&[(RELEASE, "99.1.0\n"), ("/boot/config-99.1.0", DYNAMIC), ASKED_NONE]);
    }

    #[test]
    fn the_last_word_that_the_kernel_takes_holds() {
        let check = |files: &[(&str, &str)], line: &str, model: Option<&str>, asked: &str, is_refused: bool| {
            let mut files = files.to_vec();
            files.push(("/proc/cmdline", line));
            let found = found(&files, None);
            assert_eq!(found.model.get().map(|m| m.word()), model, "{line}: {found:#?}");
            assert_eq!((found.asked.as_deref(), found.refused.is_some()), (Some(asked), is_refused), "{line}");
        };
        check(&[V7, CONFIG7], "preempt=full preempt=none\n", Some("full"), "none", true);
        check(&[V7, CONFIG7], "preempt=none preempt=full\n", Some("full"), "full", false);
        check(&[V7, CONFIG7], "preempt=none preempt=voluntary\n", Some("lazy"), "voluntary", true);
        check(&[V618, CONFIG], "preempt=none preempt=lots\n", Some("none"), "lots", true);
        let realtime =
            ("/boot/config-6.18.1", "CONFIG_PREEMPT_RT=y\nCONFIG_PREEMPT_DYNAMIC=y\nCONFIG_ARCH_HAS_PREEMPT_LAZY=y\n");
        check(&[V618, realtime], "preempt=none\n", Some("rt"), "none", true);
        // A vendor's kernel may have taken over what later versions refuse.
        let el10 = [(RELEASE, "6.12.0-55.el10"), ("/boot/config-6.12.0-55.el10", DYNAMIC)];
        check(&el10, "preempt=none\n", None, "none", false);
        let patched = [(DEBUGFS, "full (lazy) laziest"), V618];
        check(&patched, "preempt=laziest\n", Some("lazy"), "laziest", false);
    }

    #[test]
    fn a_kernel_that_was_started_without_a_word_has_its_default() {
        assert_eq!(found(&[V618, CONFIG, ("/proc/cmdline", "\n")], None).model.get(), Some(&PreemptModel::Lazy));
    }

    #[test]
    fn an_unknown_model_in_the_log_leaves_it_open() {
        let log = "<6>[0.3] Dynamic Preempt: full\n<6>[9.0] Dynamic Preempt: eager\n";
        let found = found(&[V618, CONFIG], Some(log));
        assert_eq!(found.model.get(), None, "{found:#?}");
        assert!(found.sources[1].note.contains("eager"), "{found:#?}");
    }

    #[test]
    fn a_word_without_effect_says_why() {
        let check = |files: &[(&str, &str)], expect: Option<&str>| {
            let found = found(files, None);
            let has_it = match (&found.refused, expect) {
                (Some(refused), Some(expect)) => refused.contains(expect),
                (refused, expect) => refused.is_none() && expect.is_none(),
            };
            assert!(has_it, "{files:?}: {found:#?}");
        };
        check(&[V7, CONFIG7, ASKED_NONE], Some("full and lazy only since 7.0"));
        check(&[V7, CONFIG7, ("/proc/cmdline", "preempt=full")], None);
        check(&[V618, CONFIG, ASKED_NONE], None);
        check(&[V618, ("/boot/config-6.18.1", "CONFIG_PREEMPT_LAZY=y\n"), ASKED_NONE], Some("without PREEMPT_DYNAMIC"));
        check(&[V618, CONFIG, ("/proc/cmdline", "preempt=lots")], Some("no model"));
        check(&[(DEBUGFS, "full (lazy)"), ASKED_NONE], Some("full and lazy only"));
    }

    #[test]
    fn sources_that_exclude_the_answer_are_named() {
        let switched = found(&[(DEBUGFS, "none voluntary (full)")], Some("Dynamic Preempt: voluntary\n"));
        assert_eq!(switched.model.get(), Some(&PreemptModel::Full));
        let said = switched.disagreement.expect("the log says another");
        assert!(said.contains("says full, which counts") && said.contains("log says voluntary"), "{said}");
        let agreed = found(&[(DEBUGFS, "full (lazy)"), V7, CONFIG7], Some("Dynamic Preempt: lazy\n"));
        assert_eq!(agreed.disagreement, None);
        let booted = found(&[V618, CONFIG, ("/proc/cmdline", "preempt=full")], Some("Dynamic Preempt: full\n"));
        assert_eq!((booted.model.value(), booted.disagreement), (Some(PreemptModel::Full), None));
    }
}
