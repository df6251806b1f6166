//! Tags into groups, transactions and flowops (uperf 1.0.8: parse.c, `build_worklist`).

use super::faults::{Faults, ProfileErrors, Wrong, did_you_mean, shown};
use super::flowop::Opened;
use super::lexer::{Attribute, Lexer, Stop, Tag, words};
use super::model::{Flowop, FlowopKind, Group, Note, Options, Profile, Repeat, Transaction};
use super::options::{OptionReader, resolve};
use super::{
    MOST_FILE_BYTES, MOST_GROUPS, MOST_ITERATIONS, MOST_NOTES, MOST_RATE_PER_S, MOST_STRANDS, MOST_TRANSACTIONS,
    Variables, number,
};
use std::collections::BTreeSet;

const TAGS: &[&str] = &["profile", "group", "transaction", "flowop"];

impl Profile {
    /// Reads a profile of uperf. `file` is what messages call it; `variables` gives the values of `$name` and is asked
    /// for names in lower case.
    ///
    /// # Errors
    /// All that is wrong with it, with lines.
    pub fn read(file: &str, bytes: &[u8], variables: Variables<'_>) -> Result<Profile, ProfileErrors> {
        let mut reader = Reader {
            variables,
            faults: Faults::default(),
            profile: Profile { name: None, groups: Vec::new(), notes: Vec::new() },
            profile_line: None,
            ended: false,
            in_group: false,
            in_transaction: false,
            opened: Opened::default(),
        };
        match text_of(bytes) {
            Ok(text) => reader.read(text),
            Err((line, wrong)) => reader.faults.add(line, "", wrong),
        }
        match reader.faults.into_errors(file) {
            Some(errors) => Err(errors),
            None => {
                reader.profile.notes.sort_by_key(|note| note.line);
                reader.profile.notes.truncate(MOST_NOTES);
                Ok(reader.profile)
            }
        }
    }
}

fn text_of(bytes: &[u8]) -> Result<&str, (u32, Wrong)> {
    if bytes.len() > MOST_FILE_BYTES {
        let wrong = Wrong::new(format!("{} bytes are too many for a profile", bytes.len()));
        return Err((0, wrong.hint(format!("at most {MOST_FILE_BYTES}"))));
    }
    let line_of = |at: usize| {
        let lines = bytes[..at].iter().filter(|b| **b == b'\n').count();
        u32::try_from(lines).unwrap_or(u32::MAX).saturating_add(1)
    };
    // A zero byte also shows UTF-16, which many editors of other systems write.
    if let Some(at) = memchr::memchr(0, bytes) {
        return Err((line_of(at), Wrong::new("a zero byte: this is no text").hint("save it as UTF-8")));
    }
    std::str::from_utf8(bytes)
        .map_err(|e| (line_of(e.valid_up_to()), Wrong::new("this is no UTF-8").hint("save it as UTF-8")))
}

/// What has been read so far.
struct Reader<'a> {
    variables: Variables<'a>,
    faults: Faults,
    profile: Profile,
    profile_line: Option<u32>,
    ended: bool,
    in_group: bool,
    in_transaction: bool,
    opened: Opened,
}

impl Reader<'_> {
    fn read(&mut self, text: &str) {
        let mut lexer = Lexer::new(text);
        loop {
            if self.faults.are_enough() {
                break;
            }
            match lexer.next_tag(&mut self.faults) {
                Ok(Some(Tag::Start { name, attributes, closed, line })) => self.start(name, &attributes, closed, line),
                Ok(Some(Tag::End { name, line })) => self.end(name, line),
                Ok(None) => break self.check_end(lexer.line()),
                Err(Stop) => break,
            }
        }
        self.check_groups();
    }

    fn start(&mut self, name: &str, attributes: &[Attribute<'_>], closed: bool, line: u32) {
        let lower = name.to_ascii_lowercase();
        let place = match lower.as_str() {
            "profile" if self.profile_line.is_some() => Err("there is one before"),
            "profile" => Ok(()),
            _ if !TAGS.contains(&lower.as_str()) => {
                let wrong = Wrong::new("there is no such tag").hint(did_you_mean(&lower, TAGS.iter().copied()));
                // What it was meant to open is unknown, so what follows is read as if it had been opened.
                return self.faults.add(line, format!("tag {}", shown(name)), wrong);
            }
            _ if self.profile_line.is_none() => Err("stands outside of <profile>"),
            _ if self.ended => Err("stands behind </profile>"),
            "group" if self.in_group => Err("stands inside of another group, which has no </group>"),
            "transaction" if !self.in_group => Err("stands outside of <group>"),
            "transaction" if self.in_transaction => Err("stands inside of another one, which has no </transaction>"),
            "flowop" if !self.in_transaction => Err("stands outside of <transaction>"),
            _ => Ok(()),
        };
        if let Err(why) = place {
            self.faults.add(line, format!("tag <{lower}>"), Wrong::new(why));
        }
        match lower.as_str() {
            "profile" => {
                self.profile_line.get_or_insert(line);
                self.profile.name = self.take(attributes, "profile", &["name"]).pop().flatten();
                self.ended |= closed;
            }
            "group" => {
                self.group(attributes, line);
                (self.in_group, self.in_transaction) = (!closed, false);
            }
            "transaction" => {
                self.transaction(attributes, line);
                self.in_transaction = !closed;
            }
            _ => self.flowop(attributes, line),
        }
    }

    fn end(&mut self, name: &str, line: u32) {
        let lower = name.to_ascii_lowercase();
        let was_open = match lower.as_str() {
            "profile" => self.profile_line.is_some() && !std::mem::replace(&mut self.ended, true),
            "group" => {
                self.in_transaction = false;
                std::mem::take(&mut self.in_group)
            }
            "transaction" => std::mem::take(&mut self.in_transaction),
            "flowop" => true,
            _ => {
                let wrong = Wrong::new("there is no such tag").hint(did_you_mean(&lower, TAGS.iter().copied()));
                return self.faults.add(line, format!("tag {}", shown(&format!("/{name}"))), wrong);
            }
        };
        if lower == "profile" && self.in_group {
            self.in_group = false;
            self.faults.add(line, "tag </profile>", Wrong::new("the last group has no </group>"));
        }
        if !was_open {
            self.note(line, format!("</{lower}> closes nothing"));
        }
    }

    /// The file is over.
    fn check_end(&mut self, line: u32) {
        match self.profile_line {
            None => {
                let wrong = Wrong::new("there is no <profile> in it").hint("a profile of uperf is wanted");
                self.faults.add(0, "", wrong);
            }
            Some(opened) if !self.ended => {
                let wrong = Wrong::new(format!("the file ends inside of the <profile> of line {opened}"));
                self.faults.add(line, "", wrong.hint("is it cut off? it must end with </profile>"));
            }
            Some(opened) if self.profile.groups.is_empty() && self.faults.count() == 0 => {
                self.faults.add(opened, "tag <profile>", Wrong::new("has no group"));
            }
            Some(_) => {}
        }
    }

    fn check_groups(&mut self) {
        let is_clean = self.faults.count() == 0;
        let mut strands = 0;
        for (i, group) in self.profile.groups.iter().enumerate() {
            let before = strands;
            strands += u64::from(group.strands);
            if before <= MOST_STRANDS && strands > MOST_STRANDS {
                let wrong = Wrong::new(format!("with this one there are {strands} strands"));
                self.faults.add(group.line, "tag <group>", wrong.hint(format!("at most {MOST_STRANDS} in all groups")));
            }
            if i == MOST_GROUPS {
                let wrong = Wrong::new("too many groups").hint(format!("at most {MOST_GROUPS}"));
                self.faults.add(group.line, "tag <group>", wrong);
            }
            if let Some(over) = group.transactions.get(MOST_TRANSACTIONS) {
                let wrong =
                    Wrong::new("too many transactions in its group").hint(format!("at most {MOST_TRANSACTIONS}"));
                self.faults.add(over.line, "tag <transaction>", wrong);
            }
            for transaction in &group.transactions {
                let has_duration = matches!(transaction.repeat, Repeat::Duration(_));
                if is_clean && has_duration && transaction.flowops.is_empty() {
                    // It would spin for its whole duration.
                    let wrong = Wrong::new("has a duration and no flowop");
                    self.faults.add(transaction.line, "tag <transaction>", wrong);
                }
            }
        }
    }

    fn group(&mut self, attributes: &[Attribute<'_>], line: u32) {
        let faults = self.faults.count();
        let values = self.take(attributes, "group", &["nthreads", "nprocs", "name"]);
        let [threads, processes, name] = <[Option<String>; 3]>::try_from(values).unwrap_or_default();
        let has_processes = processes.is_some();
        if threads.is_some() && has_processes {
            let wrong = Wrong::new("has both nthreads and nprocs").hint("keep one of them");
            self.faults.add(line, "tag <group>", wrong);
        }
        let count = match threads.or(processes) {
            Some(text) => {
                let attribute = if has_processes { "nprocs" } else { "nthreads" };
                let read = number::size(&text, MOST_STRANDS);
                let read = read.and_then(|n| if n == 0 { Err(Wrong::new("must be above 0")) } else { Ok(n) });
                self.or_fault(read, line_of(attributes, attribute, line), attribute, &text).unwrap_or(1)
            }
            None => {
                if self.faults.count() == faults {
                    let wrong = Wrong::new("says neither nthreads nor nprocs").hint("write nthreads=\"1\"");
                    self.faults.add(line, "tag <group>", wrong);
                }
                1
            }
        };
        let strands = u32::try_from(count).unwrap_or(u32::MAX);
        self.opened = Opened::default();
        self.profile.groups.push(Group { name, strands, processes: has_processes, transactions: Vec::new(), line });
    }

    fn transaction(&mut self, attributes: &[Attribute<'_>], line: u32) {
        let values = self.take(attributes, "transaction", &["iterations", "duration", "rate", "name"]);
        let [iterations, duration, rate, _name] = <[Option<String>; 4]>::try_from(values).unwrap_or_default();
        let at = |name: &str| line_of(attributes, name, line);
        let mut repeat = Repeat::Iterations(1);
        if let Some(text) = &iterations {
            let read = number::size(text, MOST_ITERATIONS);
            repeat = Repeat::Iterations(self.or_fault(read, at("iterations"), "iterations", text).unwrap_or(1));
        }
        if let Some(text) = &duration {
            let read = number::time_ns(text);
            if let Some((ns, is_m)) = self.or_fault(read, at("duration"), "duration", text) {
                repeat = Repeat::Duration(ns);
                if is_m {
                    self.note(at("duration"), format!("time {} is in milliseconds, as in uperf", shown(text)));
                }
            }
            if iterations.is_some() {
                self.note(line, "iterations have no effect beside a duration, as in uperf".to_owned());
            }
        }
        let mut rate_per_s = None;
        if let Some(text) = &rate {
            let read = number::size(text, MOST_RATE_PER_S);
            let rate = self.or_fault(read, at("rate"), "rate", text).filter(|rate| *rate > 0);
            if duration.is_some() {
                rate_per_s = rate.and_then(|rate| u32::try_from(rate).ok());
            } else {
                self.note(line, "rate has no effect without a duration, as in uperf".to_owned());
            }
        }
        if let Some(group) = self.profile.groups.last_mut() {
            group.transactions.push(Transaction { repeat, rate_per_s, flowops: Vec::new(), line });
        }
    }

    fn flowop(&mut self, attributes: &[Attribute<'_>], line: u32) {
        let before = self.faults.count();
        let mut values = self.take(attributes, "flowop", &["type", "options", "name"]);
        values.truncate(2);
        let [kind, options] = <[Option<String>; 2]>::try_from(values).unwrap_or_default();
        let kind_name = kind.as_deref().unwrap_or_default().trim().to_ascii_lowercase();
        let known = FlowopKind::ALL.iter().find(|(name, _)| *name == kind_name).map(|(_, kind)| *kind);
        if known.is_none() && kind.is_some() {
            let names = FlowopKind::ALL.iter().map(|(name, _)| *name);
            let wrong = Wrong::new("there is no such flowop").hint(did_you_mean(&kind_name, names));
            let at = line_of(attributes, "type", line);
            self.faults.add(at, format!("flowop {}", shown(kind.as_deref().unwrap_or_default())), wrong);
        } else if known.is_none() && self.faults.count() == before {
            let wrong = Wrong::new("says no type").hint("write type=\"read\"");
            self.faults.add(line, "tag <flowop>", wrong);
        }
        let options = self.options(&kind_name, options.as_deref(), attributes, line);
        let Some(kind) = known else { return self.opened.mark_uncertain() };
        let flowop = Flowop { kind, options, line };
        if self.faults.count() == before {
            self.opened.check(&flowop, &mut self.faults, &mut self.profile.notes);
        } else {
            self.opened.mark_uncertain();
        }
        let transaction = self.profile.groups.last_mut().and_then(|group| group.transactions.last_mut());
        if let Some(transaction) = transaction {
            transaction.flowops.push(flowop);
        }
    }

    fn options(&mut self, flowop: &str, text: Option<&str>, attributes: &[Attribute<'_>], line: u32) -> Options {
        let mut reader = OptionReader {
            flowop,
            variables: self.variables,
            faults: &mut self.faults,
            notes: &mut self.profile.notes,
            options: Options::default(),
            seen: BTreeSet::new(),
        };
        let attribute = attributes.iter().find(|a| a.name.eq_ignore_ascii_case("options"));
        let is_variable = attribute.is_some_and(|a| a.value.starts_with('$'));
        let first = attribute.map_or(line, |a| a.line);
        for (at, word) in words(text.unwrap_or_default(), first) {
            // The lines of what a variable holds are none of the file.
            reader.read(word, if is_variable { first } else { at });
            if reader.faults.are_enough() {
                break;
            }
        }
        reader.options
    }

    /// The values of the known attributes in the order of `known`, variables replaced; the others are faults.
    fn take(&mut self, attributes: &[Attribute<'_>], tag: &str, known: &[&str]) -> Vec<Option<String>> {
        let mut values = vec![None; known.len()];
        for attribute in attributes {
            if self.faults.are_enough() {
                break;
            }
            let lower = attribute.name.to_ascii_lowercase();
            let Some(slot) = known.iter().position(|name| *name == lower) else {
                let wrong = Wrong::new(format!("<{tag}> has no such attribute"));
                let wrong = wrong.hint(did_you_mean(&lower, known.iter().copied()));
                self.faults.add(attribute.line, format!("attribute {}", shown(attribute.name)), wrong);
                continue;
            };
            if values[slot].is_some() {
                let what = format!("attribute {}", shown(attribute.name));
                self.faults.add(attribute.line, what, Wrong::new("stands twice in one tag"));
            }
            // Each option has its own variables, unless all of them come from one.
            let is_list = lower == "options" && !attribute.value.starts_with('$');
            let is_name = lower == "name" && !attribute.value.starts_with('$');
            values[slot] = if is_list || is_name {
                Some(attribute.value.to_owned())
            } else {
                match resolve(attribute.value, self.variables) {
                    Ok(held) => Some(held.unwrap_or_else(|| attribute.value.to_owned())),
                    Err((what, wrong)) => {
                        self.faults.add(attribute.line, what, wrong);
                        None
                    }
                }
            };
        }
        values
    }

    /// The value, or a fault that names the attribute.
    fn or_fault<T>(&mut self, read: Result<T, Wrong>, line: u32, name: &str, text: &str) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(wrong) => {
                self.faults.add(line, format!("{name} {}", shown(text)), wrong);
                None
            }
        }
    }

    fn note(&mut self, line: u32, text: String) {
        self.profile.notes.push(Note { line, text });
    }
}

/// Where the value of an attribute stands.
fn line_of(attributes: &[Attribute<'_>], name: &str, tag_line: u32) -> u32 {
    attributes.iter().find(|a| a.name.eq_ignore_ascii_case(name)).map_or(tag_line, |a| a.line)
}
