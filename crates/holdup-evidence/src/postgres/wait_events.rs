//! What wait events of PostgreSQL are called, by the server's major version.
//!
//! A wait event is a number of 32 bits: its class in the highest byte, its place in the class below
//! (utils/wait_event.h; utils/wait_classes.h since 17). `wait_events/MAJOR.txt` has a line for each class: its number, its
//! name, the names of its events in the order of their numbers, `-` for a number without one. Minor versions add events at
//! the end of a class (ABI_compatibility in wait_event_names.txt), so the newest one's table fits all. Names that a minor
//! version corrected stand as corrected: 17.0 shows `WALWriteLock` for `WALWrite`.

/// What a backend waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitEvent {
    /// `LWLock`, `IO`: `wait_event_type` of `pg_stat_activity`.
    pub(crate) class: &'static str,
    /// `WALWrite`, `DataFileRead`: its `wait_event`.
    pub(crate) name: &'static str,
}

/// The tables by version, the newest last.
const TABLES: [(u32, &str); 5] = [
    (15, include_str!("wait_events/15.txt")),
    (16, include_str!("wait_events/16.txt")),
    (17, include_str!("wait_events/17.txt")),
    (18, include_str!("wait_events/18.txt")),
    (19, include_str!("wait_events/19.txt")),
];

/// True if the names of a version are known.
pub(super) fn is_known(major: u32) -> bool {
    table(major).is_some()
}

fn table(major: u32) -> Option<&'static str> {
    TABLES.iter().find(|(of, _)| *of == major).map(|(_, table)| *table)
}

/// The wait event with this number; `None` where the version is not known, or has none of this number: extensions number
/// theirs when they are loaded.
pub(crate) fn wait_event(major: u32, number: u32) -> Option<WaitEvent> {
    let (class, mut names) = class(table(major)?, number)?;
    let name = names.nth(place(number)).filter(|name| *name != "-")?;
    Some(WaitEvent { class, name })
}

/// `LWLock:WALWrite`; `IO number 7` where the server's version or the event is not known.
pub(crate) fn wait_event_label(major: Option<u32>, number: u32) -> String {
    if let Some(WaitEvent { class, name }) = major.and_then(|major| wait_event(major, number)) {
        return format!("{class}:{name}");
    }
    // Numbers of classes outlive versions.
    let table = major.and_then(table).unwrap_or(TABLES[TABLES.len() - 1].1);
    match class(table, number) {
        Some((class, _)) => format!("{class} number {}", place(number)),
        None => format!("wait event 0x{number:08x}"),
    }
}

fn place(number: u32) -> usize {
    (number & 0x00ff_ffff) as usize
}

/// The name of an event's class, and those of the class's events.
fn class(table: &'static str, number: u32) -> Option<(&'static str, impl Iterator<Item = &'static str>)> {
    table.lines().find_map(|line| {
        let mut words = line.split(' ');
        let class = u32::from_str_radix(words.next()?, 16).ok()?;
        (class == number >> 24).then_some((words.next()?, words))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_the_name_of_its_version() {
        let named = |major, number| wait_event_label(Some(major), number);
        assert_eq!(named(15, 0x0100_0008), "LWLock:WALWrite");
        assert_eq!(named(18, 0x0300_0005), "Lock:transactionid");
        assert_eq!(named(16, 0x0600_0000), "Client:ClientRead");
        let pins = [15, 16, 17, 18, 19].map(|major| named(major, 0x0400_0000));
        assert_eq!(
            pins,
            ["BufferPin:BufferPin"; 4].into_iter().chain(["Buffer:BufferCleanup"]).collect::<Vec<_>>()[..]
        );
        assert_eq!([named(16, 0x0a00_004a), named(17, 0x0a00_004a)], ["IO:VersionFileSync", "IO:WalSync"]);
    }

    #[test]
    fn a_number_without_a_name_keeps_its_class() {
        assert_eq!(wait_event(15, 0x0100_000a), None, "a lock that earlier versions had");
        assert_eq!(wait_event_label(Some(18), 0x0100_005f), "LWLock number 95");
        assert_eq!(wait_event_label(Some(17), 0x0700_0003), "Extension number 3");
        assert_eq!(wait_event_label(None, 0x0a00_0007), "IO number 7");
        assert_eq!(wait_event_label(Some(20), 0x0a00_0007), "IO number 7");
        assert_eq!(wait_event_label(Some(15), 0x7f00_0001), "wait event 0x7f000001");
        assert_eq!(wait_event(20, 0x0600_0000), None);
    }

    #[test]
    fn every_table_is_whole() {
        for (major, table) in TABLES {
            let classes: Vec<&str> = table.lines().filter_map(|line| line.split(' ').next()).collect();
            let begin = ["1", "3", "4", "5", "6", "7", "8", "9", "a"];
            assert_eq!(classes[..9], begin, "{major}");
            for line in table.lines() {
                assert!(line.split(' ').all(|word| !word.is_empty()) && !line.ends_with('-'), "{major}: {line}");
            }
        }
    }
}
