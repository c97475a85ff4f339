-- Forgets an event that was delivered.
delete from outbox where id = ?1
