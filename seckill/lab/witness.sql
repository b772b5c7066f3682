-- What the judge of a program keeps for itself, in a schema that the program's role can neither read nor write. The role owns the
-- tables that it sells from, since exercises add indexes and constraints; what is here belongs to the superuser who makes it.
-- Every function names its own search path: the session's is the program's.
drop schema if exists judge cascade;
create schema judge;

-- The orders of each buyer as the trigger has seen them: a row for each change of a row.
create table judge.sales (user_id bigint not null, n bigint not null, at timestamptz not null default clock_timestamp());

-- The owners of units, likewise.
create table judge.seats (owner bigint not null, n bigint not null);

-- The orders that were there at the end of the sale, and the units that were taken after it.
create table judge.at_end (user_id bigint not null, n bigint not null);
create table judge.late (units bigint not null);

-- print: what belongs to the judge before the program has run.
create table judge.state (role text not null, print text, ended boolean not null default false);
insert into judge.state values (current_setting('judge.role'));

create function judge.note_sale() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if tg_op <> 'INSERT' then insert into judge.sales (user_id, n) values (old.user_id, -1); end if;
  if tg_op <> 'DELETE' then insert into judge.sales (user_id, n) values (new.user_id, 1); end if;
  return null;
end $$;

create function judge.note_seat() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if tg_op <> 'INSERT' then insert into judge.seats (owner, n) select old.owner, -1 where old.owner is not null; end if;
  if tg_op <> 'DELETE' then insert into judge.seats (owner, n) select new.owner, 1 where new.owner is not null; end if;
  return null;
end $$;

create function judge.note_late() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if (select ended from judge.state) then insert into judge.late values (old.stock - new.stock); end if;
  return null;
end $$;

create function judge.refuse_truncate() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  raise exception 'the judge counts the rows of orders and units: use delete' using errcode = 'JUDGE';
end $$;

-- What a program's statements must leave as it is. A row of the catalog has a new xmin after each change.
create function judge.print() returns text language sql security definer set search_path = pg_catalog, pg_temp as $$
  with shop as (
    select c.* from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname ~ '^lab_7[0-9]{12}$' and c.relname in ('item', 'units', 'orders')
  ), judges as (
    select oid from pg_namespace where nspname = 'judge'
  )
  select string_agg(line, E'\n' order by line) from (
    select format('table %s', row(oid, relname, relnamespace, relowner, relkind, relpersistence, relrowsecurity, relforcerowsecurity, relispartition)) from shop
    union all
    select format('column %s', row(attrelid, attnum, attname, atttypid, attisdropped, attgenerated, attidentity)) from pg_attribute
    where  attrelid in (select oid from shop) and attnum between 1 and 4 and attnum <= (select count(*) from unnest('{item,item,item,item,units,units,orders,orders}'::name[]) own
           where own = (select relname from shop where oid = attrelid))
    union all
    select format('trigger %s', row(oid, xmin, tgrelid, tgname, tgenabled)) from pg_trigger
    where  tgfoid in (select oid from pg_proc where pronamespace in (select oid from judges))
    union all
    select format('function %s', row(oid, xmin)) from pg_proc where pronamespace in (select oid from judges)
    union all
    select format('relation %s', row(oid, relowner, relkind, relfilenode)) from pg_class where relnamespace in (select oid from judges)
    union all
    select format('event %s', row(oid, xmin, evtenabled)) from pg_event_trigger
    union all
    select format('schema %s', row(oid, nspname, nspowner)) from pg_namespace where nspname ~ '^lab_7[0-9]{12}$' or nspname = 'judge'
    union all
    select format('rule %s', row(oid, xmin)) from pg_rewrite where ev_class in (select oid from shop)
    union all
    select format('policy %s', row(oid, xmin)) from pg_policy where polrelid in (select oid from shop)
    union all
    select format('heir %s', row(inhrelid, inhparent)) from pg_inherits where inhrelid in (select oid from shop) or inhparent in (select oid from shop)
    union all
    select format('settings %s', row(setdatabase, setrole, xmin)) from pg_db_role_setting
    where  setdatabase in (0, (select oid from pg_database where datname = current_database())) and setrole in (0, (select oid from pg_roles where rolname = (select role from judge.state)))
    union all
    select format('role %s', row(oid, xmin)) from pg_authid where rolname = (select role from judge.state)
  ) as own (line)
$$;

create function judge.refuse_changes() returns event_trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if session_user = (select role from judge.state) and (select print from judge.state) is distinct from judge.print() then
    raise exception 'the judge needs its triggers and the columns of item, units and orders as they are (indexes, constraints and columns of your own are free)' using errcode = 'JUDGE';
  end if;
end $$;

-- A change of a column's type rewrites every row, and no trigger sees it.
create function judge.refuse_rewrites() returns event_trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if session_user = (select role from judge.state) and pg_event_trigger_table_rewrite_reason() & 5 <> 0 then
    raise exception 'the judge needs the rows of its tables as they are: no change of a type' using errcode = 'JUDGE';
  end if;
end $$;

create event trigger judge_refuses_changes on ddl_command_end execute function judge.refuse_changes();
create event trigger judge_refuses_rewrites on table_rewrite execute function judge.refuse_rewrites();
revoke all on all functions in schema judge from public
