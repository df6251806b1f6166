//! What the options of a search say.

use crate::commands::searching::share;
use holdup_model::tuning::Bound;
use holdup_search::Asked;

/// A guard as it was asked for: the metric and its bound.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct GuardAsked {
    pub(super) metric: String,
    pub(super) bound: Bound,
    /// Which way it is meant, where the text says it: `<=` or `>=`.
    pub(super) at_most: Option<bool>,
}

/// `KEY=V1,V2`; `\,` is a comma in a value.
pub(super) fn values(text: &str) -> Result<Asked, String> {
    let wrong = || "it is not KEY=V1,V2".to_owned();
    let (key, values) = text.split_once('=').ok_or_else(wrong)?;
    let values = values.replace("\\,", "\0");
    let values: Vec<String> = values.split(',').map(|value| value.trim().replace('\0', ",")).collect();
    let is_good = !key.is_empty() && values.iter().all(|value| !value.is_empty());
    is_good.then(|| (key.to_owned(), values)).ok_or_else(wrong)
}

/// `METRIC=+5%`, `METRIC<=VALUE` or `METRIC>=VALUE`.
pub(super) fn guard(text: &str) -> Result<GuardAsked, String> {
    let wrong = || "it is not METRIC=+5%, METRIC<=VALUE or METRIC>=VALUE".to_owned();
    for (sign, at_most) in [("<=", true), (">=", false)] {
        if let Some((metric, value)) = text.split_once(sign) {
            let value = value.trim().parse::<f64>().ok().filter(|v| *v > 0.0 && v.is_finite()).ok_or_else(wrong)?;
            return Ok(GuardAsked { metric: name(metric)?, bound: Bound::Value(value), at_most: Some(at_most) });
        }
    }
    let (metric, allowed) = text.split_once('=').ok_or_else(wrong)?;
    // A number without its unit may be one of the metric.
    let percent = allowed.trim().strip_suffix('%').map(|_| allowed.trim().trim_start_matches(['+', '-']));
    let allowed = share(percent.ok_or_else(wrong)?).map_err(|_| wrong())?;
    Ok(GuardAsked { metric: name(metric)?, bound: Bound::Share(allowed), at_most: None })
}

fn name(metric: &str) -> Result<String, String> {
    let metric = metric.trim();
    if metric.is_empty() { Err("the metric is missing".to_owned()) } else { Ok(metric.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_are_shares_or_values() {
        let of = |text| guard(text).map(|g| (g.metric, g.bound, g.at_most));
        assert_eq!(of("p99=+5%"), Ok(("p99".into(), Bound::Share(0.05), None)));
        assert_eq!(of("tps=-10%"), Ok(("tps".into(), Bound::Share(0.1), None)));
        assert_eq!(of("p99 <= 200"), Ok(("p99".into(), Bound::Value(200.0), Some(true))));
        assert_eq!(of("tps>=1e3"), Ok(("tps".into(), Bound::Value(1000.0), Some(false))));
        for wrong in ["p99", "=5%", "p99=x", "p99=+5", "p99<=0", "p99<=-1", "p99=nan"] {
            assert!(guard(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_have_commas_between() {
        assert_eq!(values("a=1, 2"), Ok(("a".into(), vec!["1".into(), "2".into()])));
        assert_eq!(values("a=x\\,y"), Ok(("a".into(), vec!["x,y".into()])));
        for wrong in ["a", "a=", "a=1,,2", "=1"] {
            assert!(values(wrong).is_err(), "{wrong}");
        }
    }
}
