-- The oldest events that were not delivered.
select id, kind, key, tx_id, body, created_at from outbox order by id limit ?1
