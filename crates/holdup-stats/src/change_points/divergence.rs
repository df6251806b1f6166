//! The energy statistic of every split of a series, in O(n log n).

/// Sorted values with what is needed to go through orders of them again and again.
///
/// A series is handed over as ranks (places in `sorted`). The same rank may come several times or not
/// at all, so that a resampled series needs no sorting.
pub(super) struct Splits {
    sorted: Vec<f64>,
    /// Fenwick's tree over the ranks: how many values were seen, and their sum.
    seen: Vec<(f64, f64)>,
    /// How often each rank comes.
    times: Vec<u32>,
    /// Sum of the distances from a rank's value to all values that count.
    distances: Vec<f64>,
    /// Sum of the distances of all pairs of the first values, for each number of them.
    before: Vec<f64>,
    /// 1 / i for each i.
    inverse: Vec<f64>,
}

impl Splits {
    /// For the values, and the rank of each of them; equal values have ranks in the order of the series.
    pub(super) fn of(values: &[f64]) -> (Splits, Vec<u32>) {
        let mut order: Vec<u32> = (0_u32..).take(values.len()).collect();
        order.sort_by(|&i, &j| values[i as usize].total_cmp(&values[j as usize]));
        let mut ranks = vec![0; values.len()];
        for (rank, &i) in (0_u32..).zip(&order) {
            ranks[i as usize] = rank;
        }
        let n = values.len();
        // Distances do not depend on where zero is, and rounding does: the middle value is the best zero.
        let middle = order.get(n / 2).map_or(0.0, |&i| values[i as usize]);
        let sorted = order.iter().map(|&i| values[i as usize] - middle).collect();
        let splits = Splits {
            sorted,
            seen: vec![(0.0, 0.0); n + 1],
            times: vec![0; n],
            distances: vec![0.0; n],
            before: Vec::with_capacity(n + 1),
            inverse: (0..=n).map(|i| 1.0 / i as f64).collect(),
        };
        (splits, ranks)
    }

    /// The difference between the largest and the smallest value.
    pub(super) fn span(&self) -> f64 {
        match (self.sorted.first(), self.sorted.last()) {
            (Some(low), Some(high)) => high - low,
            _ => 0.0,
        }
    }

    /// Gives Q of each split of the series' first `end` values, for each of a few rising ends: the last split first.
    /// A split is the index of the first value after it.
    ///
    /// With n values before and m after the split, each side at least `min_segment` (2 or more):
    /// Q = nm/(n+m) · (2·mean |x−y| between − mean |x−x'| before − mean |y−y'| after),
    /// the means over pairs of different places.
    pub(super) fn each(
        &mut self,
        ranks: &[u32],
        ends: impl Iterator<Item = usize>,
        min_segment: usize,
        mut visit: impl FnMut(usize, f64),
    ) {
        self.go_through(ranks);
        self.times.fill(0);
        let mut counted = 0;
        for end in ends {
            for &rank in &ranks[counted..end] {
                self.times[rank as usize] += 1;
            }
            counted = end;
            let ranks = &ranks[..end];
            self.sum_distances(end);
            let pairs = self.before[end];
            let mut after = 0.0;
            for (split, &rank) in ranks.iter().enumerate().skip(min_segment).rev() {
                after += self.distances[rank as usize] - (self.before[split + 1] - self.before[split]);
                if end - split < min_segment {
                    continue;
                }
                let before = self.before[split];
                // The formula above with nm/(n+m) multiplied into it; a division for each mean costs more than the rest.
                let (n, m) = (split, end - split);
                let scatter_before = before * m as f64 * self.inverse[n - 1];
                let scatter_after = after * n as f64 * self.inverse[m - 1];
                let q = 2.0 * (pairs - before - after - scatter_before - scatter_after) * self.inverse[end];
                visit(split, q);
            }
        }
    }

    /// The split with the largest Q and that Q, over `ends` ends evenly through the series; `None` when
    /// there is no room for two segments.
    pub(super) fn best(&mut self, ranks: &[u32], ends: usize, min_segment: usize) -> Option<(usize, f64)> {
        let (n, shortest) = (ranks.len(), 2 * min_segment);
        let step = n.div_ceil(ends.max(1)).max(min_segment);
        let ends = (0..n.div_ceil(step)).rev().map(|i| n - i * step).filter(|&end| end >= shortest);
        let mut best: Option<(usize, f64)> = None;
        self.each(ranks, ends, min_segment, |split, q| {
            // Of two that differ by rounding the first one seen is taken, in any unit.
            if best.is_none_or(|(_, most)| q > most + 1e-10 * most.abs()) {
                best = Some((split, q));
            }
        });
        best
    }

    /// Sums the distances of all pairs of the first values, for each number of them.
    fn go_through(&mut self, ranks: &[u32]) {
        self.seen.fill((0.0, 0.0));
        self.before.clear();
        self.before.push(0.0);
        let (mut seen_sum, mut before) = (0.0, 0.0);
        for (place, &rank) in ranks.iter().enumerate() {
            let x = self.sorted[rank as usize];
            let (count_below, sum_below) = self.below(rank);
            before += 2.0 * (x * count_below - sum_below) + seen_sum - x * place as f64;
            self.before.push(before);
            self.see(rank, x);
            seen_sum += x;
        }
    }

    /// Sums each value's distances to the n values that `times` counts.
    fn sum_distances(&mut self, n: usize) {
        let all: f64 = self.sorted.iter().zip(&self.times).map(|(x, &times)| x * f64::from(times)).sum();
        let n = n as f64;
        let (mut count, mut sum) = (0.0, 0.0);
        for ((x, &times), distance) in self.sorted.iter().zip(&self.times).zip(&mut self.distances) {
            *distance = x * (2.0 * count - n) + all - 2.0 * sum;
            count += f64::from(times);
            sum += x * f64::from(times);
        }
    }

    /// Count and sum of the values seen whose rank is smaller.
    fn below(&self, rank: u32) -> (f64, f64) {
        let (mut count, mut sum) = (0.0, 0.0);
        let mut node = rank as usize;
        while node > 0 {
            count += self.seen[node].0;
            sum += self.seen[node].1;
            node &= node - 1;
        }
        (count, sum)
    }

    fn see(&mut self, rank: u32, x: f64) {
        let mut node = rank as usize + 1;
        while let Some(entry) = self.seen.get_mut(node) {
            entry.0 += 1.0;
            entry.1 += x;
            node += node & node.wrapping_neg();
        }
    }
}
