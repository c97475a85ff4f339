-- name: node_heartbeat
-- Records that a node is alive, its chain (?4), and which accounts it serves (?5).
insert into node (node_id, advertise_url, draining, chain_id, serves, started_at, heartbeat_at)
values (?1, ?2, ?3, ?4, ?5, db_now(), db_now())
on conflict (node_id) do update
  set advertise_url = excluded.advertise_url, draining = excluded.draining,
      chain_id = excluded.chain_id, serves = excluded.serves, heartbeat_at = db_now()

-- name: node_live
-- The nodes of chain ?1 whose last heartbeat is younger than ?2 microseconds, in the order of their ids.
select node_id, advertise_url, draining, serves from node
 where chain_id = ?1 and heartbeat_at > db_now() - ?2 order by node_id

-- name: node_key_find
-- Whether the key of node ?1 is ?2.
select 1 from node where node_id = ?1 and peer_key = ?2

-- name: node_key_put
-- Sets the key with which node ?1 signs its requests to other nodes.
update node set peer_key = ?2 where node_id = ?1

-- name: node_key_get
-- The key of node ?1, of any chain, if its last heartbeat is younger than ?2 microseconds.
select peer_key from node
 where node_id = ?1 and peer_key is not null and heartbeat_at > db_now() - ?2

-- name: node_leave
-- Removes a node.
delete from node where node_id = ?1

-- name: served_find
-- Whether the set of accounts ?1 is published.
select 1 from served_set where digest = ?1

-- name: served_put
-- Publishes a set of accounts, unless it is published already.
insert into served_set (digest, accounts, published_at) values (?1, ?2, db_now())
on conflict do nothing

-- name: served_get
-- The set of accounts that was published under digest ?1.
select accounts from served_set where digest = ?1

-- name: served_forget
-- Deletes sets of accounts that no node names and that were published more than ?1 microseconds ago.
delete from served_set
 where published_at < db_now() - ?1
   and not exists (select 1 from node n where n.serves = served_set.digest)
