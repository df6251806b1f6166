//! The Phoronix Test Suite's XML (`composite.xml`).

use super::{Folder, Kind, each, metric};
use crate::input::place;
use crate::number::parse;
use crate::{Input, Results, Sample};
use holdup_model::Direction::{Higher, Lower};
use holdup_model::{Fact, Measurement, Meta, Problem};
use std::collections::BTreeSet;

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "phoronix",
        summary: "the Phoronix Test Suite's composite.xml, or its folder of results",
        docs: "Each number of `RawString` is a run; without it, the value is a mean and the runs are not known. The systems of a file are what is compared, and the \
               first one is the baseline. Tests are workloads, their settings are arms. The unit and the direction are those of the file; a result without a direction \
               is left out. The suite runs a test again until its deviation is small, so the deviation of its runs is too small. It runs all tests on one \
               system before the next.",
        references: &["phoronix-test-suite 10.8.4, pts-core/objects/pts_result_file_writer.php"],
    },
    looks_like: |head| head.contains("<PhoronixTestSuite>"),
    read,
    folder: Some(Folder { holds: |path| path.ends_with("composite.xml"), parts: &[], join: each }),
};

/// A part of the document.
#[derive(Clone, Copy)]
struct Part<'a> {
    name: &'a str,
    document: &'a str,
    text: &'a str,
}

impl<'a> Part<'a> {
    /// The parts between `<tag>` and `</tag>`.
    fn all(self, tag: &str) -> Result<Vec<Part<'a>>, Problem> {
        let (begin, end) = (format!("<{tag}>"), format!("</{tag}>"));
        let (mut found, mut rest) = (Vec::new(), self.text);
        while let Some(at) = rest.find(&begin) {
            let inner = &rest[at + begin.len()..];
            let Some(length) = inner.find(&end) else {
                return Err(
                    Part { text: &rest[at..], ..self }.problem(format!("{begin} without its end: the file was cut"))
                );
            };
            found.push(Part { text: &inner[..length], ..self });
            rest = &inner[length + end.len()..];
        }
        Ok(found)
    }

    /// The text of the first `<tag>`, unless it is empty.
    fn text(self, tag: &str) -> Result<Option<Part<'a>>, Problem> {
        let first = self.all(tag)?.into_iter().next();
        Ok(first.map(|part| Part { text: part.text.trim(), ..part }).filter(|part| !part.text.is_empty()))
    }

    fn plain(self) -> String {
        let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
        entities.iter().fold(self.text.to_owned(), |text, (entity, plain)| text.replace(entity, plain))
    }

    fn number(self, text: &str) -> Result<f64, Problem> {
        parse(text, |why| self.problem(why))
    }

    fn problem(self, why: impl Into<String>) -> Problem {
        let offset = (self.text.as_ptr() as usize).saturating_sub(self.document.as_ptr() as usize);
        Problem::usage(place(self.name, (0, 0), self.document.as_bytes(), offset), why)
    }
}

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let bytes = input.rest(3)?;
    let document = String::from_utf8_lossy(&bytes);
    let whole = Part { name: input.name(), document: &document, text: &document };
    let (mut results, mut ids) = (Results::default(), BTreeSet::new());
    let Some(suite) = whole.all("PhoronixTestSuite")?.into_iter().next() else {
        return Err(whole.problem("there is no <PhoronixTestSuite> in it"));
    };
    let systems = suite.all("System")?;
    if let [one] = systems[..] {
        let software = one.text("Software")?.map(Part::plain).unwrap_or_default();
        let kernel = software.split(", ").find_map(|part| part.strip_prefix("Kernel: "));
        let release = kernel.and_then(|kernel| kernel.split_whitespace().next());
        results.facts.extend(release.map(|release| Fact::read("kernel.release", release, "Phoronix Test Suite")));
    }
    let (mut without_direction, mut means) = (0, 0);
    for result in suite.all("Result")? {
        let (Some(title), Some(data)) = (result.text("Title")?, result.text("Data")?) else {
            return Err(result.problem("a result without a title or data"));
        };
        let better = match result.text("Proportion")?.map(|part| part.text) {
            Some("HIB") => Higher,
            Some("LIB") => Lower,
            _ => {
                without_direction += 1;
                continue;
            }
        };
        let unit = result.text("Scale")?.map(Part::plain).unwrap_or_default();
        let id = format!("{}_{}", if better == Higher { "result" } else { "cost" }, words(&unit));
        results.add_metric(&mut ids, metric(&id, &unit, better, "the result of the test, in its own unit"));
        let mut labels = vec![("benchmark".to_owned(), title.plain())];
        labels.extend(result.text("Description")?.map(|part| ("setting".to_owned(), part.plain())));
        for entry in data.all("Entry")? {
            let base = Sample {
                compared: entry.text("Identifier")?.map(Part::plain),
                labels: labels.iter().cloned().collect(),
                ..Sample::default()
            };
            let numbers = match (entry.text("RawString")?, entry.text("Value")?) {
                (Some(raw), _) => raw.text.split(':').map(|text| raw.number(text)).collect::<Result<Vec<_>, _>>()?,
                (None, Some(value)) => {
                    means += 1;
                    vec![value.number(value.text)?]
                }
                (None, None) => {
                    let void = Some("there is no value: the test failed".to_owned());
                    input.keep(&mut results, Some(Sample { void, ..base }))?;
                    continue;
                }
            };
            let sample =
                |number: f64| Sample { measurements: vec![Measurement::new(id.as_str(), number)], ..base.clone() };
            input.keep(&mut results, numbers.into_iter().map(sample))?;
        }
    }
    if without_direction > 0 {
        results
            .cautions
            .push(format!("{without_direction} results do not say which direction is better: they were left out."));
    }
    if means > 0 {
        results.cautions.push(format!("{means} results have a mean only, which counts as one run."));
    }
    results.cautions.push(
        "The suite repeats a test until its deviation is small: the deviation of its runs is too small.".to_owned(),
    );
    Ok(results)
}

/// A unit as a part of a name: `MB/s` is `mb_per_s`.
fn words(unit: &str) -> String {
    let unit = unit.to_lowercase().replace('/', " per ");
    let parts = unit.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("_")
}
