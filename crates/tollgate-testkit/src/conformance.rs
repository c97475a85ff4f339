//! The promises of a store, one function for each; the same for every store.
//!
//! [`conformance_tests!`](crate::conformance_tests) turns the lists below into tests, one for each
//! function, so that a test run reads like the promises. A function takes a fresh fixture and panics
//! if the promise is broken, naming it (I1, I2, …) where it has a number.

pub mod account_pools;
pub mod accounts;
pub mod alerts;
pub mod api_keys;
pub mod audit;
pub mod audit_log;
pub mod bad_input;
pub mod batch;
pub mod crash;
pub mod events;
pub mod feed;
pub mod fence;
pub mod file;
pub mod frozen;
pub mod idempotency;
pub mod lease;
pub mod nodes;
pub mod reads;
pub mod recycling;
pub mod reservations;
pub mod retention;
pub mod server;
pub mod settle;
pub mod traces;
pub mod updates;

/// Makes one test for each function of the suite, in a module for each area, each in a fixture of
/// its own that the expression makes.
///
/// With `every store` it is what all stores promise; with `server` and `file`, what only a
/// database of that kind does. The crate that calls it needs tokio's macros.
#[macro_export]
macro_rules! conformance_tests {
    ($fixture:expr, every store) => {
        $crate::conformance_tests! {
            $fixture;
            lease {
                first_acquire_is_granted_under_token_one,
                an_owner_that_asks_again_is_renewed_under_the_same_token,
                another_node_is_told_who_holds_the_lease_and_for_how_long,
                a_new_start_of_the_same_node_is_another_owner,
                an_expired_lease_is_taken_over_under_the_next_token,
                takeover_waits_for_the_clock_skew_allowance,
                an_owner_takes_its_expired_lease_without_waiting_for_the_clock_skew_allowance,
                acquire_is_unavailable_while_a_batch_of_the_same_node_outlasts_its_lease,
                an_owner_whose_time_was_over_comes_back_under_a_new_token,
                a_renewal_extends_what_is_still_held_and_leaves_out_the_rest,
                a_renewal_under_another_name_or_token_extends_nothing,
                a_released_lease_is_free_at_once_under_a_higher_token,
                the_token_never_goes_back,
                concurrent_acquires_grant_the_lease_to_one_node,
                a_takeover_that_was_overtaken_finds_the_new_owner,
                a_lease_on_an_unknown_submitter_is_refused_by_name,
                owners_are_told_in_the_order_asked,
                orphans_are_the_submitters_with_open_work_and_no_owner,
                orphan_pages_lead_past_owned_and_orphaned_submitters_to_the_last,
                submitter_with_private_transactions_is_never_owned_by_a_node_that_knows_no_routes,
            }
            fence {
                a_writer_delayed_after_its_guard_cannot_land_after_a_takeover,
                a_writer_delayed_before_commit_cannot_land_after_a_takeover,
                a_takeover_that_waited_for_a_writer_sees_what_it_wrote,
                a_writer_that_waits_for_a_row_cannot_land_after_a_takeover,
                a_writer_that_waited_for_a_takeover_is_fenced,
                a_transaction_longer_than_its_lease_is_whole_and_the_last_one,
                a_guarded_batch_commits_whatever_its_neighbours_do,
                a_release_never_overtakes_a_batch_in_flight,
                a_batch_after_expiry_is_refused_even_if_nobody_took_over,
                a_lease_that_was_never_granted_writes_nothing,
                every_critical_call_of_a_fenced_node_is_refused,
            }
            settle {
                settle_reports_which_transactions_exist,
                commit_whose_answer_was_lost_is_found,
                a_create_in_flight_is_not_called_absent,
                a_change_in_flight_is_not_called_undone,
            }
            batch {
                a_create_with_a_slot_is_kept_as_it_was_given,
                a_create_without_a_slot_is_queued,
                empty_batches_and_sections_are_committed,
                a_cursor_that_is_elsewhere_makes_the_section_stale,
                a_submitter_that_takes_no_work_opens_no_slot,
                many_submitters_share_a_batch_and_a_fenced_one_is_left_out,
                neighbours_of_a_stale_section_commit,
                neighbours_of_a_section_that_the_database_refuses_commit,
                neighbours_of_a_section_without_a_cursor_row_commit,
                clashing_sections_are_written_at_most_once,
                a_batch_of_the_largest_size_is_written_whole,
                a_commit_tells_when_its_creates_were_accepted,
            }
            api_keys {
                api_key_is_kept_as_given_and_changed_only_at_the_known_revision,
                changed_api_keys_are_read_in_order_and_a_use_is_no_change,
            }
            audit_log {
                audit_entries_are_kept_as_given_and_read_newest_first,
                old_audit_entries_are_forgotten_oldest_first,
                author_of_a_create_stands_in_the_first_entry_of_its_history,
            }
            idempotency {
                the_same_request_again_is_answered_with_the_first_transaction,
                one_request_id_names_a_transaction_of_each_submitter,
                duplicates_inside_one_batch_make_one_transaction,
                a_duplicate_consumes_no_nonce,
                a_hundred_creates_of_one_request_make_one_transaction,
                a_thousand_concurrent_creates_get_consecutive_nonces,
                a_second_row_for_a_slot_is_refused_by_the_database_itself,
                a_second_row_for_a_request_is_refused_by_the_database_itself,
            }
            updates {
                a_change_of_a_row_that_moved_is_lost_and_changes_nothing,
                a_change_compares_the_state_as_well_as_the_version,
                a_lease_changes_no_transaction_of_another_submitter,
                concurrent_changes_of_one_version_are_applied_once,
                a_change_keeps_what_it_brings_and_leaves_the_rest,
                a_receipt_is_set_replaced_and_cleared,
                a_queued_transaction_is_given_a_slot_once,
                history_has_exactly_one_line_for_each_version,
                a_transaction_ends_once,
                every_attempts_hash_leads_to_its_transaction,
            }
            feed {
                a_final_change_writes_its_completion,
                the_feed_is_consecutive_over_batches_and_refusals,
                a_change_whose_completion_has_no_number_is_refused_and_not_written,
                readers_of_the_feed_miss_nothing_under_concurrent_commits,
                a_page_holds_one_chains_completions_and_leads_past_those_of_others,
                stuck_transactions_are_in_the_feed_for_readers_that_want_them,
            }
            events {
                events_are_numbered_in_the_order_of_their_changes,
                changes_that_are_not_written_leave_no_event,
                kinds_that_are_not_wanted_are_not_written,
                readers_of_events_miss_nothing_under_concurrent_commits,
                page_of_events_begins_and_ends_inside_batches,
                removed_events_are_told_and_numbers_go_on,
                sink_is_held_by_one_node_until_its_term_ends,
                rewound_sink_fences_its_holder,
                dead_letters_are_kept_until_they_are_delivered,
            }
            reads {
                open_work_gives_every_open_transaction_with_all_its_attempts,
                line_head_is_the_lowest_open_slot_without_a_receipt,
                open_work_tells_how_long_the_head_was_waited_for_and_whether_it_was_forked,
                open_slots_are_read_by_nonce_in_pages,
                slots_of_a_range_are_read_with_their_states,
                final_slots_are_read_from_the_highest_down,
                waits_of_a_submitter_are_replaced_as_a_whole,
                error_of_a_transaction_is_removed_when_its_receipt_is_final,
                top_ups_of_an_account_are_read_newest_first_and_nothing_else,
                waits_are_kept_while_a_transaction_is_open_and_deleted_when_it_ends,
                list_by_time_finds_transactions_committed_late,
                lists_give_exactly_what_the_filter_says,
                pages_neither_skip_nor_repeat_while_rows_arrive_and_change,
                a_transaction_that_is_not_there_is_none,
                submitters_are_shown_with_owner_and_load,
            }
            reservations {
                a_reservation_takes_the_cursors_nonce,
                the_lowest_recyclable_nonce_is_handed_out_first,
                nothing_below_the_floor_is_handed_out,
                a_used_nonce_never_comes_back,
                an_expired_reservation_returns_and_its_late_answer_is_refused,
                nonces_that_the_chain_has_passed_leave_the_pool,
                a_hole_is_adopted_once_and_then_filled,
                a_nonce_that_somebody_has_is_not_adopted,
                an_operator_hands_back_what_nobody_has_and_the_audit_trail_says_so,
                reservations_are_limited_in_number,
                a_submitter_that_takes_no_work_hands_out_nothing,
                concurrent_reservations_and_creates_share_no_nonce,
                reservations_are_listed_in_pages,
            }
            recycling {
                a_recycled_slot_goes_to_the_next_transaction,
                a_slot_can_be_recycled_more_than_once,
                a_nonce_that_is_not_in_the_pool_cannot_be_recycled,
                a_slot_whose_nonce_a_caller_holds_is_not_freed,
                a_slot_that_is_freed_again_forgets_who_used_it,
                a_transaction_frees_no_slot_but_its_own,
                recycled_slot_goes_to_one_of_many_transactions,
                recycled_and_new_slots_can_be_opened_together,
            }
            audit {
                every_change_of_a_submitters_status_is_on_record,
                a_cursor_that_moves_without_opening_slots_is_on_record,
                unwritten_changes_are_not_on_record,
                a_submitters_record_is_read_in_pages,
                a_change_of_mode_is_fenced_compared_and_on_record,
                a_mode_does_not_change_while_anything_is_open_or_reserved,
            }
            accounts {
                an_account_is_read_as_it_was_written_and_changed_only_by_its_revision,
                accounts_are_read_in_the_order_of_their_changes,
                concurrent_changes_of_accounts_have_different_revisions,
                open_work_of_an_account_is_seen_until_it_is_final,
            }
            nodes {
                nodes_live_from_heartbeat_to_leave,
                a_silent_node_is_not_alive,
                nodes_of_another_chain_or_of_an_unknown_one_are_not_listed,
                accounts_that_a_node_serves_are_read_under_the_digest_of_its_row,
                accounts_that_no_node_names_are_forgotten_after_a_day,
                an_owners_address_comes_from_the_list_of_nodes,
                peer_key_is_read_while_its_node_lives_and_of_any_chain,
                a_chain_with_another_genesis_is_refused,
                a_submitter_on_an_unknown_chain_is_refused_by_name,
                registering_again_never_moves_the_cursor,
                first_of_two_registrations_in_one_call_counts,
                one_address_on_two_chains_is_two_submitters,
            }
            account_pools {
                pool_is_replaced_as_a_whole_and_removed,
                pools_are_listed_by_name_in_pages_for_one_chain,
                pool_with_an_unregistered_member_is_not_written,
                members_are_read_with_status_and_open_transactions,
                request_stays_with_its_first_member_whatever_happens_to_the_pool,
                concurrent_assignments_of_one_request_agree_on_one_member,
            }
            traces {
                trace_of_a_request_is_read_by_the_next_owner,
                repeat_under_another_trace_keeps_the_first_one,
                events_carry_the_trace_of_their_transaction,
                create_without_a_trace_writes_no_row_for_one,
            }
            retention {
                removed_transaction_leaves_one_row_and_nothing_else,
                repeat_of_a_removed_request_makes_no_second_transaction,
                row_of_a_removed_request_is_refused_by_the_database_itself,
                open_and_young_transactions_are_not_removed,
                feed_keeps_its_numbers_and_tells_the_last_one_removed,
                nonce_of_a_removed_transaction_is_never_handed_back,
                one_node_at_a_time_holds_the_claim_until_its_term_ends,
                concurrent_removals_remove_each_transaction_once,
                request_is_known_at_every_moment_of_its_removal,
                request_ids_of_removed_transactions_are_forgotten_by_age,
            }
            alerts {
                open_alert_is_raised_once_and_counts_its_reports,
                concurrent_reports_raise_one_alert,
                notice_is_claimed_by_one_node_until_its_term_ends,
                resolved_alert_is_told_once_to_those_that_were_told_of_it,
                notice_of_a_resolved_alert_waits_for_the_one_that_it_was_raised,
                messages_to_a_sink_are_limited_over_all_nodes,
                resolved_alerts_are_forgotten_with_their_notices,
                one_node_at_a_time_looks_after_alerts,
                clock_of_the_database_and_counts_of_reservations_are_read,
            }
            bad_input {
                text_that_no_store_can_hold_is_refused_by_name,
                strange_text_comes_back_as_it_went_in,
                the_largest_values_come_back_as_they_went_in,
                a_time_beyond_the_database_is_cut_or_refused_by_name,
            }
            frozen {
                a_node_that_slept_through_its_lease_is_fenced_on_waking,
                a_node_killed_in_mid_transaction_leaves_nothing_of_it,
            }
        }
    };
    ($fixture:expr, server) => {
        $crate::conformance_tests! {
            $fixture;
            server {
                a_renewal_does_not_wait_for_a_batch_of_the_same_lease,
                a_frozen_writers_session_is_ended_and_nothing_of_it_lands,
                a_reader_of_the_feed_misses_nothing_of_a_commit_that_hangs,
                a_reader_of_events_misses_nothing_of_a_commit_that_hangs,
                a_commit_lost_in_a_crash_is_unknown_and_settled_as_absent,
                a_commit_whose_answer_was_lost_is_unknown_and_settled_as_there,
                a_commit_that_numbered_outcomes_and_lost_its_answers_is_unknown,
                a_silent_server_is_given_up_and_found_again,
            }
            crash {
                nothing_acknowledged_is_lost_when_the_server_crashes_under_load,
            }
        }
    };
    ($fixture:expr, file) => {
        $crate::conformance_tests! {
            $fixture;
            file {
                frozen_writer_commits_before_any_takeover,
            }
        }
    };
    ($fixture:expr; $($area:ident { $($promise:ident,)* })*) => {
        $(mod $area {
            use super::*;

            $(#[tokio::test(flavor = "multi_thread")]
            async fn $promise() {
                let fixture = $fixture.await;
                $crate::conformance::$area::$promise(&fixture).await;
            })*
        })*
    };
}
