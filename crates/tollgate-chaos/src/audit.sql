-- The harness's own eyes inside of the database: nothing here is Tollgate's, and nothing here takes a
-- lock that Tollgate's protocol could feel. No unique keys: what must not be is noted, not refused.

create table chaos_token (
  chain_id bigint not null,
  submitter bytea not null,
  token bigint not null,
  owner_node text not null,
  at timestamptz not null default clock_timestamp()
);

-- Every token that was ever in force; with an empty owner it was let go, not granted.
create function chaos_note_token() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' or new.fencing_token is distinct from old.fencing_token
     or new.owner_node is distinct from old.owner_node then
    insert into chaos_token (chain_id, submitter, token, owner_node)
    values (new.chain_id, new.submitter, new.fencing_token, new.owner_node);
  end if;
  return null;
end $$;

create trigger chaos_note_token after insert or update on submitter_lease
  for each row execute function chaos_note_token();

create table chaos_stale_write (
  tx_id uuid not null,
  version integer not null,
  written_under bigint not null,
  in_force bigint,
  node text not null,
  at timestamptz not null default clock_timestamp()
);

-- At the commit: is the token under which this was written the one in force? READ COMMITTED: the
-- look has a snapshot of its own, so it sees a takeover that committed after the writer began.
create function chaos_check_token() returns trigger language plpgsql as $$
declare
  in_force bigint;
begin
  select l.fencing_token into in_force
    from managed_tx m
    join submitter_lease l on l.chain_id = m.chain_id and l.submitter = m.submitter
   where m.tx_id = new.tx_id;
  if in_force is distinct from new.fencing_token then
    insert into chaos_stale_write (tx_id, version, written_under, in_force, node)
    values (new.tx_id, new.version, new.fencing_token, in_force, new.node);
  end if;
  return null;
end $$;

create constraint trigger chaos_check_token after insert on tx_history
  deferrable initially deferred
  for each row execute function chaos_check_token();
