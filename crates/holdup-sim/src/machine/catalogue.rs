//! The catalogue of machines: one file each in `machines/`, and this list.

use super::Described;
use holdup_model::Problem;

/// The machines, each with its name and its file, in the order shown to users.
const ALL: &[(&str, &str)] = &[
    ("server-8", include_str!("../../machines/server-8.toml")),
    ("xeon-16", include_str!("../../machines/xeon-16.toml")),
    ("graviton2-16", include_str!("../../machines/graviton2-16.toml")),
    ("graviton4-96", include_str!("../../machines/graviton4-96.toml")),
    ("graviton4-192", include_str!("../../machines/graviton4-192.toml")),
    ("xeon6-192", include_str!("../../machines/xeon6-192.toml")),
    ("neoverse-v3-192", include_str!("../../machines/neoverse-v3-192.toml")),
];

/// The names of the machines.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|(name, _)| *name).collect()
}

/// The file of the machine with this name.
pub(super) fn text(name: &str) -> Result<&'static str, Problem> {
    let found = ALL.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text).ok_or_else(|| {
        Problem::usage(format!("machine {name}"), "there is no such machine").hint(format!(
            "machines: {}; or the path of a machine file, with a slash in it or .toml at its end",
            names().join(", ")
        ))
    })
}

/// The machine with this name.
pub fn find(name: &str) -> Result<Described, Problem> {
    Described::parse(name, text(name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_of_the_catalogue_is_read_and_written_again() {
        for name in names() {
            let machine = find(name).expect("it stands in the list");
            assert_eq!(machine.name, name);
            // A file without one is read as x86_64, and nothing says so.
            assert!(text(name).expect("it stands in the list").contains("\narch = "), "{name} names no architecture");
            let again = Described::parse("again", &machine.to_toml()).expect("what is written is read");
            assert_eq!(again.to_toml(), machine.to_toml());
            assert_eq!(again.parameters, machine.parameters);
        }
    }
}
