-- name: node_heartbeat
-- Records that a node is alive, its chain, and which accounts it serves.
insert into node (node_id, advertise_url, draining, chain_id, serves) values ($1, $2, $3, $4, $5)
on conflict (node_id) do update
   set advertise_url = excluded.advertise_url, draining = excluded.draining,
       chain_id = excluded.chain_id, serves = excluded.serves, heartbeat_at = clock_timestamp()

-- name: node_live
-- The nodes of a chain whose last heartbeat is younger than $2 microseconds.
select node_id, advertise_url, draining, serves
  from node
 where chain_id = $1
   and heartbeat_at > clock_timestamp() - $2::bigint * interval '1 microsecond'
 order by node_id

-- name: node_key_find
-- Whether the key of node $1 is $2.
select 1 from node where node_id = $1 and peer_key = $2

-- name: node_key_put
-- Sets the key with which node $1 signs its requests to other nodes.
update node set peer_key = $2 where node_id = $1

-- name: node_key_get
-- The key of node $1, of any chain, if its last heartbeat is younger than $2 microseconds.
select peer_key from node
 where node_id = $1 and peer_key is not null
   and heartbeat_at > clock_timestamp() - $2::bigint * interval '1 microsecond'

-- name: node_leave
-- Removes a node, and nodes without a heartbeat for a day.
delete from node where node_id = $1 or heartbeat_at < clock_timestamp() - interval '1 day'

-- name: served_find
-- Whether a set of accounts is published.
select 1 from served_set where digest = $1

-- name: served_put
-- Publishes a set of accounts, unless another node did so meanwhile.
insert into served_set (digest, accounts) values ($1, $2) on conflict do nothing

-- name: served_get
-- The set of accounts that was published under a digest.
select accounts from served_set where digest = $1

-- name: served_forget
-- Deletes sets of accounts that no node names, a day after they were published.
delete from served_set s
 where s.published_at < clock_timestamp() - interval '1 day'
   and not exists (select 1 from node n where n.serves = s.digest)
