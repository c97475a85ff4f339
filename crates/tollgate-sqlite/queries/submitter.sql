-- name: chain_insert
-- Registers a chain; a registered one stays as it is.
insert into chain (chain_id, genesis, registered_at) values (?1, ?2, db_now())
on conflict (chain_id) do nothing

-- name: chain_genesis
-- The genesis hash that a chain was registered with.
select genesis from chain where chain_id = ?1

-- name: submitter_register
-- Registers a submitter. A registered one stays as it is: its cursor (I4), and its mode, which changes under the fence alone.
insert into submitter_cursor (chain_id, submitter, next_nonce, mode, status, updated_at)
values (?1, ?2, ?3, ?4, 1 /* ACTIVE */, db_now())
on conflict (chain_id, submitter) do nothing

-- name: submitter_get
-- A submitter's own row.
select chain_id, submitter, next_nonce, mode, status, status_reason
  from submitter_cursor where chain_id = ?1 and submitter = ?2

-- name: submitter_modes
-- A submitter's mode.
select mode from submitter_cursor where chain_id = ?1 and submitter = ?2

-- name: wait_get
-- The conditions that a submitter waits for, and since when.
select kind, nonce, since from submitter_wait
 where chain_id = ?1 and submitter = ?2 order by kind, nonce

-- name: submitter_page
-- A page of chain ?1's submitters with their owners, in the order of their addresses, after ?2.
select c.chain_id, c.submitter, c.next_nonce, c.mode, c.status, c.status_reason,
       l.owner_node, l.fencing_token, n.advertise_url,
       max(l.expires_at - db_now(), 0) as remaining_micros
  from submitter_cursor c
  left join submitter_lease l
    on l.chain_id = c.chain_id and l.submitter = c.submitter and l.owner_node <> ''
  left join node n on n.node_id = l.owner_node
 where c.chain_id = ?1 and c.submitter > ?2
 order by c.submitter
 limit ?3

-- name: submitter_depth
-- The number of a submitter's open transactions by state, and when the oldest was accepted.
select state, count(*) as depth, min(created_at) as oldest
  from managed_tx indexed by managed_tx_open
 where chain_id = ?1 and submitter = ?2 and finished_at is null
 group by state order by state

-- name: submitter_history_page
-- A page of one submitter's audit trail, oldest first, after number ?3.
select number, at, node, fencing_token, event, detail
  from submitter_history
 where chain_id = ?1 and submitter = ?2 and number > ?3 order by number limit ?4
