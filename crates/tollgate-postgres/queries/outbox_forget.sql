-- Forgets events that were delivered.
delete from outbox where id = any ($1::bigint[])
