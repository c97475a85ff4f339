-- The nodes of chain ?1 whose last heartbeat is younger than ?2 microseconds, in the order of their ids.
select node_id, advertise_url, draining, serves from node
 where chain_id = ?1 and heartbeat_at > db_now() - ?2 order by node_id
