//! holdfast's mutex whose release fetches the line for writing before it reads the word, so that it crosses the machine once.

use super::holdfast;
use crate::locking::Algorithm;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    id: "holdfast-one-fetch",
    only_simulated: Some("a proposal for holdfast, to be measured before it is real"),
    released: holdfast::gives_back,
    ..holdfast::ALGORITHM
};
