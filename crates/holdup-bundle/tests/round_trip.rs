//! What is written is what is read.

use crate::common;
use common::{create, names, next_trial, sample, write};
use holdup_model::bundle::Ending;
use holdup_model::{EvidenceItem, Measured, Measurement, MemoryBudget, ProblemKind};

fn a_bundle_reads_back_as_it_was_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.holdup");
    let data = sample(3);
    write(&path, &data).expect("is written");
    assert_eq!(holdup_bundle::read(&path).expect("is read"), data);
    assert_eq!(names(folder.path()), ["a.holdup"], "one file and nothing beside it");

    let wholeness = holdup_bundle::verify(&path, &MemoryBudget::default()).expect("is verified");
    assert!(wholeness.whole, "{wholeness:#?}");
    insta::assert_snapshot!(wholeness.lines.join("\n"));
}

fn a_bundle_whose_name_was_taken_is_kept_where_the_error_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, data) = (folder.path().join("a.holdup"), sample(1));
    let writer = create(&path, &data).expect("is begun");
    std::fs::remove_file(&path).expect("is removed");
    std::fs::write(&path, "").expect("is written");
    let problem = writer.finish(&Ending::Complete).expect_err("it never replaces a file");
    let draft = names(folder.path()).remove(0);
    let hint = problem.hint.clone().expect("a hint");
    assert!(problem.why.contains("exists already") && hint.contains(&format!("{draft}/a.holdup")), "{problem}");
    let left = std::fs::File::open(folder.path().join(&draft)).expect("is there");
    left.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("is set");
    write(&folder.path().join("b.holdup"), &data).expect("is written");
    let kept = holdup_bundle::read(&folder.path().join(draft).join("a.holdup")).expect("is read");
    assert_eq!(kept.ending, Some(Ending::Complete));
}

fn a_copy_trial_by_trial_has_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, copy) = (folder.path().join("a.holdup"), folder.path().join("b.holdup"));
    write(&path, &sample(3)).expect("is written");
    let reader = holdup_bundle::Reader::open(&path, &MemoryBudget::default()).expect("is read");
    let data = reader.data();
    assert!(data.trials.is_empty() && reader.trials() > 0);
    let (plan, source) = (&data.plan, &data.plan_source);
    let begun = holdup_bundle::Writer::create_copy(
        &copy,
        &data.head,
        plan,
        source,
        &data.schedule,
        &data.metrics,
        &data.collectors,
    );
    let mut writer = begun.expect("is begun");
    for reading in &data.environment {
        writer.add_environment(reading.session, reading.boot, &reading.facts).expect("is written");
    }
    for seq in 0..reader.trials() {
        writer.add_trial(&reader.trial(seq).expect("is read")).expect("is written");
    }
    for (unix_ns, text) in &data.log {
        writer.log(*unix_ns, text).expect("is written");
    }
    writer.copy_boot_logs(&reader).expect("are copied");
    writer.finish(data.ending.as_ref().expect("it ended")).expect("is ended");
    assert!(std::fs::read(&path).expect("read") == std::fs::read(&copy).expect("read"), "the bytes differ");
    assert!(reader.trial(reader.trials()).is_err(), "there is none after the last");
}

fn every_ending_reads_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let endings = [
        None,
        Some(Ending::Complete),
        Some(Ending::Budget),
        Some(Ending::Interrupted),
        Some(Ending::Failed { reason: "disk gone".into() }),
    ];
    for (i, ending) in endings.into_iter().enumerate() {
        let path = folder.path().join(format!("{i}.holdup"));
        let data = holdup_model::BundleData { ending, ..sample(1) };
        write(&path, &data).expect("is written");
        assert_eq!(holdup_bundle::read(&path).expect("is read"), data);
        let found = holdup_bundle::verify(&path, &MemoryBudget::default()).expect("is verified");
        assert_eq!(found.whole, data.ending.is_some(), "{found:#?}");
    }
}

fn metrics_that_had_another_id_have_that_of_today() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.holdup");
    let mut data = sample(1);
    let before = std::mem::replace(&mut data.metrics[0].1.id, "near_cpu_s_per_gb".to_owned());
    for trial in &mut data.trials {
        let of_it = trial.measurements.iter_mut().filter(|m| m.metric == before);
        of_it.for_each(|m| m.metric = "near_cpu_s_per_gb".to_owned());
    }
    write(&path, &data).expect("is written");
    let read = holdup_bundle::read(&path).expect("is read");
    let now = "client_cpu_s_per_gb";
    assert_eq!(read.metrics[0].1.id, now);
    let measured = |t: &holdup_model::Trial| t.measurements.iter().filter(|m| m.metric == now).count();
    assert!(read.trials.iter().any(|trial| measured(trial) == 1), "{:?}", read.trials);
}

fn a_running_bundle_can_be_read_and_stays_writable() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.holdup");
    let data = sample(2);
    let mut writer = create(&path, &data).expect("is created");
    for (i, trial) in data.trials.iter().enumerate() {
        writer.add_trial(trial).expect("is added");
        let beside = names(folder.path());
        assert!(beside.len() == 2 && beside[0].starts_with(".holdup-draft-") && beside[1] == "a.holdup", "{beside:?}");
        assert_eq!(holdup_bundle::read(&path).expect("is read").trials, data.trials[..=i]);
    }
}

fn an_existing_file_is_never_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.holdup");
    for old in ["", "my thesis"] {
        std::fs::write(&path, old).expect("is written");
        let problem = create(&path, &sample(1)).err().expect("is refused");
        assert_eq!(problem.kind, ProblemKind::Usage);
        assert!(problem.why.contains("never overwritten") && problem.hint.is_some(), "{problem}");
        assert_eq!(std::fs::read_to_string(&path).expect("is there"), old);
    }
}

fn a_folder_that_is_not_there_is_said() {
    let top = tempfile::tempdir().expect("a folder");
    let path = top.path().join("missing/a.holdup");
    let problem = create(&path, &sample(1)).err().expect("is refused");
    insta::assert_snapshot!(problem.to_string().replace(&*top.path().to_string_lossy(), "/folder"));
}

fn names_that_sqlite_would_take_for_something_else_are_paths() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["file:a?mode=memory", ":memory:", "per%20cent.holdup", "a'b\"c.holdup"] {
        let path = folder.path().join(name);
        write(&path, &sample(1)).expect("is written");
        assert_eq!(holdup_bundle::read(&path).expect("is read"), sample(1));
    }
    assert_eq!(names(folder.path()).len(), 4);
}

fn a_number_that_is_not_finite_becomes_absent() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.holdup");
    let mut data = sample(1);
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        data.trials[0].measurements.push(Measurement { metric: "m".into(), value: Measured::Value(bad) });
        data.trials[0].evidence[0].items[0].value = Measured::Value(bad);
    }
    write(&path, &data).expect("is written");
    let read = holdup_bundle::read(&path).expect("is read");
    let reasons: Vec<&Measured> = read.trials[0].measurements[2..].iter().map(|m| &m.value).collect();
    let absent = |v: &str| Measured::Absent(format!("not a finite number ({v})"));
    assert_eq!(reasons, [&absent("NaN"), &absent("inf"), &absent("-inf")]);
    assert_eq!(read.trials[0].evidence[0].items[0].value, absent("-inf"));
}

fn a_trial_out_of_order_or_of_no_arm_is_refused_and_the_next_one_is_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.holdup");
    let data = sample(1);
    let mut writer = create(&path, &data).expect("is created");
    assert_eq!(writer.add_trial(&data.trials[1]).expect_err("is refused").kind, ProblemKind::Internal);

    let mut homeless = data.trials[0].clone();
    homeless.arm = 99;
    assert_eq!(writer.add_trial(&homeless).expect_err("is refused").kind, ProblemKind::Internal);
    let mut immense = data.trials[0].clone();
    immense.evidence[0].coverage.seen = u64::MAX;
    immense.environment_before[0].value = Some("only in the refused trial".into());
    let problem = writer.add_trial(&immense).expect_err("is refused");
    assert!(problem.why.contains("samples seen is 18446744073709551615"), "{problem}");

    // What the refused trials would have written once for all trials must not be taken for written.
    immense.evidence[0].coverage.seen = 1;
    writer.add_trial(&immense).expect("is added");
    writer.finish(&Ending::Budget).expect("is finished");
    assert_eq!(holdup_bundle::read(&path).expect("is read").trials, [immense]);
}

fn two_hundred_trials_of_twelve_collectors_stay_small() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.holdup");
    let data = sample(1);
    let mut trial = next_trial(&data);
    trial.environment_before =
        (0..300).map(|i| holdup_model::Fact::read(format!("postgres.setting_{i}"), "on", "pg_settings")).collect();
    let run = trial.evidence[0].clone();
    trial.evidence = (0..12)
        .map(|c| {
            let mut run = run.clone();
            run.collector = format!("collector-{c}");
            run.items = (0..64)
                .map(|i| holdup_model::EvidenceItem::labelled(format!("counter_{c}_total"), format!("l{i}"), "1", 0.1))
                .collect();
            run
        })
        .collect();
    let mut writer = create(&path, &data).expect("is created");
    for seq in 0..200 {
        trial.seq = seq;
        for (i, item) in trial.evidence.iter_mut().flat_map(|c| &mut c.items).enumerate() {
            item.value = Measured::Value(f64::from(seq) / 7.0 + i as f64);
        }
        writer.add_trial(&trial).expect("is added");
    }
    writer.finish(&Ending::Budget).expect("is finished");
    let bytes = std::fs::metadata(&path).expect("is there").len();
    assert!(bytes < 12 << 20, "{bytes} bytes");
    let read = holdup_bundle::read(&path).expect("is read");
    assert_eq!((read.trials.len(), &read.trials[199]), (200, &trial));
}

fn logs_of_guests_are_kept_with_their_size_and_only_of_boots_that_are_planned() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.holdup");
    let data = sample(3);
    let mut writer = create(&path, &data).expect("is created");
    let problem = writer.add_boot_log(99, "console", b"hello").expect_err("is refused");
    assert!(problem.why.contains("boot 99, for which no trial is planned"), "{problem}");
    let long = b"watchdog: BUG: soft lockup\n".repeat(200_000);
    writer.add_boot_log(2, "console", &long).expect("is added");
    writer.add_boot_log(2, "console", b"tried again \xff\n").expect("is added");
    writer.finish(&Ending::Budget).expect("is finished");
    let logs = holdup_bundle::read(&path).expect("is read").boot_logs;
    assert_eq!(logs.len(), 2, "the refused one left nothing");
    assert_eq!((logs[0].session, logs[0].boot, logs[0].bytes), (0, 2, long.len() as u64));
    assert!(logs[0].text.len() <= 1 << 20 && logs[0].trimmed_bytes > 4 << 20, "{}", logs[0].trimmed_bytes);
    assert!(logs[0].text.contains(&format!("[... {} bytes left out ...]\n", logs[0].trimmed_bytes)));
    assert_eq!((logs[1].text.as_str(), logs[1].bytes, logs[1].trimmed_bytes), ("tried again \u{fffd}\n", 14, 0));
    assert!(std::fs::metadata(&path).expect("is there").len() < 1 << 18, "it is deflated");
}

/// What a trial of five windows of three minutes brings, by a random walk that is the same every time.
fn rich_trial(trial: &mut holdup_model::Trial, histograms: usize, stacks: usize) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let run = &mut trial.evidence[1];
    run.histograms = (0..histograms)
        .map(|i| {
            let mut histogram = holdup_model::SparseHistogram::new();
            for _ in 0..3_000 {
                // Three decades, as waits for a CPU have them.
                histogram.record_ns((1_000 + random(1_000)) << random(11));
            }
            let label = Some(format!("postgres < kworker/{i}"));
            holdup_model::EvidenceHistogram { name: "run_queue_wait_ns".into(), label, histogram }
        })
        .collect();
    let function = |i: u64| holdup_model::stacks::Frame {
        function: format!("function_with_a_usual_name_{i}"),
        module: Some(if i.is_multiple_of(3) { "[kernel]" } else { "postgres" }.to_owned()),
        kind: holdup_model::stacks::FrameKind::User,
    };
    run.stacks[0].frames = (0..3_000).map(function).collect();
    let mut path: Vec<u32> = Vec::new();
    run.stacks[0].stacks = (0..stacks as u64)
        .map(|i| {
            // A walk through a tree: some calls return, some more are made.
            let stay = path.len().saturating_sub(1 + random(8) as usize);
            path.truncate(stay);
            while path.len() < 12 + random(20) as usize {
                path.push(random(3_000) as u32);
            }
            let task = "postgres".to_owned();
            let weight = 1 + 100_000 / (i + 1);
            holdup_model::stacks::Stack { task, role: Some("server".into()), frames: path.clone(), weight }
        })
        .collect();
}

/// An hour of windows of three minutes stays far below 100 MB.
fn an_hour_of_distributions_and_stacks_stays_small() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.holdup");
    let data = sample(1);
    let mut trial = next_trial(&data);
    let (trials, histograms) = (20, 200);
    rich_trial(&mut trial, histograms, 5_000);
    let mut writer = create(&path, &data).expect("is created");
    for seq in 0..trials {
        trial.seq = seq;
        writer.add_trial(&trial).expect("is added");
    }
    writer.finish(&Ending::Budget).expect("is finished");
    let bytes = std::fs::metadata(&path).expect("is there").len();
    assert!(bytes < 100_000_000, "{bytes} bytes");
}

/// An hour of windows of three minutes with 200 distributions each, as the collectors inside the kernel bring them: 40
/// buckets in use. Read, they take what is in them, and not the 270 kB of a histogram that counts while it measures.
fn an_hour_of_distributions_is_read_into_the_memory_of_what_is_in_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.holdup");
    let data = sample(1);
    let mut trial = next_trial(&data);
    let (trials, histograms, buckets) = (20, 200, 40);
    rich_trial(&mut trial, histograms, 10);
    for (i, h) in trial.evidence[1].histograms.iter_mut().enumerate() {
        h.histogram = holdup_model::SparseHistogram::new();
        (0..buckets).for_each(|b| h.histogram.record_n_ns((1_000 << (b / 4)) + 200 * (b % 4), b + i as u64 + 1));
    }
    let mut writer = create(&path, &data).expect("is created");
    for seq in 0..trials {
        trial.seq = seq;
        writer.add_trial(&trial).expect("is added");
    }
    writer.finish(&Ending::Budget).expect("is finished");
    let read = holdup_bundle::read(&path).expect("is read");
    let all: Vec<_> = read.trials.iter().flat_map(|t| &t.evidence).flat_map(|c| &c.histograms).collect();
    assert!(all.len() >= trials as usize * histograms, "{} histograms", all.len());
    let bytes: usize = all.iter().map(|h| h.histogram.memory_bytes()).sum();
    assert!(bytes < 10_000_000, "{bytes} bytes");
    assert_eq!(read.trials[0].evidence[1].histograms, trial.evidence[1].histograms);
    // A reader that keeps none of them has memory for one trial after the other.
    let budget = || MemoryBudget::new(bytes as u64 / 2);
    let mut numbers = read;
    for c in numbers.trials.iter_mut().flat_map(|t| &mut t.evidence) {
        (c.histograms, c.stacks, c.timeline, c.capture) = (Vec::new(), Vec::new(), None, None);
    }
    assert_eq!(holdup_bundle::read_numbers(&path, &budget()), Ok(numbers));
    assert!(holdup_bundle::read_without_events(&path, &budget()).is_err());
}

/// Eight of them take 20 MB together: a file of some kilobytes can have thousands.
fn timelines_are_checked_one_by_one_and_have_their_events_where_these_are_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.holdup");
    let data = sample(1);
    let mut trial = next_trial(&data);
    let timelines = trial.evidence.iter_mut().filter_map(|collected| collected.timeline.as_mut());
    for timeline in timelines {
        timeline.events = timeline.events.iter().cycle().take(20_000).cloned().collect();
    }
    let mut writer = create(&path, &data).expect("is created");
    for seq in 0..8 {
        trial.seq = seq;
        writer.add_trial(&trial).expect("is added");
    }
    writer.finish(&Ending::Budget).expect("is finished");
    let budget = MemoryBudget::new(6 << 20);
    let read = holdup_bundle::read_without_events(&path, &budget).expect("is read");
    let timelines: Vec<_> = read.trials.iter().flat_map(|t| &t.evidence).filter_map(|c| c.timeline.as_ref()).collect();
    assert!(timelines.len() >= 8 && timelines.iter().all(|t| t.count() == 20_000 && t.events.is_empty()));
    assert!(budget.left() > 4 << 20, "{} are left", budget.left());
    assert!(holdup_bundle::verify(&path, &MemoryBudget::new(6 << 20)).expect("is verified").whole);
    let refused = holdup_bundle::verify(&path, &MemoryBudget::new(512 << 10)).expect_err("is refused");
    assert!(refused.why.contains("more than 512kB of memory"), "{refused}");
    assert!(refused.hint.is_some_and(|hint| hint.contains("--max-memory 1MB")));
    let budget = MemoryBudget::new(32 << 20);
    let reader = holdup_bundle::Reader::open(&path, &budget).expect("is read");
    assert_eq!(reader.trial(7).expect("is read").evidence, trial.evidence);
    budget.take(30 << 20).expect("there is so much");
    assert!(reader.trial(7).is_err());
    // One that was left out is not written as one that is empty.
    let mut copy = create(&folder.path().join("b.holdup"), &data).expect("is created");
    assert!(copy.add_trial(&read.trials[0]).expect_err("is refused").why.contains("were not read"));
}

/// A text is in the file once, and in each row that refers to it; a log of a megabyte is a kilobyte there.
fn small_files_of_much_text_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = sample(1);
    let item = EvidenceItem::labelled("softirq_total", "x".repeat(1 << 18), "1", 1.0);
    let written = |items: usize, logs: usize| {
        let path = folder.path().join(format!("{items}-{logs}.holdup"));
        let mut trial = next_trial(&data);
        (trial.seq, trial.evidence[0].items) = (0, vec![item.clone(); items]);
        let mut writer = create(&path, &data).expect("is created");
        writer.add_trial(&trial).expect("is added");
        for _ in 0..logs {
            writer.add_boot_log(trial.boot, "console", &vec![b'x'; 1 << 20]).expect("is added");
        }
        writer.finish(&Ending::Budget).expect("is finished");
        assert!(std::fs::metadata(&path).expect("is there").len() < 1 << 20);
        path
    };
    let budget = || MemoryBudget::new(7 << 20);
    let refused = |items, logs| {
        let problem = holdup_bundle::read_without_events(&written(items, logs), &budget()).expect_err("is refused");
        assert!(problem.why.contains("takes more than 7MB of memory"), "{problem}");
    };
    refused(30, 0);
    refused(0, 8);
    assert!(holdup_bundle::Reader::open(&written(1, 8), &budget()).is_err());
    let rows = holdup_bundle::Rows::open(&written(8, 0), &budget()).expect("2 MB of text are read");
    let kinds = holdup_model::table::kinds();
    rows.table(&kinds["trials"]).expect("small");
    let problem = rows.table(&kinds["evidence"]).expect_err("is refused");
    assert!(problem.why.contains("takes more than 7MB of memory"), "{problem}");
}

holdup_testkit::tests!(
    a_bundle_reads_back_as_it_was_written,
    a_bundle_whose_name_was_taken_is_kept_where_the_error_says,
    a_copy_trial_by_trial_has_the_same_bytes,
    every_ending_reads_back,
    metrics_that_had_another_id_have_that_of_today,
    a_running_bundle_can_be_read_and_stays_writable,
    an_existing_file_is_never_overwritten,
    a_folder_that_is_not_there_is_said,
    names_that_sqlite_would_take_for_something_else_are_paths,
    a_number_that_is_not_finite_becomes_absent,
    a_trial_out_of_order_or_of_no_arm_is_refused_and_the_next_one_is_taken,
    two_hundred_trials_of_twelve_collectors_stay_small,
    logs_of_guests_are_kept_with_their_size_and_only_of_boots_that_are_planned,
    an_hour_of_distributions_and_stacks_stays_small,
    an_hour_of_distributions_is_read_into_the_memory_of_what_is_in_them,
    timelines_are_checked_one_by_one_and_have_their_events_where_these_are_asked_for,
    small_files_of_much_text_are_refused
);
