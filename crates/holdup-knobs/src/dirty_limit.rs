//! A limit of dirty memory, which the kernel keeps as a share or as an amount.

use crate::refused::{garbled, probe_file, wrong};
use crate::sample::Sample;
use crate::{Knob, KnobContext};
use holdup_host::Host;
use holdup_model::profile::Destination;
use holdup_model::{Availability, Meta, ParameterKind, Problem, Value, units};

/// A knob that is such a limit.
pub(crate) struct DirtyLimit {
    /// What it says about itself.
    pub(crate) meta: &'static Meta,
    /// The file of the share; the kernel shows 0 while the amount is in force.
    pub(crate) ratio: &'static str,
    /// The file of the amount; 0 while the share is in force.
    pub(crate) bytes: &'static str,
    /// What tests set of it.
    pub(crate) samples: &'static [Sample],
}

/// What a value stands for.
#[derive(Debug, PartialEq)]
enum Amount {
    Percent(u64),
    Bytes(u64),
}

/// Less than this is no limit that anybody wants. The kernel takes two pages (mm/page-writeback.c:dirty_bytes_min), and what was
/// found is put back however small it is.
const LEAST_BYTES: u64 = 1 << 20;

const EXPECTED: &str = "a share such as 20%, or an amount of 1MB or more";

fn amount(text: &str) -> Option<Amount> {
    match text.trim().strip_suffix('%') {
        Some(share) => share.trim().parse().ok().filter(|share| *share <= 100).map(Amount::Percent),
        None => units::size(text).ok().filter(|bytes| *bytes > 0).map(Amount::Bytes),
    }
}

impl DirtyLimit {
    fn number(&self, host: &Host, path: &str) -> Result<u64, Problem> {
        let text = host.read_value(path)?;
        text.parse().map_err(|_| garbled(path, &text))
    }
}

impl Knob for DirtyLimit {
    fn meta(&self) -> &'static Meta {
        self.meta
    }

    fn values(&self) -> ParameterKind {
        ParameterKind::Text
    }

    fn samples(&self) -> &'static [Sample] {
        self.samples
    }

    fn touches(&self, _instance: &str) -> String {
        format!("{} or {}, for the whole host", self.ratio, self.bytes)
    }

    fn probe(&self, context: &KnobContext<'_>, _instance: &str) -> Availability {
        probe_file(context.host, self.ratio, || Availability::unavailable(format!("{} does not exist", self.ratio)))
    }

    fn read(&self, context: &KnobContext<'_>, _instance: &str) -> Result<Value, Problem> {
        // A host without the second file has shares only.
        let bytes = if context.host.exists(self.bytes) { self.number(context.host, self.bytes)? } else { 0 };
        Ok(Value::Text(match bytes {
            0 => format!("{}%", self.number(context.host, self.ratio)?),
            bytes => bytes.to_string(),
        }))
    }

    fn write(&self, context: &KnobContext<'_>, _instance: &str, value: &Value) -> Result<(), Problem> {
        match amount(&value.to_string()) {
            Some(Amount::Percent(share)) => Ok(context.host.write(self.ratio, &share.to_string())?),
            Some(Amount::Bytes(bytes)) => Ok(context.host.write(self.bytes, &bytes.to_string())?),
            None => Err(wrong(self.meta.id, value, EXPECTED)),
        }
    }

    fn same(&self, a: &Value, b: &Value) -> bool {
        let (a, b) = (amount(&a.to_string()), amount(&b.to_string()));
        a.is_some() && a == b
    }

    fn check(&self, _instance: &str, value: &Value) -> Result<(), Problem> {
        let is_good = |text: &str| match amount(text) {
            Some(Amount::Bytes(bytes)) => bytes >= LEAST_BYTES,
            found => found.is_some(),
        };
        match value {
            Value::Text(text) if is_good(text) => Ok(()),
            _ => Err(wrong(self.meta.id, value, EXPECTED)),
        }
    }

    fn by_hand(&self, _instance: &str, saved: &Value) -> String {
        match amount(&saved.to_string()) {
            Some(Amount::Bytes(bytes)) => format!("echo {bytes} > {}", self.bytes),
            Some(Amount::Percent(share)) => format!("echo {share} > {}", self.ratio),
            None => format!("write {saved} to {}", self.ratio),
        }
    }

    fn destinations(&self, _instance: &str, value: &Value) -> Vec<Destination> {
        let sysctl = |path: &str, value: u64| Destination::Sysctl {
            key: path.trim_start_matches("/proc/sys/").replace('/', "."),
            value: value.to_string(),
        };
        match amount(&value.to_string()) {
            Some(Amount::Bytes(bytes)) => vec![sysctl(self.bytes, bytes)],
            Some(Amount::Percent(share)) => vec![sysctl(self.ratio, share)],
            None => Vec::new(),
        }
    }
}
