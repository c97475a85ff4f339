-- Retention. A finished transaction whose rows were removed leaves one row here: enough to answer a repeat of
-- its request (I7) and a read of it. The request id itself and not a hash: the trigger below compares it, also
-- in SQLite, which has no hash function.
create table removed_tx (
  tx_id uuid primary key,
  chain_id bigint not null,
  submitter bytea not null check (length(submitter) = 20),
  request_id text check (length(request_id) between 1 and 256),
  payload_digest bytea not null check (length(payload_digest) = 32),
  state smallint not null check (state between 40 and 59),
  tx_hash bytea check (length(tx_hash) = 32),
  finished_at timestamptz not null,
  removed_at timestamptz not null default clock_timestamp()
);
create unique index removed_tx_request on removed_tx (chain_id, submitter, request_id)
  where request_id is not null;
create index removed_tx_finished on removed_tx (finished_at);

-- The nonce behind the highest slot of an account that was removed: every one below it is used (I3).
create table removed_slots (
  chain_id bigint not null,
  submitter bytea not null check (length(submitter) = 20),
  end_nonce bigint not null check (end_nonce > 0),
  primary key (chain_id, submitter)
);

-- One row: the last number of the feed that was removed, and the node that removes rows at present.
create table retention_state (
  only_row boolean primary key default true check (only_row),
  removed_through bigint not null,
  holder text,
  held_until timestamptz
) with (fillfactor = 10);
insert into retention_state (removed_through) values (0);

-- I7: the second line. Nodes of the version before don't look into removed_tx; a create of a removed request
-- is refused here. One look for each statement, which ends at once while nothing was removed. Of all indexes
-- that begin with the submitter, the order leaves the planner the one of requests.
create function refuse_removed_request() returns trigger language plpgsql as $$
begin
  if not exists (select 1 from removed_tx) then
    return null;
  end if;
  if exists (
    select 1
      from added a
     cross join lateral (
       select r.chain_id, r.submitter, r.request_id
         from removed_tx r
        where r.request_id is not null
          and (r.chain_id, r.submitter, r.request_id) >= (a.chain_id, a.submitter, a.request_id)
        order by r.chain_id, r.submitter, r.request_id
        limit 1
     ) as m
     where m.chain_id = a.chain_id and m.submitter = a.submitter and m.request_id = a.request_id
  ) then
    raise unique_violation using
      message = 'the request id belongs to a removed transaction', constraint = 'removed_tx_request';
  end if;
  return null;
end
$$;
create trigger managed_tx_removed_request after insert on managed_tx
  referencing new table as added for each statement execute function refuse_removed_request();
