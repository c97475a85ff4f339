-- Pages of transactions. The three tx_page queries take the same parameters: chain ?1, submitter ?2, ids
-- below ?3 and from ?8 on, states ?4, creation time from ?5 and before ?6, at most ?7 rows. Each finds
-- the ids by the index that it names, then reads the records: an index can't be named for a view.

-- name: tx_page
-- A page of transactions, newest first: of a submitter by its own index, else by id.
select r.* from (
  select * from (
    select t.tx_id
      from managed_tx t indexed by managed_tx_submitter
     where t.chain_id = ?1 and t.submitter = ?2 and t.tx_id < ?3 and t.tx_id >= ?8
       and (?4 is null or t.state in (select value from json_each(?4)))
       and (?5 is null or t.created_at >= ?5) and (?6 is null or t.created_at < ?6)
     order by t.tx_id desc limit ?7)
  union all
  select * from (
    select t.tx_id
      from managed_tx t
     where ?2 is null and (?1 is null or t.chain_id = ?1) and t.tx_id < ?3 and t.tx_id >= ?8
       and (?4 is null or t.state in (select value from json_each(?4)))
       and (?5 is null or t.created_at >= ?5) and (?6 is null or t.created_at < ?6)
     order by t.tx_id desc limit ?7)
) as found cross join tx_full_record r on r.tx_id = found.tx_id
order by found.tx_id desc

-- name: tx_page_open
-- A page of open transactions, newest first. Finished rows are never looked at.
select r.* from (
  select * from (
    select t.tx_id
      from managed_tx t indexed by managed_tx_open
     where t.chain_id = ?1 and t.submitter = ?2 and t.tx_id < ?3 and t.tx_id >= ?8
       and t.finished_at is null
       and (?4 is null or t.state in (select value from json_each(?4)))
       and (?5 is null or t.created_at >= ?5) and (?6 is null or t.created_at < ?6)
     order by t.tx_id desc limit ?7)
  union all
  select * from (
    select t.tx_id
      from submitter_cursor c cross join managed_tx t indexed by managed_tx_open
     where ?2 is null and (?1 is null or c.chain_id = ?1)
       and t.chain_id = c.chain_id and t.submitter = c.submitter
       and t.tx_id < ?3 and t.tx_id >= ?8 and t.finished_at is null
       and (?4 is null or t.state in (select value from json_each(?4)))
       and (?5 is null or t.created_at >= ?5) and (?6 is null or t.created_at < ?6)
     order by t.tx_id desc limit ?7)
) as found cross join tx_full_record r on r.tx_id = found.tx_id
order by found.tx_id desc

-- name: tx_page_failed
-- A page of failed transactions, newest first, found through their completions.
select r.*
  from tx_completion c indexed by tx_completion_failed cross join tx_full_record r on r.tx_id = c.tx_id
 where c.state >= 50 /* FIRST_FAILED */ and c.tx_id < ?3 and c.tx_id >= ?8
   and (?1 is null or c.chain_id = ?1) and (?2 is null or c.submitter = ?2)
   and r.state in (select value from json_each(?4))
   and (?5 is null or r.created_at >= ?5) and (?6 is null or r.created_at < ?6)
 order by c.tx_id desc limit ?7

-- name: tx_open_work
-- A page of a submitter's open transactions, oldest first, after ?3.
select r.*,
       (select p.since from tx_patience p where p.tx_id = r.tx_id) as patience_since,
       (select p.resends from tx_patience p where p.tx_id = r.tx_id) as patience_resends,
       (select u.since from tx_unproven u where u.tx_id = r.tx_id) as unproven_since,
       coalesce((select c.new_fork from confirmation c where c.tx_id = r.tx_id), 0) as new_fork,
       (select s.trace from tx_trace s where s.tx_id = r.tx_id) as trace
  from managed_tx t indexed by managed_tx_open cross join tx_full_record r on r.tx_id = t.tx_id
 where t.chain_id = ?1 and t.submitter = ?2 and t.tx_id > ?3 and t.finished_at is null
 order by t.tx_id limit ?4

-- name: tx_line_head
-- The head of a submitter's line: its lowest open slot that is neither mined nor used.
select tx_id, nonce, state
  from managed_tx indexed by managed_tx_open
 where chain_id = ?1 and submitter = ?2 and finished_at is null
   and nonce is not null and state not in (32 /* TRACKING_MINED */, 67 /* STUCK_UNPROVEN */)
 order by nonce limit 1

-- name: tx_final_slots
-- A submitter's final slots, highest first, in the order of the index of slots.
select tx_id, nonce, block_number
  from managed_tx indexed by managed_tx_slot
 where chain_id = ?1 and submitter = ?2 and nonce is not null and finished_at is not null
 order by nonce desc limit ?3

-- name: tx_slot_states
-- A page of a submitter's slots with their transactions, open and final, from ?3 up to before ?4, in the order
-- of the index of slots.
select nonce, tx_id, state
  from managed_tx indexed by managed_tx_slot
 where chain_id = ?1 and submitter = ?2 and nonce is not null and nonce >= ?3 and nonce < ?4
 order by nonce limit ?5

-- name: tx_slots
-- A page of the nonces of a submitter's open transactions, from ?3 on, in the order of the index of slots.
select nonce
  from managed_tx indexed by managed_tx_slot
 where chain_id = ?1 and submitter = ?2 and nonce is not null and nonce >= ?3
   and finished_at is null
 order by nonce limit ?4

-- name: tx_top_ups
-- The newest ?3 top-ups that submitter ?2 of chain ?1 pays.
select r.* from (
  select t.tx_id, t.created_at
    from managed_tx t indexed by managed_tx_top_up
   where t.chain_id = ?1 and t.submitter = ?2 and substr(t.request_id, 1, 6) = 'topup:'
   order by t.created_at desc limit ?3
) as found cross join tx_full_record r on r.tx_id = found.tx_id
order by found.created_at desc
