//! The preemption models of Linux: their names, which kernels offer them, and what the kernel's files and log say of them.

use crate::KernelVersion;
use serde::{Deserialize, Serialize};

/// Where a task can lose its CPU inside the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PreemptModel {
    /// Only where it calls `cond_resched()` or sleeps.
    None,
    /// Also at `might_resched()`.
    Voluntary,
    /// Nearly everywhere, immediately.
    Full,
    /// Nearly everywhere; by fair tasks only after the next tick.
    Lazy,
    /// PREEMPT_RT: also under most spinlocks.
    Rt,
}

/// What kernels have to do with one model.
struct Row {
    model: PreemptModel,
    /// As `preempt=`, debugfs and `preempt_model_str()` write it; mainline has no such word for PREEMPT_RT.
    word: &'static str,
    /// The Kconfig option, without `CONFIG_`.
    option: &'static str,
    since: KernelVersion,
    /// The first version without the model on architectures that have lazy.
    until: Option<KernelVersion>,
}

/// The first version with PREEMPT_DYNAMIC, `preempt=` and debugfs' `sched_preempt` (826bfeb37bb4, 6ef869e06470).
pub const DYNAMIC_SINCE: KernelVersion = KernelVersion::new(5, 12);
/// The first version that writes PREEMPT_DYNAMIC into its version string (`scripts/mkcompile_h`; `init/Makefile` later).
pub const DYNAMIC_NAMED_SINCE: KernelVersion = KernelVersion::new(5, 18);
/// The first version with the lazy model, on x86, arm64, riscv, s390, powerpc and loongarch: those that select
/// ARCH_HAS_PREEMPT_LAZY (26baa1f1c4bd, 7c70cb94d29c).
pub const LAZY_SINCE: KernelVersion = KernelVersion::new(6, 13);
/// The first version in which those architectures have no other models than full and lazy (7dadeaa6e851).
pub const RESTRICTED_SINCE: KernelVersion = KernelVersion::new(7, 0);

/// Read in `kernel/Kconfig.preempt` and `kernel/sched/core.c:sched_dynamic_mode` of 5.10, 6.1, 6.12, 6.18, 6.19 and
/// 7.0 to 7.3; 5.4 follows from the history of the file.
const TABLE: [Row; 5] = [
    // `depends on ARCH_NO_PREEMPT` from 7.0 on: alpha, hexagon, m68k without ColdFire.
    row(PreemptModel::None, "none", "PREEMPT_NONE", KernelVersion::OLDEST_READ, Some(RESTRICTED_SINCE)),
    // `depends on !ARCH_HAS_PREEMPT_LAZY` from 7.0 on.
    row(PreemptModel::Voluntary, "voluntary", "PREEMPT_VOLUNTARY", KernelVersion::OLDEST_READ, Some(RESTRICTED_SINCE)),
    row(PreemptModel::Full, "full", "PREEMPT", KernelVersion::OLDEST_READ, None),
    // `depends on ARCH_HAS_PREEMPT_LAZY`.
    row(PreemptModel::Lazy, "lazy", "PREEMPT_LAZY", LAZY_SINCE, None),
    // A separate choice beside full and lazy; the stub of 5.3 to 6.11 could not be enabled in mainline.
    row(PreemptModel::Rt, "rt", "PREEMPT_RT", KernelVersion::new(6, 12), None),
];

const fn row(
    model: PreemptModel,
    word: &'static str,
    option: &'static str,
    since: KernelVersion,
    until: Option<KernelVersion>,
) -> Row {
    Row { model, word, option, since, until }
}

impl PreemptModel {
    /// The words that `preempt=` and debugfs take, over all versions.
    pub const WORDS: &[&str] = &[TABLE[0].word, TABLE[1].word, TABLE[2].word, TABLE[3].word];
    /// Their Kconfig options, of which a kernel has one (the `choice` of `kernel/Kconfig.preempt`), without `CONFIG_`.
    pub const OPTIONS: &[&str] = &[TABLE[0].option, TABLE[1].option, TABLE[2].option, TABLE[3].option];
    /// The models of these words.
    pub const SWITCHABLE: &[Self] = &[TABLE[0].model, TABLE[1].model, TABLE[2].model, TABLE[3].model];

    /// The kernel's word for it.
    pub fn word(self) -> &'static str {
        TABLE.iter().find(|row| row.model == self).map_or("", |row| row.word)
    }

    /// The model of a word of `preempt=` or debugfs.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::SWITCHABLE.iter().copied().find(|model| model.word() == word)
    }

    /// True if a task can lose its CPU inside the kernel other than where it offers it.
    pub fn preempts_kernel_code(self) -> bool {
        matches!(self, PreemptModel::Full | PreemptModel::Lazy | PreemptModel::Rt)
    }

    /// The models that a version can be built with, on an architecture with or without lazy.
    pub fn built_for(version: KernelVersion, has_lazy: bool) -> Vec<Self> {
        let is_offered = |row: &&Row| match row.model {
            PreemptModel::Lazy => has_lazy,
            _ => version >= row.since && !(has_lazy && row.until.is_some_and(|until| version >= until)),
        };
        TABLE.iter().filter(is_offered).map(|row| row.model).collect()
    }

    /// The models that `preempt=` and debugfs can switch a kernel with PREEMPT_DYNAMIC to. `sched_dynamic_mode` leaves
    /// none and voluntary out of a real-time kernel of any version.
    pub fn switchable(version: KernelVersion, has_lazy: bool, is_realtime: bool) -> Vec<Self> {
        let mut models = Self::built_for(version, has_lazy);
        models.retain(|model| *model != PreemptModel::Rt && (!is_realtime || model.preempts_kernel_code()));
        models
    }

    /// The default of the Kconfig `choice`, on an architecture with lazy.
    pub fn default_of(version: KernelVersion) -> Self {
        if version >= RESTRICTED_SINCE { PreemptModel::Lazy } else { PreemptModel::None }
    }

    /// The model that the configuration in file `source` names, where `is_on` looks an option up.
    ///
    /// # Errors
    /// When it names no model, or several, or the options cannot be read; with the reason.
    pub fn in_config(source: &str, is_on: impl Fn(&str) -> Result<bool, String>) -> Result<Self, String> {
        let is_on = |row: &Row| is_on(&format!("CONFIG_{}", row.option));
        let [choice @ .., realtime] = &TABLE;
        if is_on(realtime)? {
            return Ok(realtime.model);
        }
        let mut on = Vec::new();
        for row in choice {
            if is_on(row)? {
                on.push(row);
            }
        }
        match on.as_slice() {
            [row] => Ok(row.model),
            [] => Err(format!("{source} names no preemption model")),
            several => {
                let names: Vec<String> = several.iter().map(|row| format!("CONFIG_{}", row.option)).collect();
                Err(format!("{source} sets {} together, which no build does", names.join(" and ")))
            }
        }
    }

    /// The model that a line of the kernel's log names: `Dynamic Preempt: full` or the head of a stack dump.
    /// `Some(Err(line))` for one that names an unknown model.
    pub fn in_log(line: &str) -> Option<Result<Self, &str>> {
        if let Some((_, rest)) = line.split_once("Dynamic Preempt: ") {
            // `unsupported mode: none` names one that was not set.
            return (!rest.starts_with("unsupported mode")).then(|| Self::of_word(rest.trim()).ok_or(line));
        }
        // `CPU: 1 UID: 0 PID: 5 Comm: sh Not tainted 7.0.13 #1 PREEMPT(full)` (`preempt_model_str`, 6.15 and later).
        let (_, head) = line.split_once(" PID: ")?;
        let is_build_number = |word: &&str| {
            word.strip_prefix('#').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        };
        let word = head.split_ascii_whitespace().skip_while(|word| !is_build_number(word)).nth(1)?;
        let model = match word {
            "NONE" => Some(PreemptModel::None),
            "VOLUNTARY" => Some(PreemptModel::Voluntary),
            "PREEMPT" => Some(PreemptModel::Full),
            "PREEMPTLAZY" => Some(PreemptModel::Lazy),
            _ if word.starts_with("PREEMPT_RT") || word.starts_with("PREEMPT_{RT") => Some(PreemptModel::Rt),
            _ => Self::of_word(word.strip_prefix("PREEMPT(")?.strip_suffix(')')?),
        };
        model.map(Ok)
    }
}

/// `/sys/kernel/debug/sched/preempt`: the models of a kernel with PREEMPT_DYNAMIC, one of them in parentheses
/// (`kernel/sched/debug.c:sched_dynamic_show`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DynamicModels<'a> {
    /// The one in force; a vendor's kernel may have other models.
    pub active: &'a str,
    /// All that can be set.
    pub offered: Vec<&'a str>,
}

impl<'a> DynamicModels<'a> {
    /// `none voluntary (full) lazy`; `None` unless exactly one word is in parentheses.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (mut active, mut offered) = (None, Vec::new());
        for word in text.split_ascii_whitespace() {
            let inside = word.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
            let name = inside.unwrap_or(word);
            if !Self::is_word(name) || (inside.is_some() && active.is_some()) {
                return None;
            }
            active = inside.or(active);
            offered.push(name);
        }
        active.map(|active| DynamicModels { active, offered })
    }

    /// True if a text could be the name of a model.
    pub fn is_word(text: &str) -> bool {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase())
    }
}

/// The flag for preemption in `uname -v` and `/proc/version` (`scripts/mkcompile_h`, `init/Makefile`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionFlag {
    /// `PREEMPT_RT`
    Rt,
    /// `PREEMPT_DYNAMIC`: any model that can be switched to.
    Dynamic,
    /// `PREEMPT`: full or lazy, or before 5.18 dynamic.
    Preempt,
    /// No flag: none or voluntary.
    Absent,
}

impl VersionFlag {
    /// The flag in a version string; `None` where it has no build number, behind which the flags stand.
    pub fn parse(version: &str) -> Option<Self> {
        let (_, flags) = version.split_once('#')?;
        let has = |flag: &str| flags.split_ascii_whitespace().any(|word| word == flag);
        let known = [("PREEMPT_RT", Self::Rt), ("PREEMPT_DYNAMIC", Self::Dynamic), ("PREEMPT", Self::Preempt)];
        Some(known.into_iter().find(|(word, _)| has(word)).map_or(Self::Absent, |(_, flag)| flag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_model_has_its_row() {
        for row in &TABLE {
            assert_eq!(row.model.word(), row.word);
            assert_eq!(PreemptModel::of_word(row.word), Some(row.model).filter(|m| *m != PreemptModel::Rt));
        }
    }

    #[test]
    fn versions_offer_the_models_of_their_kconfig() {
        let words =
            |models: Vec<PreemptModel>| models.into_iter().map(PreemptModel::word).collect::<Vec<_>>().join(" ");
        for ((major, minor), has_lazy, built, switchable) in [
            ((6, 1), false, "none voluntary full", "none voluntary full"),
            ((6, 12), false, "none voluntary full rt", "none voluntary full"),
            ((6, 18), true, "none voluntary full lazy rt", "none voluntary full lazy"),
            ((7, 0), true, "full lazy rt", "full lazy"),
            ((7, 0), false, "none voluntary full rt", "none voluntary full"),
        ] {
            let version = KernelVersion::new(major, minor);
            assert_eq!(words(PreemptModel::built_for(version, has_lazy)), built, "{version}");
            assert_eq!(words(PreemptModel::switchable(version, has_lazy, false)), switchable, "{version}");
        }
        assert_eq!(words(PreemptModel::switchable(KernelVersion::new(6, 18), true, true)), "full lazy");
    }

    #[test]
    fn only_exactly_one_word_in_parentheses_is_a_reading() {
        let models = DynamicModels::parse("none voluntary (full) lazy \n").expect("as the kernel writes it");
        assert_eq!((models.active, models.offered), ("full", vec!["none", "voluntary", "full", "lazy"]));
        assert_eq!(DynamicModels::parse("none (laziest)").map(|m| m.active), Some("laziest"), "a vendor's model");
        for garbage in ["", "none full", "none [full]", "(none) (full)", "()", "(none full)", "(NONE)", "0"] {
            assert_eq!(DynamicModels::parse(garbage), None, "{garbage}");
        }
    }
}
