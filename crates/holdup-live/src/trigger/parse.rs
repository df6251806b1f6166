//! The text of a condition.

use super::{Of, Operator, Selected, Trigger};
use crate::families::{self, Family, Kind};
use holdup_analysis::explanations;
use holdup_model::Problem;
use holdup_model::units::parse_duration_ns;

/// How long a condition may have to hold, ns.
const TIMES_NS: std::ops::RangeInclusive<u64> = 1_000_000_000..=86_400_000_000_000;
/// A longer one is a mistake.
const LONGEST: usize = 1_000;

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

/// Reads all of it.
pub(super) fn trigger(text: &str) -> Result<Trigger, Problem> {
    if text.len() > LONGEST {
        return Err(Problem::usage("trigger", format!("it is longer than {LONGEST} bytes")));
    }
    let mut reader = Reader { text, at: 0 };
    let of = reader.of()?;
    let operator = reader.operator()?;
    let bound = reader.bound()?;
    let for_ns = if reader.takes("for") { reader.time_ns()? } else { 0 };
    reader.space();
    if reader.at < text.len() {
        return Err(reader.wrong("nothing more is expected here"));
    }
    Ok(Trigger { text: text.trim().to_owned(), of, operator, bound, for_ns, held_ns: 0, is_on: false })
}

impl<'a> Reader<'a> {
    fn wrong(&self, why: &str) -> Problem {
        let what = format!("trigger `{}`, character {}", self.text, self.text[..self.at].chars().count() + 1);
        Problem::usage(what, why)
            .hint("examples: share(preempted-holder) > 20% · p99(holdup_run_queue_wait_seconds) > 10ms for 30s")
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Goes past this text if it is next.
    fn takes(&mut self, wanted: &str) -> bool {
        self.space();
        let is_next = self.rest().starts_with(wanted);
        self.at += if is_next { wanted.len() } else { 0 };
        is_next
    }

    fn must_take(&mut self, wanted: &str) -> Result<(), Problem> {
        if self.takes(wanted) { Ok(()) } else { Err(self.wrong(&format!("`{wanted}` is expected here"))) }
    }

    fn word(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        self.space();
        let rest = self.rest();
        let end = rest.find(|c| !accept(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn of(&mut self) -> Result<Of, Problem> {
        self.space();
        let begin = self.at;
        let name = self.word(|c| c.is_ascii_alphanumeric() || c == '_');
        if name == "share" {
            self.must_take("(")?;
            let cause = self.cause()?;
            self.must_take(")")?;
            return Ok(Of::Share(cause));
        }
        if let Some(digits) = name.strip_prefix('p').filter(|d| !d.is_empty() && d.chars().all(|c| c.is_ascii_digit()))
        {
            let quantile = format!("0.{digits}").parse().map_err(|_| self.wrong("this is no quantile"))?;
            self.must_take("(")?;
            self.space();
            let inner = self.at;
            let name = self.word(|c| c.is_ascii_alphanumeric() || c == '_');
            let (family, selected) = self.selected(name, inner)?;
            if family.kind != Kind::Histogram {
                return Err(self.wrong(&format!("{name} has no distribution")));
            }
            self.must_take(")")?;
            return Ok(Of::Quantile(quantile, selected));
        }
        let (_, selected) = self.selected(name, begin)?;
        Ok(Of::Sum(selected))
    }

    fn cause(&mut self) -> Result<String, Problem> {
        self.space();
        let begin = self.at;
        let cause = self.word(|c| c.is_ascii_alphanumeric() || c == '-');
        if explanations::ALL.iter().any(|e| e.meta.id == cause) {
            return Ok(cause.to_owned());
        }
        self.at = begin;
        let known: Vec<&str> = explanations::ALL.iter().map(|e| e.meta.id).collect();
        Err(self.wrong("there is no such cause").hint(format!("causes: {}", known.join(", "))))
    }

    /// The labels behind the name of a family.
    fn selected(&mut self, name: &str, begin: usize) -> Result<(&'static Family, Selected), Problem> {
        let bare = name.strip_suffix("_total").unwrap_or(name);
        let Some(family) = families::all().find(|family| family.name == bare) else {
            self.at = begin;
            return Err(self.wrong("there is no such metric").hint("`holdup list metrics` has their names and labels"));
        };
        let mut labels = Vec::new();
        if self.takes("{") {
            while !self.takes("}") {
                labels.push(self.label(family)?);
                if !self.takes(",") {
                    self.must_take("}")?;
                    break;
                }
            }
        }
        Ok((family, Selected { family: bare.to_owned(), labels }))
    }

    fn label(&mut self, family: &Family) -> Result<(String, String), Problem> {
        self.space();
        let begin = self.at;
        let name = self.word(|c| c.is_ascii_alphanumeric() || c == '_');
        if !family.labels.contains(&name) {
            self.at = begin;
            return Err(self.wrong(&format!("the labels of {} are {}", family.name, family.labels.join(", "))));
        }
        self.must_take("=")?;
        self.must_take("\"")?;
        let rest = self.rest();
        let Some(end) = rest.find('"') else { return Err(self.wrong("the value has no second quotation mark")) };
        self.at += end + 1;
        Ok((name.to_owned(), rest[..end].to_owned()))
    }

    fn operator(&mut self) -> Result<Operator, Problem> {
        let known =
            [(">=", Operator::AtLeast), ("<=", Operator::AtMost), (">", Operator::Above), ("<", Operator::Below)];
        let found = known.into_iter().find(|(text, _)| self.takes(text));
        found.map(|(_, operator)| operator).ok_or_else(|| self.wrong("one of > >= < <= is expected here"))
    }

    /// A number with its unit: `20%`, `10ms`, `3`.
    fn bound(&mut self) -> Result<f64, Problem> {
        self.space();
        let begin = self.at;
        let digits = self.word(|c| c.is_ascii_digit() || c == '.');
        let Some(number) = digits.parse::<f64>().ok().filter(|n| n.is_finite()) else {
            self.at = begin;
            return Err(self.wrong("a number is expected here"));
        };
        let unit_at = self.at;
        let unit = if self.rest().starts_with(char::is_whitespace) {
            ""
        } else {
            self.word(|c| c.is_alphabetic() || c == '%')
        };
        let scale = match unit {
            "" | "s" => 1.0,
            "%" => 0.01,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => {
                self.at = unit_at;
                return Err(self.wrong("units are %, s, ms, us, ns"));
            }
        };
        Ok(number * scale)
    }

    /// A time: `30s`, `5m`.
    fn time_ns(&mut self) -> Result<u64, Problem> {
        self.space();
        let begin = self.at;
        let time_ns = parse_duration_ns(self.word(char::is_alphanumeric)).filter(|ns| TIMES_NS.contains(ns));
        time_ns.ok_or_else(|| {
            self.at = begin;
            self.wrong("a time of 1s to 24h is expected here")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_compared() {
        let of = |text: &str| trigger(text).map(|t| (t.of, t.operator, t.bound, t.for_ns)).map_err(|p| p.to_string());
        let selected = |family: &str, labels: &[(&str, &str)]| Selected {
            family: family.to_owned(),
            labels: labels.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect(),
        };
        let share = Of::Share("preempted-holder".to_owned());
        assert_eq!(of(" share( preempted-holder )>20% "), Ok((share, Operator::Above, 0.2, 0)));
        let waits = selected("holdup_run_queue_wait_seconds", &[("role", "server"), ("after", "wake_up")]);
        assert_eq!(
            of("p99(holdup_run_queue_wait_seconds{role=\"server\",after=\"wake_up\"}) >= 10ms for 5m"),
            Ok((Of::Quantile(0.99, waits), Operator::AtLeast, 0.01, 300_000_000_000))
        );
        let sum = Of::Sum(selected("holdup_task_seconds", &[("wait_event", "a b, }")]));
        assert_eq!(of("holdup_task_seconds_total{wait_event=\"a b, }\"} < 5"), Ok((sum, Operator::Below, 5.0, 0)));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, why) in [
            ("", "there is no such metric"),
            ("share(gremlins) > 1%", "there is no such cause"),
            ("share(nothing", "`)` is expected"),
            ("holdup_no_such_thing > 1", "there is no such metric"),
            ("p99(holdup_switches) > 1", "has no distribution"),
            ("holdup_switches{colour=\"red\"} > 1", "the labels of holdup_switches are role, state"),
            ("holdup_switches{role=\"red} > 1", "no second quotation mark"),
            ("holdup_switches = 1", "one of > >= < <="),
            ("holdup_switches > many", "a number is expected"),
            ("holdup_switches > 1.2.3", "a number is expected"),
            ("holdup_switches > 10 for ever", "a time of 1s to 24h"),
            ("holdup_switches > 10kg", "units are"),
            ("holdup_switches > 10 or so", "nothing more is expected"),
            ("p99(ü) > 1", "there is no such metric"),
        ] {
            let problem = trigger(text).expect_err(text);
            assert!(problem.why.contains(why), "{text}: {problem}");
        }
        assert!(trigger(&"x".repeat(2_000)).is_err());
    }
}
