//! Tables and charts of a bundle: one, or all of them as files of a folder.

use super::Format;
use crate::commands::report::write_file;
use crate::output;
use holdup_bundle::Rows;
use holdup_export::Computed;
use holdup_model::table::{self, TableKind};
use holdup_model::{Analysis, BundleData, Explanation, Problem, Table};
use holdup_report::Chart;
use std::cell::OnceCell;
use std::io::IsTerminal;
use std::path::Path;

/// What stands for every table or chart.
const ALL: &str = "all";

/// Writes a table, or all of them, as Arrow or Parquet.
pub(super) fn tables(rows: Rows, wanted: &str, format: Format, out: Option<&Path>) -> Result<(), Problem> {
    let kinds = table::kinds();
    let source = Source { rows, analysed: OnceCell::new() };
    let (encode, ending): (fn(&Table) -> Vec<u8>, _) = match format {
        Format::Arrow => (holdup_export::arrow, "arrow"),
        _ => (holdup_export::parquet, "parquet"),
    };
    if wanted == ALL {
        let folder = folder(out, "--table")?;
        for kind in kinds.values() {
            write_bytes(&folder.join(format!("{}.{ending}", kind.name)), &encode(&source.table(kind)?))?;
        }
        output::say(&format!("wrote {} tables into {}", kinds.len(), folder.display()));
        return Ok(());
    }
    let kind = kinds.get(wanted).ok_or_else(|| {
        let names: Vec<&str> = kinds.keys().map(String::as_str).collect();
        Problem::usage(format!("--table {wanted}"), "there is no such table")
            .hint(format!("one of {}, or {ALL}", names.join(", ")))
    })?;
    write(&encode(&source.table(kind)?), ending, &format!("{wanted}.{ending}"), out)
}

/// Writes a file that is no text; `name` is one for it.
pub(super) fn write(bytes: &[u8], format: &str, name: &str, out: Option<&Path>) -> Result<(), Problem> {
    match out.filter(|out| *out != Path::new("-")) {
        Some(out) => {
            write_bytes(out, bytes)?;
            output::say(&format!("wrote {}", out.display()));
            Ok(())
        }
        None if std::io::stdout().is_terminal() => {
            Err(Problem::usage(format!("--format {format}"), "is no text, and stdout is a terminal")
                .hint(format!("write it to a file: -o {name}")))
        }
        None => output::bytes(bytes),
    }
}

/// What tables are made of; analysed once, for those that need it.
struct Source {
    rows: Rows,
    analysed: OnceCell<(Analysis, Explanation)>,
}

impl Source {
    fn table(&self, kind: &TableKind) -> Result<Table, Problem> {
        if kind.query.is_some() {
            return self.rows.table(kind);
        }
        let bundle = self.rows.data();
        let analysed = || (holdup_analysis::analyse(bundle), holdup_analysis::explain(bundle));
        let (analysis, explanation) = self.analysed.get_or_init(analysed);
        holdup_export::computed(kind, &Computed { bundle, analysis, explanation })
            .ok_or_else(|| Problem::internal(kind.name.clone(), "a table that is neither read nor computed"))
    }
}

/// Writes a chart, or all of them, as SVG.
pub(super) fn charts(bundle: &BundleData, wanted: Option<&str>, out: Option<&Path>) -> Result<(), Problem> {
    let analysis = holdup_analysis::analyse(bundle);
    let (charts, series) = holdup_report::charts(bundle, &analysis);
    let draw = |chart: &Chart| {
        holdup_export::svg(chart, &series)
            .ok_or_else(|| Problem::usage(format!("--chart {}", chart.id), "there is nothing in it to draw"))
    };
    let Some(first) = charts.first() else {
        return Err(Problem::usage("--format svg", "this bundle has no charts: no trial of it counts")
            .hint("`holdup report` shows why"));
    };
    if wanted == Some(ALL) {
        let folder = folder(out, "--chart")?;
        for chart in &charts {
            write_bytes(&folder.join(format!("{}.svg", chart.id)), draw(chart)?.as_bytes())?;
        }
        output::say(&format!("wrote {} charts into {}", charts.len(), folder.display()));
        return Ok(());
    }
    let found = wanted.map_or(Some(first), |wanted| charts.iter().find(|c| c.id == wanted));
    let chart = found.ok_or_else(|| {
        let names: Vec<String> = charts.iter().map(|c| format!("{} ({})", c.id, c.title)).collect();
        Problem::usage(format!("--chart {}", wanted.unwrap_or_default()), "this bundle has no such chart")
            .hint(format!("one of {ALL}\n{}", names.join("\n")))
    })?;
    write_file(out.unwrap_or(Path::new("-")), &draw(chart)?)
}

/// The folder that is written into, which is made where it is not there.
fn folder<'a>(out: Option<&'a Path>, option: &str) -> Result<&'a Path, Problem> {
    let out = out.filter(|out| *out != Path::new("-")).ok_or_else(|| {
        Problem::usage(format!("{option} {ALL}"), "writes several files").hint("name a folder with -o")
    })?;
    holdup_files::Folder::make_to_fill(out).map_err(|e| {
        let what = format!("cannot make the folder {}", out.display());
        Problem::host(what, e.to_string()).hint("name another folder")
    })?;
    Ok(out)
}

fn write_bytes(out: &Path, bytes: &[u8]) -> Result<(), Problem> {
    holdup_files::write_output(out, bytes).map_err(|e| crate::commands::report::unwritable(out, &e))
}
