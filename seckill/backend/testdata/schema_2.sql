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
    check (legacy_hash is null or password_hash = '')
);

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

-- The history of every order. It is append-only, and only the triggers below write it.
create table if not exists order_events (
    id          bigint      generated always as identity primary key,
    order_id    uuid        not null,
    sale_id     bigint      not null,
    from_status text        not null,
    to_status   text        not null,
    at          timestamptz not null default clock_timestamp()
);

create index if not exists order_events_of_an_order on order_events (order_id);

create or replace function orders_inserted() returns trigger language plpgsql as $$
begin
    insert into order_events (order_id, sale_id, from_status, to_status)
    select id, sale_id, 'new', status from fresh;
    return null;
end $$;

create or replace function orders_updated() returns trigger language plpgsql as $$
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

insert into schema_version (version) values (2)
    on conflict (one) do update set version = excluded.version where schema_version.version < excluded.version;
