//! Profiles: good ones give their settings, errors of bad ones are reported, and no text makes the checker panic.

use crate::common;
use holdup_model::profile::Setting;
use holdup_model::{Profile, Value};
use holdup_plan::{PlanErrors, check_profile};
use proptest::prelude::*;

fn check(file: &str, text: &str) -> Result<Profile, PlanErrors> {
    check_profile(file, text, common::MACHINE, &common::vocabulary())
}

#[test]
fn good_profiles_come_to_what_they_say() {
    let profiles = common::plans("profiles-good");
    assert_eq!(profiles.len(), 2);
    for (file, text) in profiles {
        let profile = check(&file, &text).unwrap_or_else(|errors| panic!("{errors}"));
        let line = |s: &Setting| {
            let optional = if s.optional { ", optional" } else { "" };
            format!("  {} = {:?}, shown as {}{optional}\n", s.knob, s.level.value, s.level.label)
        };
        let settings: String = profile.settings.iter().map(line).collect();
        insta::assert_snapshot!(
            file.trim_end_matches(".toml"),
            format!("{}: {}\n{settings}", profile.name, profile.summary)
        );
    }
}

#[test]
fn errors_of_bad_profiles_are_reported() {
    let cases = common::table("profiles.cases");
    assert!(cases.len() >= 20, "the corpus is there");
    common::compare("profiles.cases", &cases, |case| {
        let file = &case.name;
        let Err(errors) = check(file, &case.text) else { panic!("{file} was taken for a good profile") };
        for error in &errors.errors {
            assert!(error.line > 0 && error.column > 0, "{file}: {error}");
        }
        format!("{errors}\n")
    });
}

#[test]
fn a_huge_file_is_refused_and_not_read() {
    let errors = check("x.toml", &"#".repeat(2 << 20)).unwrap_err();
    assert!(errors.to_string().contains("too large for a profile"), "{errors}");
    let many: String = (0..5000).map(|i| format!("postgres.a{i} = 1\n")).collect();
    let errors = check("x.toml", &format!("[knobs]\n{many}")).unwrap_err();
    assert!(errors.to_string().contains("more than the 500"), "{errors}");
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,8}",
        "\\PC{0,4}",
        Just("[knobs]\n".to_owned()),
        Just("autogroup = ".to_owned()),
        Just("\"postgres.x\" = ".to_owned()),
        Just("{ value = ".to_owned()),
        Just("optional = true }\n".to_owned()),
        Just("name = ".to_owned()),
        Just("\"5ms\"\n".to_owned()),
        Just("migration-cost = ".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_brings_it_down(words in prop::collection::vec(word(), 0..20)) {
        let text = words.concat();
        match check("any.toml", &text) {
            Err(errors) => prop_assert!(!errors.errors.is_empty() && !errors.to_string().is_empty()),
            Ok(profile) => {
                prop_assert!(!profile.settings.is_empty());
                let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
                prop_assert!(!profile.name.is_empty() && profile.name.chars().all(fits), "{}", profile.name);
                prop_assert!(!profile.summary.contains(char::is_control));
            }
        }
    }

    /// What is read is what was written: every value under its knob, in the order of the file.
    #[test]
    fn values_come_through(autogroup in any::<bool>(), us in 0_u32..4_000_000, pages in any::<u32>(), optional in any::<bool>()) {
        let text = format!(
            "[knobs]\nhuge-pages-reserved = {pages}\nautogroup = {{ value = {autogroup}, optional = {optional} }}\nmigration-cost = \"{us}us\"\n"
        );
        let profile = check("p.toml", &text).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let got: Vec<(&str, Value, bool)> =
            profile.settings.iter().map(|s| (s.knob.as_str(), s.level.value.clone(), s.optional)).collect();
        let expected = vec![
            ("huge-pages-reserved", Value::Integer(pages.into()), false),
            ("autogroup", Value::Bool(autogroup), optional),
            ("migration-cost", Value::Integer(i64::from(us) * 1000), false),
        ];
        prop_assert_eq!(got, expected);
    }
}
