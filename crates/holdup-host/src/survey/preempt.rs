//! Which preemption model is in force, asked of every source that may tell, the best first.
//!
//! The sources and their limits: `kernel/sched/debug.c:sched_dynamic_show`, `kernel/sched/core.c:sched_dynamic_mode,
//! __sched_dynamic_update, preempt_model_str` (v5.12 to v7.3), `kernel/Kconfig.preempt`, `init/Makefile` (the flag in
//! the version string).

use super::kernel::{Ground, all_asked_for};
use crate::Host;
use holdup_model::survey::{KernelVersion, Known, Model, Preemption, Witness};

const DEBUGFS: &str = "/sys/kernel/debug/sched/preempt";
/// Where it was in 5.12.
const DEBUGFS_5_12: &str = "/sys/kernel/debug/sched_preempt";
const LOG: &str = "the kernel's log";
const REALTIME: &str = "/sys/kernel/realtime";
const VERSION: &str = "/proc/version";
const COMMAND_LINE: &str = "/proc/cmdline";

/// The models that `preempt=` and debugfs take where PREEMPT_DYNAMIC is on (`sched_dynamic_mode`).
const BEFORE_LAZY: &[Model] = &[Model::None, Model::Voluntary, Model::Full];
const WITH_LAZY: &[Model] = &[Model::None, Model::Voluntary, Model::Full, Model::Lazy];
const SINCE_7_0: &[Model] = &[Model::Full, Model::Lazy];

/// The model in force, with all that was asked.
pub(crate) fn preemption(host: &Host, ground: &Ground) -> Preemption {
    let words = ground.command_line.get().map_or_else(Vec::new, |line| all_asked_for(line, "preempt"));
    let path = if host.exists(DEBUGFS_5_12) { DEBUGFS_5_12 } else { DEBUGFS };
    let debugfs = super::one_line(host, path);
    let choices = choices(ground, &debugfs);
    let refusal = |word: &str| why_refused(word, &choices, ground, &debugfs);
    // The kernel sets the model at each word that it takes and passes the others by, so the last one taken holds.
    let taken = words.iter().copied().rfind(|word| refusal(word).is_none());
    let refused = words.last().and_then(|word| refusal(word));
    let mut witnesses = vec![in_debugfs(&debugfs), in_log(host)];
    if let Some(realtime) = realtime(host) {
        witnesses.insert(0, realtime);
    }
    let asked = words.last().map(|word| super::shown(word));
    witnesses.push(as_booted(ground, asked.as_deref(), taken, refused.as_deref(), &choices));
    witnesses.push(as_built(ground, taken, &choices));
    witnesses.push(in_version(host, ground));
    let model = decide(&witnesses, ground);
    let disagreement = model.get().and_then(|model| disagreement(*model, best(&witnesses)?, &witnesses));
    Preemption { model, choices, asked, refused, witnesses, disagreement }
}

/// The first source that names one model alone; the command line and the version count for less than the file of the
/// build, so they follow it.
fn decide(witnesses: &[Witness], ground: &Ground) -> Known<Model> {
    if let Some(best) = best(witnesses) {
        return Known::found(best.says[0], best.source.clone());
    }
    let told: Vec<String> = witnesses.iter().map(|w| format!("{}: {}", w.source, w.note)).collect();
    let known = Known::unknown(DEBUGFS, told.join("; "));
    let is_closed = ground.lockdown.get().is_some_and(|state| state != "none");
    known.but(if is_closed {
        "run `holdup check --probe`, which measures it: the kernel is locked down, which closes debugfs also to root"
    } else {
        "run holdup as root, or `holdup check --probe`, which measures it"
    })
}

/// A real-time kernel can be switched between full and lazy as well, so whoever says that it is one comes first.
/// Nobody counts behind one who names a model that is not known here: it is another than the default.
fn best(witnesses: &[Witness]) -> Option<&Witness> {
    let realtime = witnesses.iter().find(|w| w.says == [Model::Rt]);
    let names_another = |w: &Witness| w.note.starts_with(NO_KNOWN_MODEL);
    realtime.or_else(|| witnesses.iter().find(|w| w.says.len() == 1 || names_another(w)).filter(|w| !names_another(w)))
}

/// How the note of a witness begins who names a model that is not known here.
const NO_KNOWN_MODEL: &str = "a model that is not known to this holdup: ";

/// The sources that exclude what the best one names.
fn disagreement(model: Model, best: &Witness, witnesses: &[Witness]) -> Option<String> {
    if model == Model::Rt {
        return None;
    }
    let others: Vec<String> = witnesses
        .iter()
        .filter(|w| !w.says.is_empty() && !w.says.contains(&model))
        .map(|w| {
            let words: Vec<&str> = w.says.iter().map(|m| m.word()).collect();
            format!("{} says {}", w.source, words.join(" or "))
        })
        .collect();
    let others = others.join("; ");
    (!others.is_empty()).then(|| format!("{} says {}, which counts; {others}", best.source, model.word()))
}

fn witness(source: &str, says: &[Model], note: impl Into<String>) -> Witness {
    Witness { source: source.to_owned(), says: says.to_vec(), note: note.into() }
}

/// `/sys/kernel/realtime` exists under PREEMPT_RT only.
fn realtime(host: &Host) -> Option<Witness> {
    let value = host.read_value(REALTIME).ok()?;
    (value == "1").then(|| witness(REALTIME, &[Model::Rt], "1"))
}

/// The word in parentheses: the square brackets of other files would be something else.
fn in_debugfs(text: &Known<String>) -> Witness {
    match text.get() {
        None => witness(&text.source, &[], text.why_unknown.clone().unwrap_or_default()),
        Some(words) => match crate::facts::chosen(words, '(', ')').map(Model::of_word) {
            Some(Some(model)) => witness(&text.source, &[model], super::shown(words)),
            Some(None) => witness(&text.source, &[], format!("{NO_KNOWN_MODEL}{}", super::shown(words))),
            None => witness(&text.source, &[], format!("no model of `{}` is in parentheses", super::shown(words))),
        },
    }
}

/// The last line of the log that tells: what was set at boot, or the head of a stack dump.
fn in_log(host: &Host) -> Witness {
    match host.kernel_log() {
        Err(e) => witness(LOG, &[], e.message),
        Ok(log) => match log.lines().rev().find_map(|line| logged(line).map(|model| (model, line))) {
            Some((Some(model), line)) => witness(LOG, &[model], super::shown(line.trim())),
            Some((None, line)) => witness(LOG, &[], format!("{NO_KNOWN_MODEL}{}", super::shown(line.trim()))),
            None => witness(LOG, &[], "no line `Dynamic Preempt: …` and no stack dump in it (any more)"),
        },
    }
}

/// The model that a line of the log names, `None` inside for one that is not known here. `unsupported mode: none` names
/// one that was not set.
fn logged(line: &str) -> Option<Option<Model>> {
    if let Some((_, rest)) = line.split_once("Dynamic Preempt: ") {
        return (!rest.starts_with("unsupported mode")).then(|| Model::of_word(rest.trim()));
    }
    in_dump(line).map(Some)
}

/// The model that the head of a stack dump names.
fn in_dump(line: &str) -> Option<Model> {
    // The head of a stack dump, behind the number of the build (`preempt_model_str`, 6.15 and later).
    let (_, head) = line.split_once(" PID: ")?;
    let word = head.split_ascii_whitespace().skip_while(|word| !is_build_number(word)).nth(1)?;
    match word {
        "NONE" => Some(Model::None),
        "VOLUNTARY" => Some(Model::Voluntary),
        "PREEMPT" => Some(Model::Full),
        "PREEMPTLAZY" => Some(Model::Lazy),
        _ if word.starts_with("PREEMPT_RT") || word.starts_with("PREEMPT_{RT") => Some(Model::Rt),
        _ => Model::of_word(word.strip_prefix("PREEMPT(")?.strip_suffix(')')?),
    }
}

/// `#1`
fn is_build_number(word: &str) -> bool {
    word.strip_prefix('#').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// What was asked for on the command line, if this kernel heeds it: `asked` is the last word, `taken` the last that
/// is not known to be refused, `refused` why the last one is.
fn as_booted(
    ground: &Ground,
    asked: Option<&str>,
    taken: Option<&str>,
    refused: Option<&str>,
    choices: &Known<Vec<Model>>,
) -> Witness {
    let Some(asked) = asked else {
        let note = ground.command_line.why_unknown.as_deref().unwrap_or("no preempt= on it");
        return witness(COMMAND_LINE, &[], note);
    };
    let in_vain = refused.map(|why| format!("preempt={asked} has no effect: {why}"));
    let Some(taken) = taken else {
        return witness(COMMAND_LINE, &[], in_vain.unwrap_or_default());
    };
    let behind = in_vain.map_or_else(String::new, |why| format!("; the later {why}"));
    let taken_word = super::shown(taken);
    match (Model::of_word(taken), choices.get()) {
        (Some(model), Some(_)) => witness(COMMAND_LINE, &[model], format!("preempt={taken_word}{behind}")),
        _ => witness(
            COMMAND_LINE,
            &[],
            format!("preempt={taken_word} is asked for; whether this kernel heeds it is not known{behind}"),
        ),
    }
}

/// Why a word of the command line had no effect; `None` when it had, or when that is not known.
fn why_refused(word: &str, choices: &Known<Vec<Model>>, ground: &Ground, debugfs: &Known<String>) -> Option<String> {
    let Some(model) = Model::of_word(word) else {
        // A kernel that nobody has read, or one with patches, may have models of its own.
        let is_offered = debugfs.get().is_some_and(|text| words_of(text).any(|offered| offered == word));
        let is_read = ground.version.value().is_some_and(KernelVersion::is_read);
        return (is_read && !is_offered).then(|| format!("`{}` is no model", super::shown(word)));
    };
    let choices = choices.get()?;
    if choices.contains(&model) && choices.len() > 1 {
        return None;
    }
    if choices.len() <= 1 {
        return Some("this kernel was built without PREEMPT_DYNAMIC, so its model is fixed".to_owned());
    }
    let words: Vec<&str> = choices.iter().map(|m| m.word()).collect();
    let is_realtime = ground.option("CONFIG_PREEMPT_RT").value() == Some(true);
    let since = match ground.version.get() {
        Some(version) if *version >= KernelVersion::new(7, 0) && !is_realtime => " since 7.0",
        _ => "",
    };
    Some(format!("this kernel offers {} only{since}", words.join(" and ")))
}

/// The words of the file in debugfs without the parentheses around the active one.
fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split_ascii_whitespace().map(|word| word.trim_matches(['(', ')']))
}

/// The models that can be set at boot or run time; one where it is fixed.
fn choices(ground: &Ground, debugfs: &Known<String>) -> Known<Vec<Model>> {
    if let Some(text) = debugfs.get() {
        let models: Vec<Model> = words_of(text).filter_map(Model::of_word).collect();
        // The file is there only where there is a choice: a single model among its words is not all of them.
        if models.len() > 1 {
            return Known::found(models, debugfs.source.clone());
        }
    }
    let config = match &ground.config {
        Ok(config) => config,
        Err(why) => return Known::unknown("the kernel's configuration", why.clone()),
    };
    let source = config.source.clone();
    match config.is_on("CONFIG_PREEMPT_DYNAMIC") {
        Err(why) => Known::unknown(source, why),
        Ok(false) => match built(ground) {
            Ok(model) => Known::found(vec![model], source),
            Err(why) => Known::unknown(source, why),
        },
        Ok(true) => match offered(ground) {
            Ok(models) => Known::found(models.to_vec(), format!("{source} and the version")),
            Err(why) => Known::unknown(source, why),
        },
    }
}

/// What a kernel with dynamic preemption takes, by version and architecture.
fn offered(ground: &Ground) -> Result<&'static [Model], String> {
    let Some(version) = ground.version.value() else { return Err("the kernel's version is not known".to_owned()) };
    if !version.is_read() {
        return Err(format!("what kernel {version} offers is not known to this holdup"));
    }
    let has_lazy = match &ground.config {
        Ok(config) => config.is_on("CONFIG_ARCH_HAS_PREEMPT_LAZY")?,
        Err(why) => return Err(why.clone()),
    };
    if let Ok(config) = &ground.config
        && config.is_on("CONFIG_PREEMPT_RT")?
    {
        // `sched_dynamic_mode` leaves none and voluntary out of a real-time kernel of any version.
        return if has_lazy { Ok(SINCE_7_0) } else { Err("what a real-time kernel offers is not known".to_owned()) };
    }
    if has_lazy && ground.has_backports && version < KernelVersion::new(7, 0) {
        return Err("whether its vendor took over the restriction of 7.0 is not known".to_owned());
    }
    Ok(match (has_lazy, version >= KernelVersion::new(7, 0)) {
        (false, _) => BEFORE_LAZY,
        (true, false) => WITH_LAZY,
        (true, true) => SINCE_7_0,
    })
}

/// The default model of the configuration.
fn built(ground: &Ground) -> Result<Model, String> {
    let config = ground.config.as_ref().map_err(Clone::clone)?;
    if config.is_on("CONFIG_PREEMPT_RT")? {
        return Ok(Model::Rt);
    }
    let options = [
        ("CONFIG_PREEMPT_LAZY", Model::Lazy),
        ("CONFIG_PREEMPT", Model::Full),
        ("CONFIG_PREEMPT_VOLUNTARY", Model::Voluntary),
        ("CONFIG_PREEMPT_NONE", Model::None),
    ];
    let mut on = Vec::new();
    for (option, model) in options {
        // 5.10 and older have CONFIG_PREEMPT, CONFIG_PREEMPTION follows it and is not asked.
        if config.is_on(option)? {
            on.push((option, model));
        }
    }
    match on.as_slice() {
        [(_, model)] => Ok(*model),
        [] => Err(format!("{} names no preemption model", config.source)),
        several => {
            let names: Vec<&str> = several.iter().map(|(option, _)| *option).collect();
            Err(format!("{} sets {} together, which no build does", config.source, names.join(" and ")))
        }
    }
}

/// The default of the build, which is in force unless another was asked for with effect.
fn as_built(ground: &Ground, taken: Option<&str>, choices: &Known<Vec<Model>>) -> Witness {
    let source = match &ground.config {
        Ok(config) => config.source.as_str(),
        Err(why) => return witness("the kernel's configuration", &[], why.as_str()),
    };
    let model = match built(ground) {
        Err(why) => return witness(source, &[], why),
        Ok(Model::Rt) => return witness(source, &[Model::Rt], "CONFIG_PREEMPT_RT=y"),
        Ok(model) => model,
    };
    let word = model.word();
    let is_fixed = choices.get().is_some_and(|choices| choices.len() == 1);
    match (taken, choices.get(), &ground.command_line.value) {
        _ if is_fixed => witness(source, &[model], format!("{word}, the only model of this kernel")),
        (_, _, None) => {
            witness(source, &[], format!("{word} by default; what preempt= asked for cannot be read ({COMMAND_LINE})"))
        }
        (Some(asked), Some(_), _) => {
            let asked = super::shown(asked);
            witness(source, &[], format!("{word} by default, but preempt={asked} was asked for"))
        }
        (Some(_), None, _) => witness(
            source,
            &[],
            format!("{word} by default; whether preempt= on the command line is heeded is not known"),
        ),
        (None, ..) => witness(source, &[model], format!("{word}, the default of this kernel at boot")),
    }
}

/// The first version that writes PREEMPT_DYNAMIC into its version string.
const NAMES_DYNAMIC: KernelVersion = KernelVersion::new(5, 18);

/// The flag in the version string, which tells little: with PREEMPT_DYNAMIC nothing at all.
fn in_version(host: &Host, ground: &Ground) -> Witness {
    let text = match host.read_value(VERSION) {
        Ok(text) => text,
        Err(e) => return witness(VERSION, &[], e.message),
    };
    let Some((_, flags)) = text.split_once('#') else {
        return witness(VERSION, &[], "no build number in it");
    };
    let has = |flag: &str| flags.split_ascii_whitespace().any(|word| word == flag);
    if has("PREEMPT_RT") {
        return witness(VERSION, &[Model::Rt], "PREEMPT_RT");
    }
    if has("PREEMPT_DYNAMIC") {
        return witness(VERSION, &[], "PREEMPT_DYNAMIC, which leaves the model open");
    }
    // From 5.12 on the model may be open, and only 5.18 and later say so here (`scripts/mkcompile_h`).
    let may_be_silent = ground.version.get().is_none_or(|v| (KernelVersion::new(5, 12)..NAMES_DYNAMIC).contains(v));
    let is_open = ground.config.as_ref().ok().and_then(|config| config.is_on("CONFIG_PREEMPT_DYNAMIC").ok());
    if is_open.unwrap_or(may_be_silent) {
        return witness(VERSION, &[], "a kernel from 5.12 to 5.17 does not say here whether its model can be switched");
    }
    let is_older_than_lazy =
        !ground.has_backports && ground.version.get().is_some_and(|v| *v < KernelVersion::new(6, 13));
    match (has("PREEMPT"), is_older_than_lazy) {
        (true, true) => witness(VERSION, &[Model::Full], "PREEMPT, and no lazy model in this version"),
        (true, false) => witness(VERSION, &[Model::Full, Model::Lazy], "PREEMPT: full or lazy"),
        (false, _) => witness(VERSION, &[Model::None, Model::Voluntary], "no PREEMPT in it: none or voluntary"),
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
        super::super::preemption(&fs.host())
    }

    #[test]
    fn the_best_source_that_tells_is_named() {
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
    fn what_does_not_tell_leaves_the_model_open() {
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
        // The active model is another than those that are known, so the default does not hold.
        check(&[(DEBUGFS, "full (laziest)"), V618, CONFIG]);
        // 5.15 writes PREEMPT for a model that can be switched as well.
        check(&[(RELEASE, "5.15.0"), (VERSION, "Linux version 5.15.0 (x) #1 SMP PREEMPT Sat")]);
        check(&[(RELEASE, "6.12.0-55.el10"), (VERSION, "Linux version 6.12.0-55.el10 (x) #1 SMP PREEMPT Sat")]);
        // Cut off before it says whether the model can be chosen at boot, and another one was asked for.
        check(&[V618, ("/boot/config-6.18.1", "CONFIG_PREEMPT_LAZY=y\nCONFIG_PREE"), ASKED_NONE]);
        // What a kernel that nobody has read offers is not known.
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
        assert_eq!(found(&[V618, CONFIG, ("/proc/cmdline", "\n")], None).model.get(), Some(&Model::Lazy));
    }

    #[test]
    fn a_model_that_is_not_known_here_is_not_passed_by_in_the_log() {
        let log = "<6>[0.3] Dynamic Preempt: full\n<6>[9.0] Dynamic Preempt: eager\n";
        let found = found(&[V618, CONFIG], Some(log));
        assert_eq!(found.model.get(), None, "{found:#?}");
        assert!(found.witnesses[1].note.contains("eager"), "{found:#?}");
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
        assert_eq!(switched.model.get(), Some(&Model::Full));
        let said = switched.disagreement.expect("the log says another");
        assert!(said.contains("says full, which counts") && said.contains("log says voluntary"), "{said}");
        let agreed = found(&[(DEBUGFS, "full (lazy)"), V7, CONFIG7], Some("Dynamic Preempt: lazy\n"));
        assert_eq!(agreed.disagreement, None);
        let booted = found(&[V618, CONFIG, ("/proc/cmdline", "preempt=full")], Some("Dynamic Preempt: full\n"));
        assert_eq!((booted.model.value(), booted.disagreement), (Some(Model::Full), None));
    }
}
