//! Prepares and runs the members.

use crate::find;
use crate::mixed::gate::{Background, Foreground, Gate};
use crate::mixed::members::Members;
use holdup_catalogue::mixed::own;
use holdup_host::postgres::PostgresControl;
use holdup_load::{Cancel, PrepareContext, Prepared, TrialContext, TrialResult};
use holdup_model::plan::Level;
use holdup_model::trial::NamedHistogram;
use holdup_model::{Fact, Measurement, Parameters, Problem};
use std::collections::BTreeMap;

/// A background that its foreground does not end ends by itself after this much more time than the foreground
/// should take; it is a bound for what it keeps room for.
const SPARE_NS: u64 = 60_000_000_000;

struct Member {
    kind: &'static str,
    prepared: Box<dyn Prepared>,
}

/// The prepared members of all arms.
pub(crate) struct Session {
    members: Vec<Member>,
}

impl Session {
    /// Prepares every kind that takes part in some arm.
    ///
    /// # Errors
    /// When the members of an arm do not fit together, or one cannot be prepared.
    pub(crate) fn prepare(context: PrepareContext<'_>) -> Result<Self, Problem> {
        let mut kinds: Vec<&'static str> = Vec::new();
        for parameters in context.combinations {
            for kind in Members::read(parameters)?.all() {
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
        }
        let mut members = Vec::new();
        for kind in kinds {
            let workload = find(kind).ok_or_else(|| Problem::internal(format!("workload {kind}"), "it is gone"))?;
            let mut combinations: Vec<Parameters> = Vec::new();
            for parameters in context.combinations {
                let takes_part = Members::read(parameters)?.all().any(|member| member == kind);
                let own = own(kind, parameters);
                if takes_part && !combinations.contains(&own) {
                    combinations.push(own);
                }
            }
            // One preparation serves all combinations of a member, as their keys are those of one workload.
            let keys = |p: &Parameters| workload.session_key(p);
            if let Some(other) = combinations.iter().find(|p| keys(p) != keys(&combinations[0])) {
                return Err(Problem::usage(
                    format!("member {kind}"),
                    format!("its arms need different sessions: {} and {}", keys(&combinations[0]), keys(other)),
                )
                .hint("make it two workloads of the plan"));
            }
            let prepared = workload.prepare(PrepareContext {
                other_end: None,
                host: context.host,
                parameters: &own(kind, context.parameters),
                combinations: &combinations,
                metrics: context.metrics,
                postgres: context.postgres,
                workdir: context.workdir.clone(),
                cancel: context.cancel.clone(),
                step: context.step,
            })?;
            members.push(Member { kind, prepared });
        }
        Ok(Session { members })
    }
}

impl Prepared for Session {
    fn postgres(&self) -> Option<&dyn PostgresControl> {
        self.members.iter().find_map(|m| m.prepared.postgres())
    }

    fn scheduled_pids(&self) -> Vec<u32> {
        self.members.iter().flat_map(|m| m.prepared.scheduled_pids()).collect()
    }

    fn facts(&mut self) -> Vec<Fact> {
        self.members.iter_mut().flat_map(|m| m.prepared.facts()).collect()
    }

    fn set(&mut self, factors: &BTreeMap<String, Level>) -> Result<(), Problem> {
        self.members.iter_mut().try_for_each(|m| m.prepared.set(factors))
    }

    fn run(&mut self, trial: TrialContext<'_>) -> Result<TrialResult, Problem> {
        let taking = Members::read(trial.parameters)?;
        let mut front: Option<&mut Member> = None;
        let mut behind: Vec<&mut Member> = Vec::new();
        for member in &mut self.members {
            if member.kind == taking.foreground {
                front = Some(member);
            } else if taking.backgrounds.contains(&member.kind) {
                behind.push(member);
            }
        }
        let front = front.ok_or_else(|| Problem::internal(taking.foreground, "it was not prepared"))?;
        let (mut result, backgrounds) = together(front, behind, trial)?;
        for (kind, background) in backgrounds {
            add(&mut result, kind, background);
        }
        let absent = self.members.iter().map(|m| m.kind).filter(|kind| !taking.all().any(|member| member == *kind));
        for kind in absent {
            let metrics = find(kind).map(|w| w.metrics(&[])).unwrap_or_default();
            result.measurements.extend(metrics.into_iter().map(|metric| {
                Measurement::absent(format!("{kind}.{}", metric.id), format!("{kind} takes no part in this arm"))
            }));
        }
        Ok(result)
    }

    fn close(self: Box<Self>) -> Result<(), Problem> {
        let mut failed = None;
        for member in self.members.into_iter().rev() {
            failed = failed.or(member.prepared.close().err());
        }
        failed.map_or(Ok(()), Err)
    }
}

/// What each background brought.
type MemberResult = Vec<(&'static str, TrialResult)>;

/// Runs the foreground on this thread and each background on another.
fn together(
    front: &mut Member,
    behind: Vec<&mut Member>,
    trial: TrialContext<'_>,
) -> Result<(TrialResult, MemberResult), Problem> {
    let gate = Gate::default();
    // The backgrounds end by these two, also when the foreground fails.
    let (cancel, enough) = (Cancel::default(), Cancel::default());
    let (warmup_ns, seed) = (trial.warmup_ns, trial.seed);
    let length_ns = trial.duration_ns.saturating_add(SPARE_NS);
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for member in behind {
            let kind = member.kind;
            let own = own(kind, trial.parameters);
            let (gate, cancel, enough) = (&gate, cancel.clone(), enough.clone());
            running.push((
                kind,
                scope.spawn(move || {
                    let result = member.prepared.run(TrialContext {
                        parameters: &own,
                        warmup_ns,
                        duration_ns: length_ns,
                        seed,
                        cancel: cancel.clone(),
                        enough: enough.clone(),
                        window: &mut Background::new(gate, cancel),
                    });
                    if !enough.is_cancelled() {
                        gate.ended(kind, result.as_ref().err().cloned());
                    }
                    result
                }),
            ));
        }
        let mut hooks = Foreground {
            gate: &gate,
            backgrounds: running.len(),
            cancel: trial.cancel.clone(),
            enough: enough.clone(),
            hooks: trial.window,
        };
        let measured = front.prepared.run(TrialContext {
            parameters: &own(front.kind, trial.parameters),
            window: &mut hooks,
            ..trial
        });
        enough.cancel();
        if measured.is_err() {
            cancel.cancel();
        }
        let mut brought = Vec::new();
        let mut failed = None;
        for (kind, thread) in running {
            match thread.join() {
                Ok(Ok(result)) => brought.push((kind, result)),
                Ok(Err(problem)) => failed = failed.or(Some(of_background(kind, problem))),
                Err(_) => failed = failed.or(Some(Problem::trial(format!("background {kind}"), "it panicked"))),
            }
        }
        // A foreground that failed because a background had failed says so itself.
        let measured = measured?;
        failed.map_or(Ok((measured, brought)), Err)
    })
}

fn of_background(kind: &str, problem: Problem) -> Problem {
    Problem { what: format!("background {kind}: {}", problem.what), ..problem }
}

/// Adds what a background brought, behind its kind.
fn add(result: &mut TrialResult, kind: &str, background: TrialResult) {
    let named = |name: &str| format!("{kind}.{name}");
    result
        .measurements
        .extend(background.measurements.into_iter().map(|m| Measurement { metric: named(&m.metric), value: m.value }));
    result.histograms.extend(
        background.histograms.into_iter().map(|h| NamedHistogram { name: named(&h.name), histogram: h.histogram }),
    );
    result.notes.extend(background.notes.into_iter().map(|note| format!("{kind}: {note}")));
}
