-- The lease protocol, in the order of a takeover: look (lease_find); insert, renew, or take over a row
-- that is still expired under the write lock. lease_guard is the fence of every critical transaction.

-- name: begin
-- Begins every transaction that writes. IMMEDIATE takes the database's write lock: what is checked stays true until the commit (I1, I2).
begin immediate

-- name: lease_find
-- Reads a lease: its owner, whether it is valid, and whether node ?4 can take it over. Other nodes wait for the clock skew allowance (?3) after the expiry; the owner itself does not. No row: it was never acquired.
select l.owner_node, l.fencing_token, n.advertise_url,
       max(l.expires_at - db_now(), 0) as remaining_micros,
       l.expires_at > db_now() as valid,
       l.expires_at + iif(l.owner_node = ?4, 0, ?3) <= db_now() as takeable
  from submitter_lease l
  left join node n on n.node_id = l.owner_node
 where l.chain_id = ?1 and l.submitter = ?2

-- name: lease_insert
-- Acquires a lease for the first time, for ?4 microseconds, with token 1.
insert into submitter_lease (chain_id, submitter, owner_node, fencing_token, expires_at, updated_at, routes_token)
values (?1, ?2, ?3, 1, db_now() + ?4, db_now(), 1)

-- name: lease_lock_expired
-- First half of a takeover: a row if node ?4 can take the lease over, by the same comparison as in lease_find.
select 1 from submitter_lease
 where chain_id = ?1 and submitter = ?2 and expires_at + iif(owner_node = ?4, 0, ?3) <= db_now()

-- name: lease_take_over
-- Second half of a takeover, under the same write lock: a new owner and the next token (I4). routes_token says that the owner knows routes.
update submitter_lease
   set owner_node = ?3, fencing_token = fencing_token + 1, routes_token = fencing_token + 1,
       expires_at = db_now() + ?4, updated_at = db_now()
 where chain_id = ?1 and submitter = ?2
returning fencing_token

-- name: lease_renew
-- Extends a node's lease by ?5 microseconds from now if it is still valid.
update submitter_lease
   set expires_at = db_now() + ?5, updated_at = db_now()
 where chain_id = ?1 and submitter = ?2 and owner_node = ?3 and fencing_token = ?4
   and expires_at > db_now()

-- name: lease_release
-- Releases a lease: no owner, and the next token, so that nothing in flight can commit (I2).
update submitter_lease
   set owner_node = '', fencing_token = fencing_token + 1, expires_at = -4611686018427387904,
       updated_at = db_now()
 where chain_id = ?1 and submitter = ?2 and owner_node = ?3 and fencing_token = ?4

-- name: lease_mark_private
-- Marks a submitter that has private transactions, under its lease: from now on the check of routes_token refuses owners that know no routes.
update submitter_lease
   set is_private = 1
 where chain_id = ?1 and submitter = ?2 and owner_node = ?3 and fencing_token = ?4
   and expires_at > db_now()

-- name: lease_guard
-- The fence: a row if the writer still holds the lease; the first read of every critical transaction (I1, I2).
select 1 from submitter_lease
 where chain_id = ?1 and submitter = ?2 and owner_node = ?3 and fencing_token = ?4
   and expires_at > db_now()

-- name: lease_owners
-- The owner of a lease and the time left. No row: it was never acquired, or it was released.
select l.owner_node, l.fencing_token, n.advertise_url,
       max(l.expires_at - db_now(), 0) as remaining_micros
  from submitter_lease l
  left join node n on n.node_id = l.owner_node
 where l.chain_id = ?1 and l.submitter = ?2 and l.owner_node <> ''

-- name: lease_orphans
-- Of the next ?3 submitters of chain ?1 with open work above ?2: those without a valid lease, and the last one if it is the ?3rd. One step along the index of open work for each; submitters without work cost nothing.
with recursive busy (submitter, place) as (
  select * from (
    select t.submitter, 1
      from managed_tx t indexed by managed_tx_open
     where t.chain_id = ?1 and t.submitter > ?2 and t.finished_at is null
     order by t.submitter
     limit 1)
  union all
  select (select t.submitter
            from managed_tx t indexed by managed_tx_open
           where t.chain_id = ?1 and t.submitter > b.submitter and t.finished_at is null
           order by t.submitter
           limit 1),
         b.place + 1
    from busy b
   where b.submitter is not null and b.place < ?3
), seen as (
  select b.submitter, b.place = ?3 as is_last,
         not exists (
           select 1 from submitter_lease l
            where l.chain_id = ?1 and l.submitter = b.submitter and l.expires_at > db_now()
         ) as is_orphan
    from busy b
   where b.submitter is not null
)
select ?1 as chain_id, submitter, is_last, is_orphan
  from seen
 where is_orphan or is_last
 order by submitter
