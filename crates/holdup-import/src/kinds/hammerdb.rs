//! HammerDB: its log, and the output of its jobs.

use super::{Kind, metric};
use crate::number::{leading_ns, number};
use crate::{Input, Results, Sample};
use holdup_model::Direction::Higher;
use holdup_model::{Measurement, Meta, Problem};

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "hammerdb",
        summary: "HammerDB's log of TPROC-C, or the output of a job as JSON",
        docs: "Each `TEST RESULT` is a run, and numbers of virtual users and databases are arms. NOPM is new orders per minute, which is comparable between \
               databases; TPM is a counter of the database, for PostgreSQL commits and rollbacks of all databases of the server, so it is comparable with \
               itself only. Both are means of the whole period, so no distribution is known. A run is void if a virtual user failed, even after a result \
               that looks whole.",
        references: &["HammerDB 4.0, src/postgresql/pgoltp.tcl; hammerdb.com/docs4.0, 9.7 and 10.5"],
    },
    looks_like: |head| head.contains("Vuser 1:") || head.contains("TEST RESULT : System achieved"),
    read,
    folder: None,
};

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let mut results = Results {
        metrics: vec![
            metric("new_orders_per_min", "1/min", Higher, "new orders per minute (NOPM)"),
            metric(
                "transactions_per_min",
                "1/min",
                Higher,
                "transactions per minute, as the database counts them (TPM)",
            ),
        ],
        cautions: vec!["HammerDB's TPM is a counter of the database: it is comparable with itself only.".to_owned()],
        ..Results::default()
    };
    let mut run: Option<Sample> = None;
    while let Some(line) = input.line()? {
        if line.contains("Beginning rampup time of ") {
            results.samples.extend(run.replace(Sample::default()).map(whole));
        } else if let Some((_, minutes)) = line.split_once("Timing test period of ") {
            run.get_or_insert_default().length_ns = Some(leading_ns(input, minutes, 60e9)?);
        } else if let Some((users, _)) = line.split_once(" Active Virtual Users configured") {
            let users = users.rsplit([':', '"', ' ']).next().unwrap_or_default();
            run.get_or_insert_default().labels.insert("users".to_owned(), users.to_owned());
        } else if let Some((_, result)) = line.split_once("TEST RESULT : System achieved ") {
            let sample = run.get_or_insert_default();
            if !sample.measurements.is_empty() {
                results.samples.push(std::mem::take(sample));
            }
            achieved(input, result, sample)?;
        } else if line.contains("FINISHED FAILED") {
            run.get_or_insert_default().void.get_or_insert_with(|| format!("{}: a virtual user failed", line.trim()));
        }
    }
    results.samples.extend(run.map(whole));
    Ok(results)
}

/// `8043 NOPM from 16365 Oracle TPM`, and before version 4 `0 Oracle TPM at 27975 NOPM`.
fn achieved(input: &Input<'_>, result: &str, sample: &mut Sample) -> Result<(), Problem> {
    let words: Vec<&str> = result.trim_end_matches(['"', ',']).split_whitespace().collect();
    let (orders, transactions, database) = match words.as_slice() {
        [orders, "NOPM", "from", transactions, database @ .., "TPM"] => (orders, transactions, database),
        [transactions, database @ .., "TPM", "at", orders, "NOPM"] => (orders, transactions, database),
        _ => return Err(input.problem(format!("{result:?} has no NOPM and TPM: the line was cut"))),
    };
    sample.labels.insert("database".to_owned(), database.join(" "));
    let (orders, transactions) = (number(input, orders)?, number(input, transactions)?);
    sample.measurements.push(Measurement::new("new_orders_per_min", orders));
    sample.measurements.push(match transactions {
        0.0 if orders > 0.0 => Measurement::absent("transactions_per_min", "the counter of the database was not read"),
        _ => Measurement::new("transactions_per_min", transactions),
    });
    Ok(())
}

fn whole(sample: Sample) -> Sample {
    sample.or_void("there is no result: the run was cut or failed")
}
