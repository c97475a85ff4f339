-- The nodes whose last heartbeat is younger than ?1 microseconds, in the order of their ids.
select node_id, advertise_url, draining from node
 where heartbeat_at > db_now() - ?1 order by node_id
