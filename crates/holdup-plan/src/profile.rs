//! Profiles: values of knobs that shall be in force. They are read as plans are, against the same vocabulary, but
//! nothing is included, varied or filled in from the environment: a profile means the same for every user.

use crate::checker::Checker;
use crate::draft::{MOST_BYTES, find};
use crate::errors::{Complaints, PlanErrors, Wrong};
use crate::node::{Data, Entry, Node, Reading};
use crate::source::{Location, stem};
use crate::tables::Tables;
use crate::values::{TextIs, check_name, truth, unexpected};
use crate::words::{Meaning, did_you_mean, shown};
use crate::{Inputs, Overrides};
use holdup_model::catalogue::Vocabulary;
use holdup_model::profile::Setting;
use holdup_model::{Machine, Profile};

/// The keys of a profile.
const KEYS: &[&str] = &["name", "summary", "knobs"];
/// The keys of a knob that is given as a table.
const KNOB_KEYS: &[&str] = &["value", "optional"];
/// The longest name and the longest summary, characters.
const MOST_NAME: usize = 64;
const MOST_SUMMARY: usize = 200;

/// Checks the text of a profile. `file` is its name as the user gave it: it stands in errors, and its stem is the
/// profile's name where the profile states none. Amounts such as `"25% memory"` are relative to `machine`.
///
/// # Errors
/// Everything that is wrong with it, each thing with line and column.
pub fn check_profile(file: &str, text: &str, machine: Machine, vocabulary: &Vocabulary) -> Result<Profile, PlanErrors> {
    let mut complaints = Complaints::default();
    let number = complaints.add_source(file, text);
    let mut profile = Profile { name: String::new(), summary: String::new(), settings: Vec::new() };
    if text.len() > MOST_BYTES {
        let wrong = Wrong::new(format!("it has {} bytes, more than {MOST_BYTES}", text.len()))
            .hint("a profile is short; is this the right file?");
        complaints.add(&Location::In { file: number, at: 0 }, "too large for a profile", wrong);
    } else {
        let mut reading = Reading { file: number, what: "a profile", environment: None, complaints: &mut complaints };
        if let Some(entries) = reading.parse(text) {
            let none = Overrides::default();
            let inputs = Inputs {
                machine,
                vocabulary,
                environment: &|_| None,
                read_include: &|_| Err("a profile includes nothing".to_owned()),
                machine_of: &|_| Ok(None),
                overrides: &none,
            };
            profile = Check { of: Checker::new(&inputs, &mut complaints) }.profile(file, entries);
        }
    }
    if complaints.is_empty() { Ok(profile) } else { Err(complaints.into_errors()) }
}

struct Check<'a> {
    of: Checker<'a>,
}

impl Check<'_> {
    fn profile(&mut self, file: &str, entries: Vec<Entry>) -> Profile {
        for entry in entries.iter().filter(|e| !KEYS.contains(&e.key.as_str())) {
            let wrong = Wrong::new("a profile has no such key").hint(match entry.key.as_str() {
                // What a plan sets has another name here, and the two are easily mistaken for each other.
                "set" | "factors" => "the values of a profile stand under [knobs]".to_owned(),
                "workload" | "design" | "metric" | "collect" => {
                    "this looks like a plan: `holdup run` takes it".to_owned()
                }
                key => did_you_mean(key, KEYS),
            });
            self.of.complain(&entry.place, format!("key `{}`", shown(&entry.key)), wrong);
        }
        let name = match find(&entries, "name") {
            Some(entry) => self.text(entry, MOST_NAME, check_file_name).unwrap_or_default(),
            None => self.name_of(file),
        };
        let summary =
            find(&entries, "summary").and_then(|entry| self.text(entry, MOST_SUMMARY, |_| Ok(()))).unwrap_or_default();
        let settings = match entries.into_iter().find(|e| e.key == "knobs") {
            Some(entry) if entry.node.is_bad() => Vec::new(),
            Some(entry) => self.settings(entry),
            None => {
                let wrong = Wrong::new("it sets nothing").hint("[knobs], then lines such as autogroup = false");
                self.of.complain(&Location::In { file: 0, at: 0 }, "the profile", wrong);
                Vec::new()
            }
        };
        Profile { name, summary, settings }
    }

    /// The name of a profile that states none.
    fn name_of(&mut self, file: &str) -> String {
        let name = stem(file);
        if let Err(wrong) = check_file_name(&name) {
            let wrong = wrong.hint("give the profile a name: name = \"…\"");
            self.of.complain(&Location::In { file: 0, at: 0 }, format!("name = {}", shown(&name)), wrong);
        }
        name
    }

    /// One line of text under a key of the profile.
    fn text(&mut self, entry: &Entry, most: usize, check: impl Fn(&str) -> Result<(), Wrong>) -> Option<String> {
        let checked = match &entry.node.data {
            Data::Bad => return None,
            Data::Text(text) if text.trim().chars().count() > most => {
                Err(Wrong::new(format!("it has more than {most} characters")))
            }
            Data::Text(text) if text.contains(char::is_control) => {
                Err(Wrong::new("it holds a control character").hint("one line of plain text"))
            }
            Data::Text(text) => check(text.trim()).map(|()| text.trim().to_owned()),
            _ => Err(unexpected(&entry.node, "a text")),
        };
        checked
            .map_err(|wrong| {
                self.of.complain(&entry.node.place, format!("{} = {}", entry.key, entry.node.written()), wrong);
            })
            .ok()
    }

    fn settings(&mut self, knobs: Entry) -> Vec<Setting> {
        let place = knobs.place.clone();
        let before = self.of.complaints.count();
        let flat = Tables(self.of.complaints).flat("knobs", knobs.node, Some("value"));
        if flat.is_empty() && self.of.complaints.count() == before {
            let wrong = Wrong::new("it sets nothing").hint("lines such as autogroup = false");
            self.of.complain(&place, "`knobs`", wrong);
        }
        let settings: Vec<Setting> = flat.iter().filter_map(|entry| self.setting(entry)).collect();
        self.same_setting(&flat);
        settings
    }

    /// PostgreSQL ignores case in the names of settings.
    fn same_setting(&mut self, flat: &[Entry]) {
        for (at, entry) in flat.iter().enumerate() {
            if let Some(first) =
                flat[..at].iter().find(|e| e.key != entry.key && e.key.eq_ignore_ascii_case(&entry.key))
            {
                let wrong = Wrong::new(format!("it is the same as `{}`", shown(&first.key))).hint("keep one");
                self.of.complain(&entry.place, format!("knob {}", shown(&entry.key)), wrong);
            }
        }
    }

    fn setting(&mut self, entry: &Entry) -> Option<Setting> {
        let what = format!("knob {}", shown(&entry.key));
        let (node, optional) = match &entry.node.data {
            Data::Table(keys) => self.table(&what, keys)?,
            Data::List(_) => {
                let wrong = Wrong::new("a profile gives one value").hint("several values are a factor of a plan");
                self.of.complain(&entry.node.place, what, wrong);
                return None;
            }
            _ => (entry.node.clone(), false),
        };
        let (kind, text) = match self.of.words.meaning(&entry.key) {
            Meaning::Knob(kind) => (*kind, TextIs::Plain),
            Meaning::PostgresSetting(kind) => (*kind, TextIs::Setting),
            Meaning::Boot(_) => {
                let wrong = Wrong::new("it is chosen when a guest boots, and a profile is for what runs")
                    .hint("a plan with target = \"qemu\" takes it");
                self.of.complain(&entry.place, what, wrong);
                return None;
            }
            Meaning::Profile => {
                let wrong = Wrong::new("a profile holds no profile").hint("name its knobs");
                self.of.complain(&entry.place, what, wrong);
                return None;
            }
            Meaning::Simulated(_) => {
                let wrong = Wrong::new("only a simulated machine has it").hint("a plan with target = \"sim\" takes it");
                self.of.complain(&entry.place, what, wrong);
                return None;
            }
            Meaning::Offered(_) | Meaning::Parameter => {
                let wrong = Wrong::new("it belongs to a workload and says nothing of a host")
                    .hint("`holdup list knobs` lists what a profile can set");
                self.of.complain(&entry.place, what, wrong);
                return None;
            }
            Meaning::Unknown => {
                let wrong = self.unknown(&entry.key);
                self.of.complain(&entry.place, what, wrong);
                return None;
            }
        };
        let level = self.of.value(&what, &node, &kind, text)?.level;
        Some(Setting { knob: entry.key.clone(), level, optional })
    }

    fn unknown(&self, name: &str) -> Wrong {
        let wrong = Wrong::new("there is no such knob");
        let words = &self.of.words;
        let is_knob = |name: &str| matches!(words.meaning(name), Meaning::Knob(_) | Meaning::PostgresSetting(_));
        match name.rsplit_once('.') {
            Some((knob, "optional")) if is_knob(knob) => {
                let wrong = Wrong::new(format!("{} has no value", shown(knob)));
                wrong.hint("{ value = …, optional = true }")
            }
            _ => Wrong { hint: self.of.unknown_among(name, words.knob_names()).hint, ..wrong },
        }
    }

    /// `{ value = …, optional = true }`.
    fn table(&mut self, what: &str, keys: &[Entry]) -> Option<(Node, bool)> {
        let mut is_good = true;
        for key in keys.iter().filter(|k| !KNOB_KEYS.contains(&k.key.as_str())) {
            let wrong = Wrong::new("a knob has no such key").hint(did_you_mean(&key.key, KNOB_KEYS));
            self.of.complain(&key.place, format!("{what}: key `{}`", shown(&key.key)), wrong);
            is_good = false;
        }
        let optional = match find(keys, "optional").map(|entry| (entry, truth(&entry.node))) {
            None => false,
            Some((_, Ok(optional))) => optional,
            Some((entry, Err(wrong))) => {
                self.of.complain(&entry.node.place, format!("{what}: optional = {}", entry.node.written()), wrong);
                return None;
            }
        };
        find(keys, "value").filter(|_| is_good).map(|entry| (entry.node.clone(), optional))
    }
}

/// Whether something can be the name of a file and of a unit of systemd.
fn check_file_name(name: &str) -> Result<(), Wrong> {
    match name.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.')) {
        Some(c) => Err(Wrong::new(format!("`{}` cannot stand in it", shown(&c.to_string())))
            .hint("units and files are named after it: ASCII letters, digits and -_. can")),
        None if name.starts_with(['.', '-']) => {
            Err(Wrong::new("it cannot be the name of a file").hint("let it begin with a letter or a digit"))
        }
        None => check_name(name),
    }
}
