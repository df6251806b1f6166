//! What frames are read as: by cases with their expectation, and by thousands of random ones with tshark 4.6 as the judge.

mod cases;
mod lines;
mod random;

holdup_testkit::tests!(
    cases::a_connection_is_with_the_end_of_a_route,
    cases::each_is_read_as_expected,
    cases::tshark_reads_each_the_same,
    random::tshark_reads_random_frames_the_same
);
