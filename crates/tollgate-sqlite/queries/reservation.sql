-- Nonces that callers hold (RESERVED), used (USED) or gave back (RECYCLABLE). All but the reads run under
-- the guard of lease.sql. `state <> 2` is the condition of the index nonce_reservation_live.

-- name: reservation_count
-- The number of nonces that callers hold.
select count(*) as count from nonce_reservation indexed by nonce_reservation_live
 where chain_id = ?1 and submitter = ?2 and state <> 2 /* USED */
   and state = 1 /* RESERVED */

-- name: reservation_lowest
-- The lowest recyclable nonce that is not below ?3.
select nonce from nonce_reservation indexed by nonce_reservation_live
 where chain_id = ?1 and submitter = ?2 and nonce >= ?3
   and state <> 2 /* USED */ and state = 3 /* RECYCLABLE */
 order by nonce limit 1

-- name: reservation_put
-- Reserves a nonce for a caller for ?5 microseconds: a new one or a recyclable one. No row: it is in use.
insert into nonce_reservation (
  chain_id, submitter, nonce, state, owner_token, deadline, created_at, updated_at)
values (?1, ?2, ?3, 1 /* RESERVED */, ?4, db_now() + ?5, db_now(), db_now())
on conflict (chain_id, submitter, nonce) do update
  set state = 1 /* RESERVED */, owner_token = excluded.owner_token,
      deadline = excluded.deadline, tx_hash = null, reason = null, updated_at = db_now()
  where state = 3 /* RECYCLABLE */
returning chain_id, submitter, nonce, state, owner_token, deadline, tx_hash, reason

-- name: reservation_used
-- Marks a reserved nonce as used by its holder (token ?4); the same report twice is the same. No row: the token is stale.
update nonce_reservation set state = 2 /* USED */, tx_hash = ?5, updated_at = db_now()
 where chain_id = ?1 and submitter = ?2 and nonce = ?3 and owner_token = ?4
   and (state = 1 /* RESERVED */ or state = 2 /* USED */ and tx_hash = ?5)
returning chain_id, submitter, nonce, state, owner_token, deadline, tx_hash, reason

-- name: reservation_recyclable
-- Makes a nonce recyclable that its holder (token ?4) did not use. No row: the token is stale.
update nonce_reservation set state = 3 /* RECYCLABLE */, reason = ?5, updated_at = db_now()
 where chain_id = ?1 and submitter = ?2 and nonce = ?3 and owner_token = ?4
   and state = 1 /* RESERVED */
returning chain_id, submitter, nonce, state, owner_token, deadline, tx_hash, reason

-- name: reservation_expire
-- Makes reserved nonces recyclable whose deadline has passed; returns them.
update nonce_reservation indexed by nonce_reservation_live
   set state = 3 /* RECYCLABLE */, reason = 'expired', updated_at = db_now()
 where chain_id = ?1 and submitter = ?2 and state <> 2 /* USED */
   and state = 1 /* RESERVED */ and deadline <= db_now()
returning nonce

-- name: reservation_retire
-- Marks recyclable nonces below the mined count (?3) as used (I3); returns them.
update nonce_reservation indexed by nonce_reservation_live
   set state = 2 /* USED */, reason = 'passed by the chain', updated_at = db_now()
 where chain_id = ?1 and submitter = ?2 and nonce < ?3
   and state <> 2 /* USED */ and state = 3 /* RECYCLABLE */
returning nonce

-- name: reservation_recycle
-- Makes a nonce below the cursor (?4) recyclable that no transaction and no caller has; also a recyclable one if ?6, and a used one if ?7; no row otherwise. A managed transaction keeps its slot (I3), also when it was removed.
insert into nonce_reservation (
  chain_id, submitter, nonce, state, owner_token, deadline, reason, created_at, updated_at)
select ?1, ?2, ?3, 3 /* RECYCLABLE */, zeroblob(16), db_now(), ?5, db_now(), db_now()
 where ?3 < ?4
   and not exists (select 1 from managed_tx t
                    where t.chain_id = ?1 and t.submitter = ?2 and t.nonce = ?3)
   and ?3 >= coalesce((select end_nonce from removed_slots where chain_id = ?1 and submitter = ?2), 0)
on conflict (chain_id, submitter, nonce) do update
   set state = 3 /* RECYCLABLE */, owner_token = excluded.owner_token, deadline = excluded.deadline,
       tx_hash = null, reason = excluded.reason, updated_at = excluded.updated_at
 where ?6 and nonce_reservation.state = 3 /* RECYCLABLE */
    or ?7 and nonce_reservation.state = 2 /* USED */
returning nonce

-- name: reservation_page
-- A page of a submitter's reserved and recyclable nonces, lowest first, after ?3.
select chain_id, submitter, nonce, state, owner_token, deadline, tx_hash, reason
  from nonce_reservation indexed by nonce_reservation_live
 where chain_id = ?1 and submitter = ?2 and nonce > ?3 and state <> 2 /* USED */
 order by nonce limit ?4

-- name: reservation_used_from
-- A page of a submitter's used nonces from ?3 on, lowest first.
select nonce from nonce_reservation
 where chain_id = ?1 and submitter = ?2 and nonce >= ?3 and state = 2 /* USED */
 order by nonce limit ?4

-- name: reservation_used_for
-- The hash in which a nonce was used; no row if it is not used.
select tx_hash from nonce_reservation
 where chain_id = ?1 and submitter = ?2 and nonce = ?3 and state = 2 /* USED */ and tx_hash is not null
