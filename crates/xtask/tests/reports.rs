//! Records of published reports, their pages and their bundles.

use xtask::{Repo, repo, reports};

fn records_keep_the_rules_and_pages_are_made_from_them() {
    let wrong = reports::check(&Repo::here().expect("the repository can be read"));
    assert!(wrong.is_empty(), "{} to mend:\n  {}", wrong.len(), wrong.join("\n  "));
}

fn every_number_of_a_kept_run_is_computed_from_it() {
    let unpacked = std::env::temp_dir().join(format!("holdup-reports-{}", std::process::id()));
    std::fs::create_dir_all(&unpacked).expect("a folder");
    let wrong = reports::not_of_their_bundles(&repo::root(), &unpacked);
    std::fs::remove_dir_all(&unpacked).expect("it is there");
    let wrong = wrong.expect("every bundle can be read");
    assert!(wrong.is_empty(), "{} to mend:\n  {}", wrong.len(), wrong.join("\n  "));
}

holdup_testkit::tests!(
    records_keep_the_rules_and_pages_are_made_from_them,
    every_number_of_a_kept_run_is_computed_from_it
);
