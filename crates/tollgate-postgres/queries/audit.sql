-- The audit log: entries are added and removed by age, never changed.

-- name: audit_insert
-- Adds an entry.
insert into audit_log (key_id, author, address, action, subject, reason) values ($1, $2, $3, $4, $5, $6)

-- name: audit_page
-- The $2 newest entries with a number below $1, newest first.
select number, at, key_id, author, address, action, subject, reason
  from audit_log where number < $1 order by number desc limit $2

-- name: audit_forget
-- Deletes at most $2 entries that are older than $1 microseconds, oldest first.
delete from audit_log
 where number in (select number from audit_log
                   where at < clock_timestamp() - $1::bigint * interval '1 microsecond'
                   order by at limit $2)
