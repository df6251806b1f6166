//! Clients think between short statements: nothing is wrong.

use crate::situations::{QUIET, Situation, USUAL, judge_beside};
use holdup_model::outcome::FindingVerdict;
use std::time::Duration;

static SITUATION: Situation = Situation { name: "think time", ..QUIET };

pub(crate) fn sessions_that_think() {
    let (_, arm, ()) = judge_beside(&SITUATION, USUAL, |server| {
        server.sessions(10, |client| {
            std::thread::sleep(Duration::from_millis(20));
            client.simple_query("SELECT 1").is_ok()
        });
    });
    for cause in arm.causes.iter().filter(|c| c.verdict == FindingVerdict::Refuted) {
        let contradicts = cause.share.as_ref().is_some_and(|share| share.high >= cause.minimum);
        assert!(!contradicts || !arm.answer.contains(&cause.name), "{} {cause:#?}", arm.answer);
    }
}
