// Numbers as a reader wants them; the same rules as the tables of the page.

/** At most four significant digits, thousands with commas. */
export function number(x: number): string {
  if (x !== 0 && (Math.abs(x) >= 1e12 || Math.abs(x) < 1e-6)) return x.toExponential(3);
  const digits = x === 0 ? 0 : Math.min(9, Math.max(0, 3 - Math.floor(Math.log10(Math.abs(x)))));
  return x.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** A number on an axis: as short as it can be. */
export function tick(x: number): string {
  return Math.abs(x) >= 1000 ? `${(x / 1000).toLocaleString("en-US", { maximumFractionDigits: 3 })}k` : String(+x.toPrecision(4));
}

/** A time on an axis or in a tip, from ns. */
export function time(ns: number, digits = 4): string {
  const [per, unit] = ns >= 1e9 ? [1e9, "s"] : ns >= 1e6 ? [1e6, "ms"] : ns >= 1e3 ? [1e3, "µs"] : [1, "ns"];
  return `${(+(ns / per).toPrecision(digits)).toLocaleString("en-US")} ${unit}`;
}

export const percentile = (quantile: number): string => `p${+(100 * quantile).toFixed(4)}`;

/** The ratio as `×1.03`. */
export const times = (ratio: number, digits = 3): string => `×${ratio.toFixed(digits)}`;

/** Places for marks on a logarithmic axis of times: 1, 2, 5 where there is room, else powers of ten. */
export function timeTicks([low, high]: [number, number]): number[] {
  const decades = Math.log10(high / low);
  const steps = decades <= 1.7 ? [1, 2, 5] : decades <= 2.4 ? [1, 3] : [1];
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const step of steps) ticks.push(step * 10 ** power);
  }
  return ticks.filter((t) => t >= low && t <= high);
}

/** Places for marks on a logarithmic axis of ratios. */
export function ratioTicks([low, high]: [number, number]): number[] {
  const wide = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100];
  const near = [0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2];
  const close = [0.9, 0.92, 0.94, 0.96, 0.98, 1, 1.02, 1.04, 1.06, 1.08, 1.1];
  const spread = high / low;
  return (spread < 1.25 ? close : spread < 4 ? near : wide).filter((t) => t >= low && t <= high);
}
