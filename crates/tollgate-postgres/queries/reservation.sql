-- Nonces that callers hold (RESERVED), used (USED) or gave back (RECYCLABLE). All but the reads run under
-- the guard of lease.sql.

-- name: reservation_count
-- The number of nonces that callers hold.
select count(*) from nonce_reservation where chain_id = $1 and submitter = $2 and state = 1 /* RESERVED */

-- name: reservation_lowest
-- The lowest recyclable nonce that is not below $3.
select nonce
  from nonce_reservation
 where chain_id = $1 and submitter = $2 and nonce >= $3 and state = 3 /* RECYCLABLE */
 order by nonce
 limit 1

-- name: reservation_put
-- Reserves a nonce for a caller: a new one or a recyclable one. No row: it is in use.
insert into nonce_reservation (chain_id, submitter, nonce, state, owner_token, deadline)
values ($1, $2, $3, 1 /* RESERVED */, $4, clock_timestamp() + $5::bigint * interval '1 microsecond')
on conflict (chain_id, submitter, nonce) do update
   set state = 1 /* RESERVED */, owner_token = excluded.owner_token, deadline = excluded.deadline,
       tx_hash = null, reason = null, updated_at = clock_timestamp()
 where nonce_reservation.state = 3 /* RECYCLABLE */
returning chain_id, submitter, nonce, state, owner_token, deadline, tx_hash, reason

-- name: reservation_used
-- Marks a reserved nonce as used by its holder; the same report twice is the same. No row: the holder's token is stale.
update nonce_reservation
   set state = 2 /* USED */, tx_hash = $5, updated_at = clock_timestamp()
 where chain_id = $1 and submitter = $2 and nonce = $3 and owner_token = $4
   and (state = 1 /* RESERVED */ or state = 2 /* USED */ and tx_hash = $5)
returning chain_id, submitter, nonce, state, owner_token, deadline, tx_hash, reason

-- name: reservation_recyclable
-- Makes a nonce recyclable that its holder did not use. No row: the holder's token is stale.
update nonce_reservation
   set state = 3 /* RECYCLABLE */, reason = $5, updated_at = clock_timestamp()
 where chain_id = $1 and submitter = $2 and nonce = $3 and owner_token = $4
   and state = 1 /* RESERVED */
returning chain_id, submitter, nonce, state, owner_token, deadline, tx_hash, reason

-- name: reservation_expire
-- Makes reserved nonces recyclable whose deadline has passed; returns them.
update nonce_reservation
   set state = 3 /* RECYCLABLE */, reason = 'expired', updated_at = clock_timestamp()
 where chain_id = $1 and submitter = $2 and state = 1 /* RESERVED */ and deadline <= clock_timestamp()
returning nonce

-- name: reservation_retire
-- Marks recyclable nonces below the mined count ($3) as used (I3); returns them.
update nonce_reservation
   set state = 2 /* USED */, reason = 'passed by the chain', updated_at = clock_timestamp()
 where chain_id = $1 and submitter = $2 and nonce < $3
   and state <> 2 /* USED */ and state = 3 /* RECYCLABLE */
returning nonce

-- name: reservation_recycle
-- Makes nonces below the cursor ($4) recyclable that no transaction and no caller has; also recyclable ones if $6, and used ones if $7; returns them. A managed transaction keeps its slot (I3), also when it was removed. Each is looked up by itself: `limit 1` keeps the planner from reading all slots of the submitter at once.
insert into nonce_reservation (chain_id, submitter, nonce, state, owner_token, deadline, reason)
select $1, $2, u.nonce, 3 /* RECYCLABLE */, '00000000-0000-0000-0000-000000000000', clock_timestamp(), $5
  from unnest($3::bigint[]) as u (nonce)
  left join lateral (select true as taken from managed_tx m
                      where m.chain_id = $1 and m.submitter = $2 and m.nonce = u.nonce
                      limit 1) as s on true
 where u.nonce < $4 and s.taken is null
   and u.nonce >= coalesce((select r.end_nonce from removed_slots r
                             where r.chain_id = $1 and r.submitter = $2), 0)
on conflict (chain_id, submitter, nonce) do update
   set state = 3 /* RECYCLABLE */, owner_token = excluded.owner_token, deadline = excluded.deadline,
       tx_hash = null, reason = excluded.reason, updated_at = clock_timestamp()
 where $6 and nonce_reservation.state = 3 /* RECYCLABLE */
    or $7 and nonce_reservation.state = 2 /* USED */
returning nonce

-- name: reservation_page
-- A page of a submitter's reserved and recyclable nonces, lowest first.
select chain_id, submitter, nonce, state, owner_token, deadline, tx_hash, reason
  from nonce_reservation
 where chain_id = $1 and submitter = $2 and nonce > $3 and state <> 2 /* USED */
 order by nonce
 limit $4

-- name: reservation_used_from
-- A page of a submitter's used nonces from $3 on, lowest first.
select nonce
  from nonce_reservation
 where chain_id = $1 and submitter = $2 and nonce >= $3 and state = 2 /* USED */
 order by nonce
 limit $4

-- name: reservation_used_for
-- The hash in which a nonce was used; no row if it is not used.
select tx_hash from nonce_reservation
 where chain_id = $1 and submitter = $2 and nonce = $3 and state = 2 /* USED */ and tx_hash is not null
