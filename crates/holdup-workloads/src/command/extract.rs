//! Reading metrics from what a program output.

use crate::command::tail::Tail;
use holdup_model::plan::{Extract, MetricChoice};
use holdup_model::{Direction, Measured, Metric, Problem};
use regex::bytes::Regex;

/// A metric that the plan defines, ready to be read.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) id: String,
    from: From,
}

#[derive(Debug)]
enum From {
    Regex(Regex),
    Json(String),
    Duration,
}

/// What a program output and how long it took.
pub(crate) struct Output<'a> {
    pub(crate) stdout: &'a mut Tail,
    pub(crate) stderr: &'a mut Tail,
    pub(crate) duration_s: f64,
}

/// The metrics that a plan defines for a command, as tables show them.
pub(crate) fn metrics(chosen: &[MetricChoice]) -> Vec<Metric> {
    let metric = |choice: &MetricChoice| {
        let (unit, better, summary) = match choice.from.as_ref()? {
            Extract::Duration => ("s", Direction::Lower, "the program's own duration".to_owned()),
            Extract::Regex(regex) => ("1", Direction::Higher, format!("from its output, by the expression {regex}")),
            Extract::Json(pointer) => ("1", Direction::Higher, format!("from its output, at {pointer}")),
        };
        Some(Metric {
            id: choice.id.clone(),
            unit: choice.unit.clone().unwrap_or_else(|| unit.to_owned()),
            better: choice.better.unwrap_or(better),
            summary,
        })
    };
    chosen.iter().filter_map(metric).collect()
}

/// The definitions of a plan, compiled.
pub(crate) fn definitions(chosen: &[MetricChoice]) -> Result<Vec<Definition>, Problem> {
    let mut all = Vec::new();
    for choice in chosen {
        let from = match &choice.from {
            None => continue,
            Some(Extract::Duration) => From::Duration,
            Some(Extract::Json(pointer)) => From::Json(pointer.clone()),
            Some(Extract::Regex(regex)) => From::Regex(Regex::new(regex).map_err(|e| wrong(&choice.id, regex, &e))?),
        };
        all.push(Definition { id: choice.id.clone(), from });
    }
    Ok(all)
}

fn wrong(id: &str, regex: &str, error: &regex::Error) -> Problem {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
    Problem::usage(format!("metric {id}"), format!("the expression `{regex}` is not valid: {last}"))
        .hint("the syntax is that of Rust's regex crate: no look-around, no back-references")
}

/// True if a definition needs all of stdout.
pub(crate) fn needs_whole_output(definitions: &[Definition]) -> bool {
    definitions.iter().any(|d| matches!(d.from, From::Json(_)))
}

impl Definition {
    /// The metric's value, or why there is none.
    pub(crate) fn read(&self, output: &mut Output<'_>) -> Measured {
        let found = match &self.from {
            From::Duration => Ok(output.duration_s),
            From::Json(pointer) => json(pointer, output.stdout),
            From::Regex(regex) => by_regex(regex, output),
        };
        match found {
            Ok(value) if value.is_finite() => Measured::Value(value),
            Ok(value) => Measured::Absent(format!("not a finite number ({value})")),
            Err(why) => Measured::Absent(why),
        }
    }
}

/// The last match in stdout; when there is none, the last one in stderr.
fn by_regex(regex: &Regex, output: &mut Output<'_>) -> Result<f64, String> {
    if let Some(text) = last_match(regex, output.stdout) {
        return number(&text);
    }
    if let Some(text) = last_match(regex, output.stderr) {
        return number(&text);
    }
    let dropped = output.stdout.dropped() + output.stderr.dropped();
    let place = if dropped > 0 {
        format!("the end of its output ({dropped} bytes were not kept)")
    } else {
        "its output".into()
    };
    Err(format!("nothing in {place} matches `{regex}`"))
}

/// The first group of the last match, or all of it where the expression has no group.
fn last_match(regex: &Regex, stream: &mut Tail) -> Option<String> {
    let last = regex.captures_iter(stream.whole_lines()).last()?;
    let found = last.get(1).or_else(|| (last.len() == 1).then(|| last.get(0)).flatten())?;
    Some(String::from_utf8_lossy(found.as_bytes()).into_owned())
}

fn number(text: &str) -> Result<f64, String> {
    text.trim().parse().map_err(|_| format!("`{}` is not a number", text.trim()))
}

/// A number, or text that is one, at a JSON pointer (RFC 6901).
fn json(pointer: &str, stdout: &mut Tail) -> Result<f64, String> {
    if stdout.dropped() > 0 {
        return Err(format!("its output is too long to be read as JSON, {} bytes were not kept", stdout.dropped()));
    }
    let document: serde_json::Value = serde_json::from_slice(stdout.whole_lines())
        .map_err(|e| format!("its output is not one JSON document: {e}"))?;
    match document.pointer(pointer) {
        None => Err(format!("there is nothing at {pointer} in its output")),
        Some(serde_json::Value::Number(n)) => n.as_f64().ok_or_else(|| format!("{n} at {pointer} is too large")),
        Some(serde_json::Value::String(text)) => number(text),
        Some(_) => Err(format!("what stands at {pointer} in its output is not a number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(id: &str, from: Extract) -> MetricChoice {
        MetricChoice {
            id: id.to_owned(),
            workload: None,
            primary: false,
            better: None,
            unit: None,
            margin: 0.02,
            from: Some(from),
        }
    }

    fn read(from: Extract, stdout: &str, stderr: &str) -> String {
        let definitions = definitions(&[choice("m", from)]).expect("valid");
        let tails = [stdout, stderr].map(|text| {
            let mut tail = Tail::new(64);
            tail.push(text.as_bytes());
            tail
        });
        let [mut stdout, mut stderr] = tails;
        let mut output = Output { stdout: &mut stdout, stderr: &mut stderr, duration_s: 1.5 };
        match definitions[0].read(&mut output) {
            Measured::Value(v) => v.to_string(),
            Measured::Absent(why) => format!("absent: {why}"),
        }
    }

    #[test]
    fn regular_expressions_take_the_last_match() {
        let check = |regex: &str, stdout: &str, stderr: &str, expect: &str| {
            assert_eq!(
                read(Extract::Regex(regex.to_owned()), stdout, stderr),
                expect,
                "{regex} in {stdout:?}, {stderr:?}"
            );
        };
        check("tps = ([0-9.]+)", "tps = 1.5\ntps = 2.5\n", "", "2.5");
        check("tps = ([0-9.]+)", "", "tps = 7\n", "7");
        check("tps = ([0-9.]+)", "tps = 1\n", "tps = 7\n", "1");
        check("[0-9]+", "a 12 b 34", "", "34");
        check("tps = (.*)", "tps = 1e3\n", "", "1000");
        check("tps = (.*)", "tps = fast\n", "", "absent: `fast` is not a number");
        check("tps = (.*)", "tps = inf\n", "", "absent: not a finite number (inf)");
        check("a(x)?", "a", "", "absent: nothing in its output matches `a(x)?`");
        check("tps", "", "", "absent: nothing in its output matches `tps`");
        let long = format!("tps = 5\n{}\n", "y".repeat(64));
        check(
            "tps = (.*)",
            &long,
            "",
            "absent: nothing in the end of its output (9 bytes were not kept) matches `tps = (.*)`",
        );
    }

    #[test]
    fn json_pointers_lead_to_numbers() {
        let check = |pointer: &str, stdout: &str, expect: &str| {
            assert_eq!(read(Extract::Json(pointer.to_owned()), stdout, "noise"), expect, "{pointer} in {stdout}");
        };
        check("/jobs/0/iops", r#"{"jobs":[{"iops":12.5}]}"#, "12.5");
        check("/a~1b", r#"{"a/b":"7"}"#, "7");
        check("", "3\n", "3");
        check("/x", r#"{"x":null}"#, "absent: what stands at /x in its output is not a number");
        check("/y", r#"{"x":1}"#, "absent: there is nothing at /y in its output");
        check("/x", "x=1", "absent: its output is not one JSON document: expected value at line 1 column 1");
        check("/x", "{} {}", "absent: its output is not one JSON document: trailing characters at line 1 column 4");
        check("/x", &" ".repeat(65), "absent: its output is too long to be read as JSON, 1 bytes were not kept");
    }

    #[test]
    fn durations_are_in_seconds() {
        assert_eq!(read(Extract::Duration, "", ""), "1.5");
    }

    #[test]
    fn a_wrong_expression_is_reported_with_its_metric() {
        let problem = definitions(&[choice("tps", Extract::Regex("(".to_owned()))]).expect_err("not closed");
        assert_eq!(
            problem.to_string(),
            "metric tps: the expression `(` is not valid: unclosed group\n\
             hint: the syntax is that of Rust's regex crate: no look-around, no back-references"
        );
    }
}
