-- The log of events, and the sinks that receive it. outbox_insert (batch.sql) writes it.

-- name: event_due
-- The ?1 oldest batches whose events have no number.
select id, events from outbox where first_seq is null order by id limit ?1

-- name: event_count
-- Raises the last number by ?1 (I10). A rollback gives the numbers back.
update event_counter set last_seq = last_seq + ?1 where only_row = 1 returning last_seq

-- name: event_number
-- Numbers the events of batch ?1 from ?2 on.
update outbox set first_seq = ?2 where id = ?1

-- name: event_page
-- The batches that hold the ?2 numbers behind ?1, and the ends of the log in the same snapshot; one row without a batch if there is none. It begins with the batch that holds the first of them; if none of them is there, it is the next batch alone.
select k.last_seq, k.removed_through, o.first_seq, o.body, o.at
  from event_counter k
  left join (
    select b.first_seq, b.body, b.at
      from outbox b indexed by outbox_numbered
     where b.first_seq >= coalesce(
             (select s.first_seq from outbox s indexed by outbox_numbered
               where s.first_seq <= ?1 + 1 order by s.first_seq desc limit 1), ?1 + 1)
       and b.first_seq <= max(?1 + ?2, coalesce(
             (select n.first_seq from outbox n indexed by outbox_numbered
               where n.first_seq > ?1 order by n.first_seq limit 1), 0))
     order by b.first_seq
     limit ?2
  ) as o on true
 order by o.first_seq

-- name: event_bounds
-- The last number, and the last one that was removed.
select last_seq, removed_through from event_counter

-- name: event_oldest
-- Of the ?3 oldest numbered batches those that are older than ?1 microseconds or have ?2 events behind them.
select d.id, d.first_seq + d.events - 1 as through
  from (select id, at, first_seq, events from outbox indexed by outbox_numbered
         where first_seq is not null order by first_seq limit ?3) as d
 where d.at < db_now() - ?1
    or d.first_seq + d.events - 1 <= (select last_seq from event_counter) - ?2

-- name: event_remove
-- Removes a batch of events.
delete from outbox where id = ?1

-- name: event_removed
-- Raises the last removed number, never back.
update event_counter set removed_through = max(removed_through, ?1) where only_row = 1

-- name: sink_claim
-- Makes node ?2 the one that delivers to sink ?1, for ?3 microseconds (I11). A new sink begins at the end of the log. A node that claims anew, for instance after a failure of the database, ends its earlier claim. No row: another node is.
insert into event_sink as s (name, acknowledged, token, holder, held_until)
select ?1, k.last_seq, 1, ?2, db_now() + ?3 from event_counter k where true
on conflict (name) do update
   set token = s.token + 1, holder = excluded.holder, held_until = excluded.held_until
 where s.held_until < db_now() or s.holder = excluded.holder
returning token, acknowledged

-- name: sink_acknowledge
-- Raises what sink ?1 has done to ?3, never back, and extends the claim ?2 by ?4 microseconds. No row: the claim is lost.
update event_sink
   set acknowledged = max(acknowledged, ?3), held_until = db_now() + ?4
 where name = ?1 and token = ?2 and held_until > db_now()
returning token

-- name: sink_rewind
-- Sets sink ?1 to deliver what follows ?2, and ends the present claim.
update event_sink set acknowledged = ?2, token = token + 1, held_until = db_now() - 1 where name = ?1

-- name: dead_letter_put
-- Keeps an event that a sink did not take, or its latest failure.
insert into event_dead_letter (sink, seq, body, at, attempts, last_error, buried_at)
values (?1, ?2, ?3, ?4, ?5, ?6, db_now())
on conflict (sink, seq) do update
   set attempts = excluded.attempts, last_error = excluded.last_error, is_due = 0

-- name: dead_letter_page
-- Dead letters of sink ?1 behind number ?2; only those that are due, if ?3.
select seq, body, at, attempts, last_error, is_due
  from event_dead_letter
 where sink = ?1 and seq > ?2 and (is_due or not ?3)
 order by seq
 limit ?4

-- name: dead_letter_retry
-- Marks the dead letters of sink ?1 from number ?2 to ?3 for another attempt.
update event_dead_letter set is_due = 1 where sink = ?1 and seq between ?2 and ?3

-- name: dead_letter_delete
-- Deletes a dead letter that was delivered.
delete from event_dead_letter where sink = ?1 and seq = ?2

-- name: dead_letter_forget
-- Deletes the oldest dead letters of all sinks beyond the newest ?1, at most ?2 of them (I13).
delete from event_dead_letter
 where (sink, seq) in (select sink, seq from event_dead_letter order by seq desc, sink limit ?2 offset ?1)
