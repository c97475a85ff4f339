-- Alerts, and the notices about them (I11: a notice is claimed before it is sent).

-- name: alert_put
-- Raises an alert, or notes that the open one of its kind and subject was seen again. The first of a new one is true.
insert into alert (alert_id, kind, subject, chain_id, submitter, part, level, detail, node, raised_at, seen_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, db_now(), db_now())
on conflict (kind, subject) where resolved_at is null do update
   set seen_at = db_now(), times = alert.times + 1, detail = excluded.detail,
       level = max(alert.level, excluded.level)
returning times = 1 as is_new

-- name: alert_notice_put
-- Adds the notice that alert ?1 was raised (phase 1), for a sink.
insert into alert_notice (sink, alert_id, phase, due_at) values (?2, ?1, 1, db_now()) on conflict do nothing

-- name: alert_resolve
-- Resolves an open alert that was not seen after ?2.
update alert set resolved_at = db_now()
 where alert_id = ?1 and resolved_at is null and seen_at <= ?2
returning alert_id

-- name: alert_notice_withdraw
-- Deletes the notices of an alert that nobody has tried to send.
delete from alert_notice
 where alert_id = ?1 and phase = 1 and tries = 0 and ended_at is null

-- name: alert_notice_resolve
-- Adds the notice that an alert was resolved for the sinks that were told, or are being told, that it was raised.
insert into alert_notice (sink, alert_id, phase, due_at)
select sink, alert_id, 2, db_now() from alert_notice
 where alert_id = ?1 and phase = 1 and (ended_at is null or is_delivered)
on conflict do nothing

-- name: alert_page_open
-- The newest ?1 alerts that are open.
select alert_id, kind, chain_id, submitter, part, level, detail, node, raised_at, seen_at, resolved_at, times,
       db_now() - seen_at as unseen
  from alert where resolved_at is null order by raised_at desc, alert_id desc limit ?1

-- name: alert_page
-- The newest ?1 alerts.
select alert_id, kind, chain_id, submitter, part, level, detail, node, raised_at, seen_at, resolved_at, times,
       db_now() - seen_at as unseen
  from alert order by raised_at desc, alert_id desc limit ?1

-- name: alert_sink_put
-- Makes the row of a sink.
insert into alert_sink (sink, minute_from, sent) values (?1, db_now(), 0) on conflict do nothing

-- name: alert_sink_take
-- Counts one message to sink ?1, of at most ?2 in a minute of all nodes. No row: there were as many. The lock of the row orders the claims of a sink.
update alert_sink
   set sent = case when minute_from <= db_now() - 60000000 then 1 else sent + 1 end,
       minute_from = case when minute_from <= db_now() - 60000000 then db_now() else minute_from end
 where sink = ?1 and (sent < ?2 or minute_from <= db_now() - 60000000)
returning sent

-- name: alert_notice_claim
-- Claims at most ?3 due notices of sink ?1 for node ?2 and ?4 microseconds, the oldest first. One of a resolved alert waits for the one that it was raised.
update alert_notice
   set holder = ?2, tries = tries + 1, due_at = db_now() + ?4
 where (alert_id, sink, phase) in (
   select n.alert_id, n.sink, n.phase
     from alert_notice n
    where n.sink = ?1 and n.ended_at is null and n.due_at <= db_now()
      and (n.phase = 1 or not exists (
            select 1 from alert_notice f
             where f.alert_id = n.alert_id and f.sink = n.sink and f.phase = 1
               and f.ended_at is null))
    order by n.sink, n.due_at
    limit ?3)
returning alert_id, phase

-- name: alert_notice_get
-- A claimed notice with its alert.
select a.alert_id, a.kind, a.chain_id, a.submitter, a.part, a.level, a.detail, a.node, a.raised_at, a.seen_at, a.resolved_at, a.times,
       db_now() - a.seen_at as unseen, n.phase, n.tries - 1 as tries
  from alert_notice n join alert a on a.alert_id = n.alert_id
 where n.alert_id = ?1 and n.sink = ?2 and n.phase = ?3

-- name: alert_notice_settle
-- Writes the outcome of a notice that node ?4 still holds: ended (and delivered) or due again in ?6 microseconds.
update alert_notice
   set holder = null, ended_at = case when ?5 then db_now() end, is_delivered = ?7,
       due_at = db_now() + ?6, last_error = ?8
 where alert_id = ?1 and sink = ?2 and phase = ?3 and holder = ?4 and ended_at is null

-- name: alert_notice_drop
-- Deletes the notice that an alert was resolved, for a sink that will never be told that it was raised.
delete from alert_notice where alert_id = ?1 and sink = ?2 and phase = 2 and ended_at is null

-- name: alert_forget
-- Deletes at most ?2 alerts that were resolved more than ?1 microseconds ago, with their notices.
delete from alert
 where alert_id in (select alert_id from alert where resolved_at < db_now() - ?1
                     order by resolved_at limit ?2)

-- name: alert_watch_claim
-- Makes node ?1 the one that looks after alerts, for ?2 microseconds. No row: another node is.
update alert_watch set holder = ?1, held_until = db_now() + ?2
 where only_row = 1 and (holder is null or holder = ?1 or held_until < db_now())
returning holder

-- name: alert_reserved
-- The number of nonces that callers hold of one submitter.
select count(*) as reserved from nonce_reservation
 where chain_id = ?1 and submitter = ?2 and state <> 2 /* USED */ and state = 1 /* RESERVED */

-- name: database_time
-- The database's clock.
select db_now() as now
