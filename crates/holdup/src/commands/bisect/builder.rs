//! Makes candidates ready: trees of commits, what is built in them, and kernels.

use holdup_kernels::{Cache, Options, Spec};
use holdup_model::progress::Silent;
use holdup_model::search::Candidate;
use holdup_model::{Observer, ProblemKind};
use holdup_search::{Ahead, Made, Repository};
use std::path::PathBuf;
use std::time::Instant;

/// What candidates are made with.
#[derive(Clone)]
pub(super) struct Builder {
    pub(super) repository: Option<Repository>,
    /// The shell command that builds a tree.
    pub(super) build: Option<String>,
    pub(super) options: Options,
    /// The cache of kernels, where the candidates are kernels.
    pub(super) kernels: Option<PathBuf>,
}

impl Builder {
    /// Makes a candidate ready, unless that was done before. Commits have trees, and kernels `spec`s.
    pub(super) fn make(&self, candidate: &Candidate, spec: &str, observer: &mut dyn Observer) -> Made {
        let begun = Instant::now();
        let built = match &self.repository {
            Some(repository) => repository.build(&candidate.name, self.build.as_deref(), &self.options, observer)?,
            None => None,
        };
        let Some(cache) = &self.kernels else { return Ok(built) };
        let options = Options { arch: std::env::consts::ARCH.to_owned(), ..self.options.clone() };
        let got = Cache::open(cache)?.get(&Spec::parse(spec)?, &options, observer);
        // What does not build is skipped.
        got.map_err(|problem| match problem.kind {
            ProblemKind::Host | ProblemKind::Usage => problem.of_kind(ProblemKind::Trial),
            _ => problem,
        })?;
        Ok(built.map(|_| begun.elapsed().as_secs_f64()))
    }

    /// A thread that does it while trials run.
    pub(super) fn ahead(&self, spec: impl Fn(&Candidate) -> String + Send + 'static) -> Ahead {
        let builder = self.clone();
        Ahead::new(Box::new(move |candidate, cancel| {
            let options = Options { cancel: Some(cancel), ..builder.options.clone() };
            Builder { options, ..builder.clone() }.make(candidate, &spec(candidate), &mut Silent)
        }))
    }
}
