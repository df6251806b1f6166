//! The factor `profile`: its levels are files of profiles, or `none` for the host as it is.

use crate::checker::Checker;
use crate::draft::{Draft, find};
use crate::errors::{PlanErrors, Wrong};
use crate::node::{Data, Node};
use crate::profile::check_profile;
use crate::source::{Location, resolve};
use crate::words::shown;
use holdup_model::plan::{Factor, Level};
use holdup_model::profile::{FACTOR, NONE};
use holdup_model::{Profile, Value};

impl Checker<'_> {
    /// Reads the profiles that factors and settings name; their levels become the profiles' names.
    pub(crate) fn profiles(
        &mut self,
        draft: &Draft,
        factors: &mut [Factor],
        settings: &mut [(String, Level)],
    ) -> Vec<Profile> {
        let mut profiles = Vec::new();
        let entry = find(&draft.factors, FACTOR).or_else(|| find(&draft.settings, FACTOR));
        let of_factors = factors.iter_mut().filter(|f| f.name == FACTOR).flat_map(|f| &mut f.levels);
        let of_settings = settings.iter_mut().filter(|(name, _)| name == FACTOR).map(|(_, level)| level);
        for level in of_factors.chain(of_settings) {
            let file = level.value.to_string();
            if file == NONE {
                continue;
            }
            let nodes = entry.map_or(&[][..], |entry| nodes_of(&entry.node));
            let place = nodes.iter().find(|n| matches!(&n.data, Data::Text(text) if *text == file));
            let Some(place) = place.map(|n| n.place.clone()) else {
                let place = entry.map_or_else(|| self.begin(draft), |entry| entry.node.place.clone());
                let wrong = Wrong::new(format!("it is neither the file of a profile nor `{NONE}`"));
                self.complain(&place, format!("profile {}", shown(&file)), wrong);
                continue;
            };
            if let Some(profile) = self.profile_of(&file, &place, &profiles) {
                *level = Level { value: Value::Text(profile.name.clone()), label: profile.name.clone() };
                profiles.push(profile);
            }
        }
        self.not_set_twice(draft, &profiles);
        profiles
    }

    fn profile_of(&mut self, file: &str, place: &Location, before: &[Profile]) -> Option<Profile> {
        let path = resolve(&self.file_name(place), file);
        let checked = match (self.read)(&path) {
            Err(why) => Err(Wrong::new(format!("it cannot be read: {}", shown(&why))).hint(format!(
                "a level of `{FACTOR}` is the file of a profile, or `{NONE}`; looked for {}",
                shown(&path)
            ))),
            Ok(text) => check_profile(&path, &text, self.machine, self.words.all).map_err(|errors| no_profile(&errors)),
        };
        let checked = checked.and_then(|profile| match before.iter().any(|other| other.name == profile.name) {
            true => {
                Err(Wrong::new(format!("another level is named {} too", profile.name)).hint("give each another name"))
            }
            false if profile.name == NONE => {
                Err(Wrong::new(format!("`{NONE}` is the host as it is")).hint("name it otherwise"))
            }
            false => Ok(profile),
        });
        checked.map_err(|wrong| self.complain(place, format!("profile {}", shown(file)), wrong)).ok()
    }

    /// What a profile sets is neither varied nor fixed beside it.
    fn not_set_twice(&mut self, draft: &Draft, profiles: &[Profile]) {
        for (profile, setting) in profiles.iter().flat_map(|p| p.settings.iter().map(move |s| (p, s))) {
            let beside =
                draft.factors.iter().chain(&draft.settings).find(|e| e.key.eq_ignore_ascii_case(&setting.knob));
            if let Some(entry) = beside {
                let wrong =
                    Wrong::new(format!("profile {} sets it as well", profile.name)).hint("take one of them out");
                self.complain(&entry.place, format!("factor {}", shown(&entry.key)), wrong);
            }
        }
    }
}

/// The first thing that is wrong with a profile; `holdup apply --dry-run` shows all.
fn no_profile(errors: &PlanErrors) -> Wrong {
    let first = errors.errors.first().map_or_else(String::new, |e| format!("line {}: {}: {}", e.line, e.what, e.why));
    Wrong::new(format!("it is no good profile: {first}"))
        .hint("`holdup apply FILE --dry-run` shows all that is wrong with it")
}

/// The levels as they are written, whether in a list, in `{ levels = […] }` or alone.
fn nodes_of(node: &Node) -> &[Node] {
    match &node.data {
        Data::List(nodes) => nodes,
        Data::Table(parts) => find(parts, "levels").map_or(&[], |entry| nodes_of(&entry.node)),
        _ => std::slice::from_ref(node),
    }
}
