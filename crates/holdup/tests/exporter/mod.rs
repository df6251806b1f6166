//! `holdup exporter` on a real PostgreSQL: scrapes by a real Prometheus, hostile clients, restarts, flights.

mod disturbed;
mod flights;
mod http;
mod prometheus;
mod server;
mod sums;
mod unit;

holdup_testkit::tests!(
    http::what_is_wrong_is_said_before_anything_is_watched,
    sums::the_sums_of_the_exporter_are_those_of_a_record;
    alone:
    http::a_page_and_another_user_get_nothing_that_is_not_theirs,
    http::a_token_and_tls_are_asked_for;
    long:
    disturbed::bpf_that_is_refused_later_is_said_and_used_again_when_it_is_given,
    disturbed::a_process_that_was_stopped_has_one_long_window_and_no_counter_goes_back,
    disturbed::two_exporters_a_record_and_a_screen_see_the_same_server,
    flights::a_trigger_a_signal_and_a_webhook_write_bundles_that_name_the_moment,
    flights::a_full_disk_and_the_room_that_is_given_are_survived,
    http::slow_and_hostile_clients_disturb_no_scrape,
    prometheus::prometheus_scrapes_it_and_knows_its_native_histograms,
    prometheus::a_text_file_is_whole_and_what_promtool_accepts,
    prometheus::the_alert_rules_pass_their_tests,
    server::a_server_that_restarts_is_watched_again_and_no_counter_goes_back,
    server::without_root_what_is_left_works_and_what_is_missing_is_said,
    unit::the_unit_runs_without_root_and_is_restarted_by_systemd
);
