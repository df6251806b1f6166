//! `[hosts]`: the two ends of each trial on two hosts.

use crate::checker::Checker;
use crate::draft::{Draft, find};
use crate::errors::Wrong;
use crate::node::{Data, Entry};
use crate::words::{did_you_mean, shown};
use holdup_model::Hosts;

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
        let [server, client] = ["server", "client"].map(|key| match find(entries, key) {
            Some(entry) => self.host_name(entry),
            None => {
                let wrong = Wrong::new(format!("it does not say which host is the {key}"))
                    .hint("[hosts] server = \"HOST\", client = \"HOST\"");
                self.complain(&first.place, "[hosts]", wrong);
                None
            }
        });
        let hosts = Hosts { server: server?, client: client?, address };
        let target = format!("ssh:{}", hosts.server);
        if hosts.server == hosts.client {
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

    /// A name, or a list of one.
    fn host_name(&mut self, entry: &Entry) -> Option<String> {
        let what = format!("{} = {}", entry.key, entry.node.written());
        let wrong = match entry.node.levels() {
            [node] => match &node.data {
                Data::Text(text) if !text.trim().is_empty() && !text.contains(char::is_whitespace) => {
                    return Some(text.clone());
                }
                _ => Wrong::new("it is no name of a host").hint("as `ssh` takes it: HOST, USER@HOST, an alias"),
            },
            nodes => Wrong::new(format!("it names {} hosts, and an end is one", nodes.len()))
                .hint("one host makes the load; a factor `host` compares hosts"),
        };
        self.complain(&entry.node.place, what, wrong);
        None
    }
}
