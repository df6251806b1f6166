// What the page's data hold (schema holdup.report/1), as far as the charts read them.

export interface Level { value: boolean | number | string; label: string }
export interface Arm {
  id: number; label: string; workload: string; axes: Record<string, Level>; factors: Record<string, Level>;
  replica: string | null;
}
export interface Metric { id: string; unit: string; better: "higher" | "lower" }
export interface Estimate { value: number; low: number; high: number; n: number }
export interface Quantile { quantile: number; value_ns: number; thin: boolean }
export interface Summary {
  arm: number; metrics: { metric: string; value: number | null; mean: Estimate | null }[];
  quantiles: Record<string, Quantile[]>;
}
export interface Trial {
  seq: number; session: number; block: number; arm: number; void: string | null;
  measurements: { metric: string; value: number | null }[];
}
export interface Plan {
  metrics: { id: string; workload: string | null; primary: boolean }[];
  factors: { name: string; levels: Level[] }[];
  workloads: { name: string; axes: { name: string; levels: Level[] }[] }[];
}
export interface Report {
  plan: Plan; arms: Arm[]; metrics: { workload: string; metric: Metric }[]; arm_summaries: Summary[]; trials: Trial[];
}

export function read(): Report | null {
  const text = document.getElementById("data")?.textContent;
  return text ? (JSON.parse(text) as Report) : null;
}

/** What tells an arm from others at the same point of an axis. */
export function series(arm: Arm, without: string | null): string {
  const levels = [...Object.entries(arm.axes), ...Object.entries(arm.factors)].filter(([name]) => name !== without);
  const text = levels.map(([name, level]) => `${name}=${level.label}`).join(" ");
  const mark = arm.replica === "same" ? " (A/A)" : arm.replica === "unobserved" ? " (unobserved)" : "";
  return (text || "all") + mark;
}

export function metricName(metric: Metric): string {
  return metric.unit === "" || metric.id.endsWith(`_${metric.unit}`) ? metric.id : `${metric.id} (${metric.unit})`;
}

/** The first axis of a workload with at least two numbers. */
export function numericAxis(report: Report, workload: string): string | null {
  const axes = report.plan.workloads.find((w) => w.name === workload)?.axes ?? [];
  const numeric = axes.find((a) => a.levels.length > 1 && a.levels.every((l) => typeof l.value === "number"));
  return numeric?.name ?? null;
}

export function isPrimary(report: Report, workload: string, metric: string): boolean {
  return report.plan.metrics.some((m) => m.primary && m.id === metric && (m.workload === null || m.workload === workload));
}

/** The arm with every factor at its baseline and the same axes. */
export function baselineOf(report: Report, arm: Arm): Arm | undefined {
  const first = new Map(report.plan.factors.map((f) => [f.name, f.levels[0]?.label]));
  const same = (a: Record<string, Level>, b: Record<string, Level>) =>
    Object.keys(a).every((k) => a[k]?.label === b[k]?.label);
  return report.arms.find(
    (a) => a.workload === arm.workload && a.replica === null && same(a.axes, arm.axes) &&
      Object.entries(a.factors).every(([name, level]) => first.get(name) === level.label),
  );
}
