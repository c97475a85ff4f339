-- The nodes of a chain that said lately that they are alive.
select node_id, advertise_url, draining, serves
  from node
 where chain_id = $1
   and heartbeat_at > clock_timestamp() - $2::bigint * interval '1 microsecond'
 order by node_id
