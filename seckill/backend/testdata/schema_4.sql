-- The whole schema of miaosha. It is idempotent: every command that needs it applies it, under an
-- advisory lock, when the database has an older version than the one below. The constraints are the
-- last line of defence: the program is right without them, and they hold whatever the program does.
--
-- Money is in fen (1/100 yuan), times are timestamptz, ids that leave the shop are UUIDs.

create table if not exists schema_version (
    version integer not null,
    one     boolean primary key default true check (one)
);

-- Users -------------------------------------------------------------------------------------------------------------

create table if not exists users (
    id            bigint      generated always as identity primary key,
    phone         text        not null unique check (phone ~ '^[+]?[0-9]{3,20}$'),
    nickname      text        not null default '',
    role          text        not null default 'buyer' check (role in ('buyer', 'admin')),
    -- An argon2id string, never anything weaker; '' for an account without a password.
    password_hash text        not null default '' check (password_hash = '' or password_hash like '$argon2id$%'),
    -- Accounts from the older course systems: legacy_hash = md5(md5(password + fixed salt) +
    -- legacy_salt). The first log-in sets password_hash and clears both.
    legacy_hash   text        check (legacy_hash ~ '^[0-9a-f]{32}$'),
    legacy_salt   text,
    created_at    timestamptz not null default now(),
    -- Rises with each new password and role, and when the user logs out everywhere: it ends the sessions
    -- and the log-ins under way that began before.
    generation    bigint      not null default 0,
    check (legacy_hash is null or password_hash = '')
);

-- The log of roles. It is append-only, and only change_role writes it. No foreign keys: a line stays
-- as it is, whatever becomes of the accounts.
create table if not exists role_changes (
    id        bigint      generated always as identity primary key,
    user_id   bigint      not null,
    from_role text        not null,
    to_role   text        not null,
    by_user   bigint,     -- the administrator; null for the first one of a shop
    by_login  text        not null default session_user, -- the role of Postgres
    at        timestamptz not null default clock_timestamp()
);

-- Changes the role of a user on behalf of an administrator, and logs the change in the same
-- transaction. The acting user may be null while the shop has no administrator. A user who has the
-- role keeps it, and nothing is logged. It runs with the rights of the schema's owner, so that the
-- shop's role can change no role in any other way.
create or replace function change_role(acting bigint, subject bigint, new_role text) returns void
    language plpgsql security definer as $$
declare
    old_role text;
begin
    lock table role_changes in share row exclusive mode; -- of two first administrators one is the second
    select role into old_role from users where id = subject for update;
    if not found then
        raise exception 'there is no user %', subject using errcode = 'foreign_key_violation';
    end if;
    if old_role = new_role then
        return;
    end if;
    if acting is null and exists (select from users where role = 'admin')
       or acting is not null and not exists (select from users where id = acting and role = 'admin') then
        raise exception 'only an administrator changes a role'
              using errcode = 'check_violation', constraint = 'roles_are_changed_by_an_administrator';
    end if;
    update users set role = new_role where id = subject;
    insert into role_changes (user_id, from_role, to_role, by_user) values (subject, old_role, new_role, acting);
end $$;

create or replace function role_changes_are_append_only() returns trigger language plpgsql as $$
begin
    raise exception 'role_changes is append-only' using errcode = 'check_violation';
end $$;

create or replace trigger role_changes_are_append_only before update or delete on role_changes
    for each statement execute function role_changes_are_append_only();

-- Goods and sales ---------------------------------------------------------------------------------------------------

create table if not exists goods (
    id         bigint      generated always as identity primary key,
    title      text        not null check (title <> ''),
    title_en   text        not null default '',
    image      text        not null default '',
    detail     text        not null default '',
    detail_en  text        not null default '',
    list_price bigint      not null default 0 check (list_price >= 0),
    demo       boolean     not null default false,
    created_at timestamptz not null default now()
);

-- Every change of a sale's state, window or total takes a new epoch. Its gate follows the newest.
create sequence if not exists gate_epoch;

-- A sale is one item at one price with `total` units; `stock` of them are left. `stock` is the true
-- number: stock + count(pending and paid orders) = total, at every instant.
create table if not exists sales (
    id         bigint      generated always as identity primary key,
    goods_id   bigint      not null references goods (id),
    price      bigint      not null check (price >= 0),
    total      integer     not null check (total > 0),
    stock      integer     not null,
    state      text        not null default 'draft' check (state in ('draft', 'published', 'paused', 'closed')),
    starts_at  timestamptz not null,
    ends_at    timestamptz not null,
    epoch      bigint      not null default nextval('gate_epoch'),
    created_at timestamptz not null default now(),
    -- How often units were sold past the sale's gate, which a process does while Redis is away; and up
    -- to which of these times the gate knows the buyers. While they differ, the gate may not know an
    -- owner.
    bypasses       bigint  not null default 0,
    bypasses_known bigint  not null default 0 check (bypasses_known <= bypasses),
    constraint stock_within_total check (stock between 0 and total),
    constraint window_not_empty   check (ends_at > starts_at)
);

create index if not exists sales_by_end on sales (ends_at) where state <> 'draft';

-- Orders and payments -----------------------------------------------------------------------------------------------

-- No foreign keys here: in a rush they would check the same rows again for thousands of orders, and
-- prevent sharding by sale. The settle transaction holds the sale's row lock instead.
create table if not exists orders (
    id         uuid        primary key,
    user_id    bigint      not null check (user_id > 0),
    sale_id    bigint      not null,
    ticket     text        not null,
    title      text        not null,
    price      bigint      not null check (price >= 0),
    status     text        not null default 'pending' check (status in ('pending', 'paid', 'cancelled', 'refunded')),
    created_at timestamptz not null default now(),
    expires_at timestamptz not null,
    paid_at    timestamptz,
    -- sale_id comes first: a rush writes to one part of the index, and a planner without statistics
    -- finds no better one for "this user in this sale". status is there to count a sale's units.
    constraint one_order_per_user_and_sale unique (sale_id, user_id) include (status),
    constraint one_order_per_ticket        unique (ticket),
    constraint paid_has_a_time             check (status <> 'paid' or paid_at is not null)
);

create index if not exists orders_pending_expiry on orders (expires_at) where status = 'pending';
create index if not exists orders_of_a_user on orders (user_id, created_at);

-- The result of each ticket, written in the transaction that decided it. A repeated batch reads it.
create table if not exists ticket_results (
    ticket     text        primary key,
    user_id    bigint      not null,
    sale_id    bigint      not null,
    outcome    text        not null check (outcome in ('ordered', 'duplicate', 'sold_out', 'closed', 'invalid')),
    order_id   uuid,
    created_at timestamptz not null default now(),
    constraint an_order_for_those_who_have_one check ((outcome in ('ordered', 'duplicate')) = (order_id is not null))
);

-- Results with an order are found by the order, so they are not in this index.
create index if not exists refusals_of_a_user on ticket_results (user_id, sale_id) where order_id is null;

-- open: the buyer was sent to pay · declined: the provider refused · captured: the order is paid ·
-- refund_due: the money came too late or twice, or the order was refunded · refunded: returned
create table if not exists payments (
    id           uuid        primary key,
    order_id     uuid        not null references orders (id),
    amount       bigint      not null check (amount >= 0),
    status       text        not null default 'open'
                             check (status in ('open', 'declined', 'captured', 'refund_due', 'refunded')),
    provider_ref text        unique,
    created_at   timestamptz not null default now(),
    updated_at   timestamptz not null default now(),
    constraint money_has_a_reference check (status in ('open', 'declined') or provider_ref is not null)
);

create unique index if not exists one_open_payment_per_order on payments (order_id) where status = 'open';
create unique index if not exists one_capture_per_order      on payments (order_id) where status = 'captured';
create index        if not exists payments_of_an_order       on payments (order_id);
create index        if not exists payments_refund_due        on payments (updated_at) where status = 'refund_due';

-- The history of every order. It is append-only, and only the triggers below write it: their
-- functions run with the rights of the schema's owner.
create table if not exists order_events (
    id          bigint      generated always as identity primary key,
    order_id    uuid        not null,
    sale_id     bigint      not null,
    from_status text        not null,
    to_status   text        not null,
    at          timestamptz not null default clock_timestamp()
);

create index if not exists order_events_of_an_order on order_events (order_id);

create or replace function orders_inserted() returns trigger language plpgsql security definer as $$
begin
    insert into order_events (order_id, sale_id, from_status, to_status)
    select id, sale_id, 'new', status from fresh;
    return null;
end $$;

create or replace function orders_updated() returns trigger language plpgsql security definer as $$
begin
    if exists (select from was join is_now using (id)
               where was.status <> is_now.status
                 and (was.status, is_now.status) not in
                     (('pending', 'paid'), ('pending', 'cancelled'), ('paid', 'refunded'))) then
        raise exception 'an order can only go pending -> paid, pending -> cancelled, paid -> refunded'
              using errcode = 'check_violation';
    end if;
    insert into order_events (order_id, sale_id, from_status, to_status)
    select is_now.id, is_now.sale_id, was.status, is_now.status
    from was join is_now using (id)
    where was.status <> is_now.status;
    return null;
end $$;

create or replace function order_events_are_append_only() returns trigger language plpgsql as $$
begin
    raise exception 'order_events is append-only' using errcode = 'check_violation';
end $$;

-- The upgrade from version 1. It comes before the triggers: their lock is weaker than that of alter
-- table, so no other transaction can come between them.
do $$
begin
    if to_regclass('orders_of_a_sale') is not null or to_regclass('ticket_results_of_a_user') is not null then
        drop index if exists orders_of_a_sale, ticket_results_of_a_user;
        alter table orders drop constraint if exists one_order_per_user_and_sale;
        alter table orders add constraint one_order_per_user_and_sale unique (sale_id, user_id) include (status);
    end if;
end $$;

create or replace trigger orders_inserted after insert on orders
    referencing new table as fresh for each statement execute function orders_inserted();
create or replace trigger orders_updated after update on orders
    referencing old table as was new table as is_now for each statement execute function orders_updated();
create or replace trigger order_events_are_append_only before update or delete on order_events
    for each statement execute function order_events_are_append_only();

-- The upgrade from version 2.
alter table sales add column if not exists bypasses       bigint not null default 0;
alter table sales add column if not exists bypasses_known bigint not null default 0 check (bypasses_known <= bypasses);

-- The upgrade from version 3.
alter table users add column if not exists generation bigint not null default 0;

-- The functions that run with the owner's rights find their tables in the schema that they lie in (the
-- lab has schemas of its own), and never among the temporary tables of a caller, who could lay another
-- log before the true one. No role but the owner's may attach them to a table.
do $$
declare
    f regprocedure;
begin
    foreach f in array array['change_role(bigint, bigint, text)', 'orders_inserted()', 'orders_updated()']::regprocedure[] loop
        execute format('alter function %s set search_path = %I, pg_temp', f, current_schema());
        execute format('revoke execute on function %s from public', f);
    end loop;
end $$;

insert into schema_version (version) values (4)
    on conflict (one) do update set version = excluded.version where schema_version.version < excluded.version;
