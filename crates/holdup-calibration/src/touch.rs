//! Writes to pages that are mapped.

use super::bench::{on_cpu, pieces_ns, repeats};
use super::pages::Pages;
use super::samples::quiet;
use super::{Context, Cost, Samples};
use holdup_model::Problem;

pub(super) const COST: Cost = Cost {
    name: "touch_ns",
    docs: "a byte written to each of 256 mapped pages of 4 KB in turn, 40 passes; caches and TLB are as warm as that makes \
           them",
    measure,
};

fn measure(context: &Context) -> Result<Samples, Problem> {
    on_cpu(context.cpu()?, || {
        let pages = Pages::small(256)?;
        pages.touch_all();
        repeats("writes to pages", || Ok(quiet(pieces_ns(40, 4, || pages.touch_all())).map(|ns| ns / pages.count())))
    })
}
