-- Takes a node off the list, and with it those that have been silent for a day.
delete from node where node_id = $1 or heartbeat_at < clock_timestamp() - interval '1 day'
