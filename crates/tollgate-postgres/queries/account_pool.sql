-- name: pool_put
-- Creates a pool, or locks it: changes of one pool happen one after the other.
insert into account_pool (chain_id, name, changed_at) values ($1, $2, clock_timestamp())
on conflict (chain_id, name) do update set changed_at = excluded.changed_at

-- name: pool_clear
-- Takes all members out of a pool.
delete from account_pool_member where chain_id = $1 and name = $2

-- name: pool_add
-- Adds members to a pool.
insert into account_pool_member (chain_id, name, submitter)
select $1, $2, u.submitter from unnest($3::bytea[]) as u (submitter)

-- name: pool_remove
-- Removes a pool, with its members.
delete from account_pool where chain_id = $1 and name = $2

-- name: pool_members
-- The members of a pool with their status and number of open transactions.
select c.chain_id, c.submitter, c.status,
       (select count(*) from managed_tx m
         where m.chain_id = c.chain_id and m.submitter = c.submitter and m.finished_at is null) as open
  from account_pool_member p
  join submitter_cursor c on c.chain_id = p.chain_id and c.submitter = p.submitter
 where p.chain_id = $1 and p.name = $2
 order by c.submitter

-- name: pool_page
-- The pools of chain $1 after the name $2, at most $3, a row for each member.
select p.chain_id, p.name, p.submitter
  from account_pool_member p
  join (select name from account_pool where chain_id = $1 and name > $2 order by name limit $3) as page
    on page.name = p.name
 where p.chain_id = $1
 order by p.name, p.submitter

-- name: pool_assign
-- I7: assigns a request to member $4, unless it was assigned before; returns the member that it is assigned to.
insert into pool_request (chain_id, pool, request_id, submitter, assigned_at)
values ($1, $2, $3, $4, clock_timestamp())
on conflict (chain_id, pool, request_id) do update set submitter = pool_request.submitter
returning chain_id, submitter

-- name: pool_assigned
-- The member that a request was assigned to.
select chain_id, submitter from pool_request
 where chain_id = $1 and pool = $2 and request_id = $3
