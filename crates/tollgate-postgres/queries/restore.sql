-- What makes a restored database safe to start nodes on, in the order of the statements. All of them run in one
-- transaction, once for each restore.

-- name: restore_live
-- The number of nodes whose last heartbeat is younger than $1 microseconds.
select count(*) as nodes from node
 where heartbeat_at > clock_timestamp() - $1::bigint * interval '1 microsecond'

-- name: restore_leases
-- I4: releases every lease, with a token $1 higher, which no node had before the restore.
update submitter_lease
   set owner_node = '', fencing_token = fencing_token + $1::bigint, expires_at = '-infinity',
       updated_at = clock_timestamp()

-- name: restore_nodes
-- Removes the nodes that were alive when the backup was taken.
delete from node

-- name: restore_pause
-- I3, I7: no account opens a slot before an operator resumes it, for the reason $1.
update submitter_cursor
   set status = case status when 3 /* PROTECT */ then 3 /* PROTECT */ else 2 /* PAUSED */ end,
       status_reason = $1, updated_at = clock_timestamp()

-- name: restore_history
-- Notes the restore ($2) in the audit trail of every account, by node $1.
insert into submitter_history (chain_id, submitter, node, fencing_token, event, detail)
select c.chain_id, c.submitter, $1::text, coalesce(l.fencing_token, 1), 'restored', $2::text
  from submitter_cursor c
  left join submitter_lease l on l.chain_id = c.chain_id and l.submitter = c.submitter

-- name: restore_feed
-- I10: leaves out the next $1 numbers of the feed, which readers may have seen before the restore.
update completion_counter set last_seq = last_seq + $1::bigint

-- name: restore_events
-- I10: the same for events.
update event_counter set last_seq = last_seq + $1::bigint

-- name: restore_summary
-- The accounts, the open transactions without a nonce, and those with one.
select (select count(*) from submitter_cursor) as accounts,
       count(case when nonce is null then 1 end) as queued,
       count(nonce) as in_flight
  from managed_tx
 where finished_at is null
