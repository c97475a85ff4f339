-- Retention, as in tollgate-postgres.
create table removed_tx (
  tx_id blob primary key check (length(tx_id) = 16),
  chain_id integer not null,
  submitter blob not null check (length(submitter) = 20),
  request_id text check (length(request_id) between 1 and 256),
  payload_digest blob not null check (length(payload_digest) = 32),
  state integer not null check (state between 40 and 59),
  tx_hash blob check (length(tx_hash) = 32),
  finished_at integer not null,
  removed_at integer not null
) strict, without rowid;
create unique index removed_tx_request on removed_tx (chain_id, submitter, request_id)
  where request_id is not null;
create index removed_tx_finished on removed_tx (finished_at);
create table removed_slots (
  chain_id integer not null,
  submitter blob not null check (length(submitter) = 20),
  end_nonce integer not null check (end_nonce > 0),
  primary key (chain_id, submitter)
) strict, without rowid;
create table retention_state (
  only_row integer primary key check (only_row = 1),
  removed_through integer not null,
  holder text,
  held_until integer
) strict;
insert into retention_state (only_row, removed_through) values (1, 0);
create trigger managed_tx_removed_request before insert on managed_tx
  when new.request_id is not null
   and exists (select 1 from removed_tx
                where chain_id = new.chain_id and submitter = new.submitter
                  and request_id = new.request_id)
begin
  select raise(abort, 'the request id belongs to a removed transaction');
end;
