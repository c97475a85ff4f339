-- name: chain_insert
-- Registers a chain; a registered one stays as it is.
insert into chain (chain_id, genesis) values ($1, $2) on conflict do nothing

-- name: chain_genesis
-- The genesis hash that a chain was registered with.
select genesis from chain where chain_id = $1

-- name: submitter_register
-- Registers submitters. A registered one stays as it is: its cursor (I4), and its mode, which changes under the fence alone.
insert into submitter_cursor (chain_id, submitter, next_nonce, mode)
select u.chain_id, u.submitter, u.next_nonce, u.mode
  from unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::smallint[])
       as u (chain_id, submitter, next_nonce, mode)
 order by u.chain_id, u.submitter
on conflict (chain_id, submitter) do nothing

-- name: submitter_get
-- One submitter's own row.
select chain_id, submitter, next_nonce, mode, status, status_reason
  from submitter_cursor
 where chain_id = $1 and submitter = $2

-- name: submitter_modes
-- The modes of submitters, by the place in the input.
select u.place, c.mode
  from unnest($1::bigint[], $2::bytea[]) with ordinality as u (chain_id, submitter, place)
  join submitter_cursor c on c.chain_id = u.chain_id and c.submitter = u.submitter

-- name: wait_get
-- The conditions that a submitter waits for, and since when.
select kind, nonce, since from submitter_wait
 where chain_id = $1 and submitter = $2 order by kind, nonce

-- name: submitter_page
-- A page of a chain's submitters with their owners, after a place.
select c.chain_id, c.submitter, c.next_nonce, c.mode, c.status, c.status_reason,
       l.owner_node, l.fencing_token, n.advertise_url,
       greatest(0, extract(epoch from l.expires_at - clock_timestamp()) * 1000000)::bigint
         as remaining_micros
  from submitter_cursor c
  left join submitter_lease l
         on l.chain_id = c.chain_id and l.submitter = c.submitter and l.owner_node <> ''
  left join node n on n.node_id = l.owner_node
 where c.chain_id = $1 and c.submitter > $2
 order by c.submitter
 limit $3

-- name: submitter_depth
-- The number of open transactions of submitters, by the place in the input and by state, and when the oldest was accepted.
select u.place, m.state, count(*) as depth, min(m.created_at) as oldest
  from unnest($1::bigint[], $2::bytea[]) with ordinality as u (chain_id, submitter, place)
  join managed_tx m on m.chain_id = u.chain_id and m.submitter = u.submitter
 where m.finished_at is null
 group by u.place, m.state
 order by u.place, m.state

-- name: submitter_history_page
-- A page of one submitter's audit trail, oldest first.
select number, at, node, fencing_token, event, detail
  from submitter_history
 where chain_id = $1 and submitter = $2 and number > $3
 order by number
 limit $4
