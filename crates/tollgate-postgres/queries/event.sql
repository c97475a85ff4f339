-- The log of events, and the sinks that receive it. outbox_insert (batch.sql) writes it.

-- name: event_due
-- A row if events of any committed batch have no number.
select id from outbox where first_seq is null order by id limit 1

-- name: event_lock
-- Locks the counter: one transaction at a time gives numbers. A statement of its own, so that the next one's snapshot shows what was numbered before.
select last_seq from event_counter for update

-- name: event_number
-- Numbers the events of the $1 oldest batches that have no number (I10). Only committed ones are visible; a batch that began after another had committed has the higher id.
with due as (
  select d.id, d.events, sum(d.events) over (order by d.id) as through
    from (select id, events from outbox where first_seq is null order by id limit $1) as d
), numbered as (
  update outbox o
     set first_seq = (select last_seq from event_counter) + due.through::bigint - due.events + 1
    from due
   where o.id = due.id
  returning o.events
)
update event_counter
   set last_seq = last_seq + (select sum(events) from numbered)::bigint
 where exists (select 1 from numbered)
returning (select count(*) from numbered) as batches

-- name: event_page
-- The batches that hold the $2 numbers behind $1, and the ends of the log in the same snapshot; one row without a batch if there is none. It begins with the batch that holds the first of them; if none of them is there, it is the next batch alone.
select k.last_seq, k.removed_through, o.first_seq, o.body, o.at
  from event_counter k
  left join lateral (
    select b.first_seq, b.body, b.at
      from outbox b
     where b.first_seq >= coalesce(
             (select s.first_seq from outbox s
               where s.first_seq <= $1::bigint + 1 order by s.first_seq desc limit 1), $1 + 1)
       and b.first_seq <= greatest($1 + $2::bigint,
             (select n.first_seq from outbox n
               where n.first_seq > $1 order by n.first_seq limit 1))
     order by b.first_seq
     limit $2
  ) as o on true
 order by o.first_seq

-- name: event_bounds
-- The last number, and the last one that was removed.
select last_seq, removed_through from event_counter

-- name: event_remove
-- Removes those of the $3 oldest numbered batches that are older than $1 microseconds or have $2 events behind them.
with gone as (
  delete from outbox
   where id in (
     select d.id
       from (select id, at, first_seq, events from outbox
              where first_seq is not null order by first_seq limit $3) as d
      where d.at < clock_timestamp() - $1::bigint * interval '1 microsecond'
         or d.first_seq + d.events - 1 <= (select last_seq from event_counter) - $2::bigint)
  returning first_seq + events - 1 as through
)
update event_counter
   set removed_through = greatest(removed_through, (select max(through) from gone))
 where exists (select 1 from gone)
returning (select count(*) from gone) as batches

-- name: sink_claim
-- Makes node $2 the one that delivers to sink $1, for $3 microseconds (I11). A new sink begins at the end of the log. A node that claims anew, for instance after a failure of the database, ends its earlier claim. No row: another node is.
insert into event_sink as s (name, acknowledged, token, holder, held_until)
select $1, k.last_seq, 1, $2, clock_timestamp() + $3::bigint * interval '1 microsecond'
  from event_counter k
on conflict (name) do update
   set token = s.token + 1, holder = excluded.holder, held_until = excluded.held_until
 where s.held_until < clock_timestamp() or s.holder = excluded.holder
returning token, acknowledged

-- name: sink_acknowledge
-- Raises what sink $1 has done to $3, never back, and extends the claim $2 by $4 microseconds. No row: the claim is lost.
update event_sink
   set acknowledged = greatest(acknowledged, $3),
       held_until = clock_timestamp() + $4::bigint * interval '1 microsecond'
 where name = $1 and token = $2 and held_until > clock_timestamp()
returning token

-- name: sink_rewind
-- Sets sink $1 to deliver what follows $2, and ends the present claim.
update event_sink
   set acknowledged = $2, token = token + 1, held_until = clock_timestamp() - interval '1 microsecond'
 where name = $1

-- name: dead_letter_put
-- Keeps an event that a sink did not take, or its latest failure.
insert into event_dead_letter (sink, seq, body, at, attempts, last_error)
values ($1, $2, $3, $4, $5, $6)
on conflict (sink, seq) do update
   set attempts = excluded.attempts, last_error = excluded.last_error, is_due = false

-- name: dead_letter_page
-- Dead letters of sink $1 behind number $2; only those that are due, if $3.
select seq, body, at, attempts, last_error, is_due
  from event_dead_letter
 where sink = $1 and seq > $2 and (is_due or not $3)
 order by seq
 limit $4

-- name: dead_letter_retry
-- Marks the dead letters of sink $1 from number $2 to $3 for another attempt.
update event_dead_letter set is_due = true where sink = $1 and seq between $2 and $3

-- name: dead_letter_delete
-- Deletes a dead letter that was delivered.
delete from event_dead_letter where sink = $1 and seq = $2

-- name: dead_letter_forget
-- Deletes the oldest dead letters of all sinks beyond the newest $1, at most $2 of them (I13).
delete from event_dead_letter
 where (sink, seq) in (select sink, seq from event_dead_letter order by seq desc, sink offset $1 limit $2)
