//! `[hosts]`: the two ends of each trial on two or more hosts.

use crate::checker::Checker;
use crate::draft::{Draft, find};
use crate::errors::Wrong;
use crate::node::{Data, Entry, Node};
use crate::words::{did_you_mean, shown};
use holdup_model::Hosts;
use holdup_model::ends::MOST_CLIENT_HOSTS;
use std::collections::BTreeSet;

/// The keys of `[hosts]`.
pub(crate) const HOSTS_KEYS: &[&str] = &["server", "client", "address"];

impl Checker<'_> {
    /// The ends of a plan that has two, and the target that follows from them.
    pub(crate) fn hosts(&mut self, draft: &Draft) -> Option<(Hosts, String)> {
        let entries = &draft.hosts;
        let first = entries.first()?;
        for entry in entries.iter().filter(|e| !HOSTS_KEYS.contains(&e.key.as_str())) {
            let wrong = Wrong::new("[hosts] has no such key").hint(did_you_mean(&entry.key, HOSTS_KEYS));
            self.complain(&entry.place, format!("key `{}`", shown(&entry.key)), wrong);
        }
        let address = find(entries, "address").and_then(|entry| self.host_name(entry));
        let server = self.end(entries, "server").and_then(|entry| self.host_name(entry));
        let clients = self.end(entries, "client").and_then(|entry| self.host_names(entry));
        let hosts = Hosts { server: server?, clients: clients?, address };
        let target = format!("ssh:{}", hosts.server);
        if hosts.clients.contains(&hosts.server) {
            let wrong = Wrong::new(format!("both ends are {}", shown(&hosts.server)))
                .hint(format!("--target {target} without [hosts] makes the load on the host under test"));
            self.complain(&first.place, "[hosts]", wrong);
        }
        if let Some(entry) = find(&draft.head, "target") {
            let says = matches!(&entry.node.data, Data::Text(text) if *text == target || text == "ssh");
            if !says {
                let wrong = Wrong::new(format!("[hosts] has the target {target}")).hint("leave the target away");
                self.complain(&entry.node.place, format!("target = {}", entry.node.written()), wrong);
            }
        }
        Some((hosts, target))
    }

    /// What is said of one of the ends, which must be there.
    fn end<'e>(&mut self, entries: &'e [Entry], key: &str) -> Option<&'e Entry> {
        let found = find(entries, key);
        if let (None, Some(first)) = (found, entries.first()) {
            let wrong = Wrong::new(format!("it does not say which host is the {key}"))
                .hint("[hosts] server = \"HOST\", client = \"HOST\" or [\"HOST\", \"HOST\"]");
            self.complain(&first.place, "[hosts]", wrong);
        }
        found
    }

    /// A name, or a list of one.
    fn host_name(&mut self, entry: &Entry) -> Option<String> {
        match entry.node.levels() {
            [node] => self.name_in(entry, node),
            nodes => {
                let wrong = Wrong::new(format!("it names {} hosts, and there is one {}", nodes.len(), entry.key))
                    .hint("client may name several; a factor `host` compares hosts");
                self.complain(&entry.node.place, written(entry), wrong);
                None
            }
        }
    }

    /// A name, or a list of names that differ.
    fn host_names(&mut self, entry: &Entry) -> Option<Vec<String>> {
        let nodes = entry.node.levels();
        let names: Vec<String> = nodes.iter().map(|node| self.name_in(entry, node)).collect::<Option<_>>()?;
        let mut seen = BTreeSet::new();
        let wrong = match names.iter().find(|name| !seen.insert(name.as_str())) {
            Some(twice) => Wrong::new(format!("{} is named twice", shown(twice))).hint("each host once"),
            None if (1..=MOST_CLIENT_HOSTS).contains(&names.len()) => return Some(names),
            None => Wrong::new(format!("it names {} hosts", names.len())).hint(format!("1 to {MOST_CLIENT_HOSTS}")),
        };
        self.complain(&entry.node.place, written(entry), wrong);
        None
    }

    fn name_in(&mut self, entry: &Entry, node: &Node) -> Option<String> {
        match &node.data {
            Data::Text(text) if !text.trim().is_empty() && !text.contains(char::is_whitespace) => Some(text.clone()),
            _ => {
                let wrong = Wrong::new("it is no name of a host").hint("as `ssh` takes it: HOST, USER@HOST, an alias");
                self.complain(&entry.node.place, written(entry), wrong);
                None
            }
        }
    }
}

fn written(entry: &Entry) -> String {
    format!("{} = {}", entry.key, entry.node.written())
}
