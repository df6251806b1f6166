//! The checks of the repository that no compiler makes. `cargo xtask tidy` prints the same.

use xtask::{Repo, budgets, catalogues, constants, invariants, layers, opens, platforms, purity, site, texts, web};

fn repo() -> Repo {
    let repo = Repo::here().expect("the repository can be read");
    assert!(repo.files.len() > 50, "only {} files: this is not the repository", repo.files.len());
    repo
}

fn nothing(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} to mend:\n  {}", wrong.len(), wrong.join("\n  "));
}

fn dependencies_point_down() {
    let (crates, edges) = layers::edges().expect("cargo metadata");
    assert!(crates.len() > 10 && edges.len() > 20);
    nothing(&layers::check(&repo(), &crates, &edges));
}

fn engines_are_pure() {
    nothing(&purity::check(&repo()));
}

fn every_catalogue_file_is_listed() {
    nothing(&catalogues::check(&repo()));
}

fn the_table_of_platforms_is_that_of_the_code() {
    nothing(&platforms::check(&repo()));
}

fn texts_keep_the_rules() {
    nothing(&texts::check(&repo()));
}

fn budgets_are_kept() {
    let repo = repo();
    nothing(&budgets::check(&repo, &budgets::count(&repo, None).expect("the repository can be counted")));
}

fn invariants_name_their_tests() {
    nothing(&invariants::check(&repo()));
}

fn web_bundle_is_current() {
    nothing(&web::check(&repo()));
}

fn files_of_others_are_opened_in_one_place() {
    nothing(&opens::check(&repo()));
}

fn files_that_are_acted_upon_stand_in_the_page_on_security() {
    nothing(&opens::own_reads(&repo()));
}

fn numbers_of_the_pages_are_those_of_the_code() {
    nothing(&constants::check(&repo()));
}

fn links_of_the_documentation_lead_somewhere() {
    nothing(&site::links::check(&repo()));
}

fn commands_of_tutorials_are_run_or_say_why_not() {
    nothing(&site::commands::check(&repo()));
}

holdup_testkit::tests!(
    dependencies_point_down,
    engines_are_pure,
    every_catalogue_file_is_listed,
    the_table_of_platforms_is_that_of_the_code,
    texts_keep_the_rules,
    budgets_are_kept,
    invariants_name_their_tests,
    web_bundle_is_current,
    files_of_others_are_opened_in_one_place,
    files_that_are_acted_upon_stand_in_the_page_on_security,
    numbers_of_the_pages_are_those_of_the_code,
    links_of_the_documentation_lead_somewhere,
    commands_of_tutorials_are_run_or_say_why_not
);
