-- The lease protocol, in the order of a takeover: look (lease_find); insert, renew, or lock the expired
-- row and take it over. lease_guard is the fence of every critical transaction.

-- name: begin
-- Begins every transaction. READ COMMITTED: each statement sees what was committed before it began, so what a takeover reads after it has waited for a lock includes what the lock's holder wrote.
begin isolation level read committed

-- name: lease_find
-- Reads a lease without a lock: its token, whether node $4 holds it, and whether that node can take it over. Other nodes wait for the clock skew allowance ($3) after the expiry; the owner itself does not. No row: it was never acquired.
select fencing_token,
       owner_node = $4 and expires_at > clock_timestamp() as is_own,
       expires_at + case when owner_node = $4 then 0 else $3::bigint end * interval '1 microsecond'
         <= clock_timestamp() as is_takeable
  from submitter_lease
 where chain_id = $1 and submitter = $2

-- name: lease_insert
-- Acquires a lease for the first time. No row: another node was faster.
insert into submitter_lease (chain_id, submitter, owner_node, fencing_token, expires_at, routes_token)
values ($1, $2, $3, 1, clock_timestamp() + $4::bigint * interval '1 microsecond', 1)
on conflict do nothing
returning fencing_token

-- name: lease_lock_expired
-- First half of a takeover: waits for the writers that hold the lease by their guards (I2). No row: the lease can't be taken over, by the same comparison as in lease_find.
select 1
  from submitter_lease
 where chain_id = $1 and submitter = $2
   and expires_at + case when owner_node = $4 then 0 else $3::bigint end * interval '1 microsecond'
         <= clock_timestamp()
   for update

-- name: lease_take_over
-- Second half of a takeover, under the lock of the first: a new owner and the next token (I4). routes_token says that the owner knows routes.
update submitter_lease
   set owner_node = $3,
       fencing_token = fencing_token + 1,
       routes_token = fencing_token + 1,
       expires_at = clock_timestamp() + $4::bigint * interval '1 microsecond',
       updated_at = clock_timestamp()
 where chain_id = $1 and submitter = $2
returning fencing_token

-- name: lease_renew
-- Extends those of a node's leases that are still valid; returns their places in the input.
update submitter_lease l
   set expires_at = clock_timestamp() + $5::bigint * interval '1 microsecond',
       updated_at = clock_timestamp()
  from unnest($1::bigint[], $2::bytea[], $3::bigint[])
       with ordinality as u (chain_id, submitter, token, place)
 where l.chain_id = u.chain_id and l.submitter = u.submitter
   and l.owner_node = $4 and l.fencing_token = u.token and l.expires_at > clock_timestamp()
returning u.place

-- name: lease_release
-- Releases leases, all in one statement: no owner, and the next token, so that nothing in flight can commit (I2).
with held as (
  select l.chain_id, l.submitter
    from unnest($1::bigint[], $2::bytea[], $3::bigint[]) as u (chain_id, submitter, token)
    join submitter_lease l on l.chain_id = u.chain_id and l.submitter = u.submitter
   where l.owner_node = $4 and l.fencing_token = u.token
   order by l.chain_id, l.submitter
     for update of l
)
update submitter_lease l
   set owner_node = '', fencing_token = l.fencing_token + 1,
       expires_at = '-infinity', updated_at = clock_timestamp()
  from held
 where l.chain_id = held.chain_id and l.submitter = held.submitter

-- name: lease_mark_private
-- Marks a submitter that has private transactions, under its lease: from now on the check of routes_token refuses owners that know no routes.
update submitter_lease
   set is_private = true
 where chain_id = $1 and submitter = $2 and owner_node = $3 and fencing_token = $4
   and expires_at > clock_timestamp()

-- name: lease_guard
-- The fence: checks leases and locks them until the commit; returns the places of the valid ones, and the time.
select u.place, clock_timestamp() as at
  from unnest($1::bigint[], $2::bytea[], $3::bigint[])
       with ordinality as u (chain_id, submitter, token, place)
  join submitter_lease l on l.chain_id = u.chain_id and l.submitter = u.submitter
 where l.owner_node = $4 and l.fencing_token = u.token   -- safety
   and l.expires_at > clock_timestamp()                  -- liveness
 order by l.chain_id, l.submitter
   for key share of l

-- name: lease_owners
-- The owner of each lease, by the place in the input. A released lease has none.
select u.place, l.owner_node, l.fencing_token, n.advertise_url,
       greatest(0, extract(epoch from l.expires_at - clock_timestamp()) * 1000000)::bigint
         as remaining_micros
  from unnest($1::bigint[], $2::bytea[]) with ordinality as u (chain_id, submitter, place)
  join submitter_lease l on l.chain_id = u.chain_id and l.submitter = u.submitter
  left join node n on n.node_id = l.owner_node
 where l.owner_node <> ''

-- name: lease_orphans
-- Of the next $3 submitters with open work above $2: those without a valid lease, and the last one if it is the $3rd. One step along the index of open work for each; submitters without work cost nothing.
with recursive busy (submitter, place) as (
  (select m.submitter, 1::bigint
     from managed_tx m
    where m.chain_id = $1 and m.submitter > $2 and m.finished_at is null
    order by m.submitter
    limit 1)
  union all
  select (select m.submitter
            from managed_tx m
           where m.chain_id = $1 and m.submitter > b.submitter and m.finished_at is null
           order by m.submitter
           limit 1),
         b.place + 1
    from busy b
   where b.submitter is not null and b.place < $3
), seen as (
  select b.submitter, b.place = $3 as is_last,
         coalesce((select l.expires_at <= clock_timestamp()
                     from submitter_lease l
                    where l.chain_id = $1 and l.submitter = b.submitter), true) as is_orphan
    from busy b
   where b.submitter is not null
)
select $1::bigint as chain_id, submitter, is_last, is_orphan
  from seen
 where is_orphan or is_last
 order by submitter
