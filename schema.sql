-- The whole schema of miaosha. It is idempotent: every command that needs it applies it, under an
-- advisory lock, when the database has an older version than the one below. The start of a shop
-- applies it again when a restore has left a part of it out. The constraints are the
-- last line of defence: the program is right without them, and they hold whatever the program does.
--
-- seckill/audit/schema.txt lists what it makes: after a change, write that again (schema_test.go).
--
-- Money is in fen (1/100 yuan), times are timestamptz, ids that leave the shop are UUIDs.

create table if not exists schema_version (
    version integer not null,
    one     boolean primary key default true check (one)
);

-- Which shop this is, and which incarnation of it: package lineage. The shop is drawn once and is a part of every dump. The
-- incarnation is drawn when Postgres has gone back to an older state than Redis knows.
create table if not exists shop (
    shop        uuid        not null default gen_random_uuid(),
    incarnation uuid        not null default gen_random_uuid(),
    former      uuid,       -- the incarnation that this one has replaced
    drawn_at    timestamptz not null default now(),
    -- Rises soon after each transaction. next_xid is the number of the next transaction, as long as none has come since.
    beat        bigint      not null default 0,
    beaten_at   timestamptz not null default now(),
    next_xid    bigint      not null default 0,
    one         boolean     primary key default true check (one)
);

insert into shop default values on conflict do nothing;

-- The upgrades from version 5, 6, 7 and 11. They come first: they need the strongest locks, and take them in the order of
-- every transaction of the shop. Plain reads of orders go on: one that has begun may wait for sales.
do $$
begin
    if to_regclass('sales') is not null
       and not exists (select from pg_trigger where tgrelid = to_regclass('sales') and tgname = 'sales_changed') then
        lock table sales in access exclusive mode;
        lock table orders in exclusive mode;
        alter table sales add column if not exists gate_until timestamptz;
    end if;
    if exists (select from pg_trigger where tgrelid = to_regclass('orders') and tgname = 'orders_inserted') then
        alter table orders alter column created_at set default clock_timestamp();
        drop trigger orders_inserted on orders;
        drop function if exists orders_inserted();
    end if;
    if to_regclass('payments') is not null
       and not exists (select from pg_attribute where attrelid = to_regclass('payments') and attname = 'provider') then
        lock table sales in access exclusive mode;
        lock table orders in exclusive mode;
        alter table sales add column if not exists priced_at timestamptz;
        alter table payments add column provider text not null default 'cashier' check (provider <> '');
        alter table payments drop constraint payments_provider_ref_key;
        alter table payments add constraint one_payment_per_reference unique (provider_ref, provider);
        -- The play-money cashier's references begin with sandbox-; every other one is from the one outside provider.
        update payments set provider = 'provider' where provider_ref not like 'sandbox-%';
        alter table payments add column asked_at timestamptz,
                             add column ask_at   timestamptz default now() + interval '30 seconds',
                             add column tries    integer     not null default 0,
                             add column why      text        not null default '';
        alter table users drop constraint users_role_check;
        alter table users add constraint users_role_check check (role in ('buyer', 'viewer', 'admin'));
        alter table users add column disabled_at timestamptz, add column password_due boolean not null default false,
                          add column revoked_at timestamptz;
    end if;
    if to_regclass('sales') is not null
       and not exists (select from pg_constraint where conrelid = to_regclass('sales') and conname = 'archived_after_its_end') then -- of version 11
        lock table sales in access exclusive mode;
        lock table orders in exclusive mode;
        alter table sales add column archived_at timestamptz,
                          add constraint archived_after_its_end check (archived_at is null or archived_at > ends_at);
    end if;
end $$;

-- Users -------------------------------------------------------------------------------------------------------------

create table if not exists users (
    id            bigint      generated always as identity primary key,
    phone         text        not null unique check (phone ~ '^[+]?[0-9]{3,20}$'),
    nickname      text        not null default '',
    role          text        not null default 'buyer' check (role in ('buyer', 'viewer', 'admin')),
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
    disabled_at   timestamptz, -- since then the account can neither log in nor buy
    password_due  boolean     not null default false, -- its password was made for it: it acts as staff after it has chosen one
    revoked_at    timestamptz, -- when its role last changed, or it was disabled or enabled: older sessions end
    check (legacy_hash is null or password_hash = '')
);

create index if not exists users_revoked on users (revoked_at) where revoked_at is not null;
-- Indexes for searches of the staff. A purchase writes none of them.
create index if not exists users_by_nickname on users (nickname text_pattern_ops);
create index if not exists users_staff on users (id) where role <> 'buyer';
create index if not exists users_disabled on users (id) where disabled_at is not null;

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

create index if not exists role_changes_of_a_user on role_changes (user_id);

-- Changes the role of another user on behalf of an administrator, and logs the change in the same
-- transaction. The acting user may be null while the shop has no administrator. A user who has the
-- role keeps it, and nothing is logged. It runs with the rights of the schema's owner, so that the
-- shop's role can change no role in any other way.
--
-- The lock serialises all changes of roles and disabled accounts: of two administrators who act on each other
-- the second is no longer one, and a shop that has an administrator always keeps one, the last who acted.
create or replace function change_role(acting bigint, subject bigint, new_role text) returns void
    language plpgsql security definer as $$
declare
    old_role text;
begin
    lock table role_changes in share row exclusive mode;
    select role into old_role from users where id = subject for update;
    if not found then
        raise exception 'there is no user %', subject using errcode = 'foreign_key_violation';
    end if;
    if old_role = new_role then
        return;
    end if;
    if acting = subject
       or acting is null and exists (select from users where role = 'admin')
       or acting is not null and not exists (select from users where id = acting and role = 'admin' and disabled_at is null) then
        raise exception 'only another administrator changes a role'
              using errcode = 'check_violation', constraint = 'roles_are_changed_by_an_administrator';
    end if;
    update users set role = new_role, generation = generation + 1, revoked_at = clock_timestamp() where id = subject;
    insert into role_changes (user_id, from_role, to_role, by_user) values (subject, old_role, new_role, acting);
end $$;

create or replace function role_changes_are_append_only() returns trigger language plpgsql as $$
begin
    raise exception 'role_changes is append-only' using errcode = 'check_violation';
end $$;

create or replace trigger role_changes_are_append_only before update or delete on role_changes
    for each statement execute function role_changes_are_append_only();

-- Disables another account, or enables it again, on behalf of an administrator. A change takes a new
-- generation: it ends the log-ins under way. It reports whether anything changed.
create or replace function disable_user(acting bigint, subject bigint, off boolean) returns boolean
    language plpgsql security definer as $$
begin
    lock table role_changes in share row exclusive mode; -- as change_role
    if acting is null or acting = subject
       or not exists (select from users where id = acting and role = 'admin' and disabled_at is null) then
        raise exception 'only another administrator disables an account'
              using errcode = 'check_violation', constraint = 'accounts_are_disabled_by_an_administrator';
    end if;
    update users set disabled_at = case when off then clock_timestamp() end, generation = generation + 1, revoked_at = clock_timestamp()
    where  id = subject and (disabled_at is not null) <> off;
    return found;
end $$;

-- Addresses for parcels: the owner's address, and the copy of it that a paid order keeps. When the owner erases it, the
-- three columns are null.
create table if not exists addresses (
    user_id    bigint      primary key,
    name       text        check (name <> ''),
    phone      text        check (phone <> ''),
    address    text        check (address <> ''),
    updated_at timestamptz not null default now(),
    constraint a_whole_address_or_none check (num_nulls(name, phone, address) in (0, 3))
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

-- Every change of a sale's state, window or total takes a new epoch, even a change by hand: see sales_changed. The gate
-- follows the newest.
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
    -- How often units were sold past the sale's gate, which a process does while Redis is down, and how
    -- many of these times the gate knows the buyers of. While the two differ, the gate may not know an
    -- owner.
    bypasses       bigint  not null default 0,
    bypasses_known bigint  not null default 0 check (bypasses_known <= bypasses),
    -- When the price of a sale that buyers see last changed. The sale opens at least a minute later.
    priced_at  timestamptz,
    -- Until then Redis may have a gate from before the last change of the sale; null if the sale never changed.
    gate_until timestamptz,
    -- Since then its results and its orders' events may be in files, see archives. It no longer sells anything.
    archived_at timestamptz,
    constraint stock_within_total check (stock between 0 and total),
    constraint window_not_empty   check (ends_at > starts_at),
    constraint archived_after_its_end check (archived_at is null or archived_at > ends_at)
);

create index if not exists sales_by_end on sales (ends_at) where state <> 'draft';
create index if not exists sales_by_goods on sales (goods_id);
create index if not exists sales_by_gate on sales (gate_until) where gate_until is not null;

-- A change of a sale's state, window or total takes a new epoch, so that the gate follows it, whoever makes the change. A
-- gate lives for a day after the end that it was made with, or after it was made: until then gate_until lets reconcile find it,
-- wherever the change has moved the sale. A draft has no gate to be found. If the total alone is changed, the units left
-- change with it; stock_within_total refuses to take back what is sold.
create or replace function sales_changed() returns trigger language plpgsql security definer as $$
begin
    new.epoch := nextval('gate_epoch');
    if old.state <> 'draft' then
        new.gate_until := greatest(old.gate_until, greatest(old.ends_at, clock_timestamp()) + interval '25 hours');
    end if;
    if new.stock = old.stock then
        new.stock := old.stock + new.total - old.total;
    end if;
    return new;
end $$;

-- Not for stock, which changes with every purchase.
create or replace trigger sales_changed before update of state, total, starts_at, ends_at on sales
    for each row when ((old.state, old.total, old.starts_at, old.ends_at) is distinct from
                       (new.state, new.total, new.starts_at, new.ends_at)) execute function sales_changed();

-- Plans for a sale. One process carries out a plan at its time and writes the result in the same transaction.
create table if not exists sale_plans (
    id         bigint      generated always as identity primary key,
    sale_id    bigint      not null references sales (id),
    action     text        not null check (action in ('publish', 'pause', 'resume', 'close')),
    at         timestamptz not null,
    state      text        not null default 'planned' check (state in ('planned', 'done', 'failed', 'cancelled')),
    why        text        not null default '', -- it failed
    done_at    timestamptz,
    by_user    bigint,
    created_at timestamptz not null default now(),
    constraint ended_has_a_time check ((state = 'planned') = (done_at is null))
);

create index if not exists sale_plans_to_do on sale_plans (at) where state = 'planned';
create index if not exists sale_plans_of_a_sale on sale_plans (sale_id);

-- Pictures of goods, decoded and encoded again by the shop. The name is random, so a picture never changes.
create table if not exists pictures (
    name       text        primary key check (name ~ '^[0-9a-f]{32}[.](png|jpg)$'),
    bytes      bytea       not null,
    width      integer     not null,
    height     integer     not null,
    created_at timestamptz not null default now(),
    constraint not_too_large check (octet_length(bytes) <= 16777216) -- the shop makes 6 million at most; a line of JSON has twice as many
);

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
    -- Taken after the wait for the sale's lock, so orders are in the order of the changes of its stock.
    created_at timestamptz not null default clock_timestamp(),
    expires_at timestamptz not null,
    paid_at    timestamptz,
    -- sale_id comes first: a rush writes to one part of the index, and a planner without statistics
    -- finds no better one for "this user in this sale". status is there to count a sale's units.
    constraint one_order_per_user_and_sale unique (sale_id, user_id) include (status),
    constraint one_order_per_ticket        unique (ticket),
    constraint paid_has_a_time             check (status <> 'paid' or paid_at is not null)
);

-- By sale, then by deadline: a search for overdue orders reads no others, and a purchase writes one index for all searches.
create index if not exists orders_pending on orders (sale_id, expires_at) where status = 'pending';
drop index if exists orders_pending_expiry; -- of shops before version 11
create index if not exists orders_of_a_user on orders (user_id, created_at);
create index if not exists orders_refunded on orders (id) where status = 'refunded'; -- few rows; a purchase does not write it

-- The result of each ticket that did not become an order, written in the transaction that decided
-- it. Shops before version 6 also stored a row, 'ordered', for each ticket that did.
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

-- The result of every ticket, for people and the audit.
create or replace view ticket_outcomes as
    select ticket, user_id, sale_id, 'ordered' as outcome, id as order_id, created_at from orders
    union all
    select ticket, user_id, sale_id, outcome, order_id, created_at from ticket_results r
    where  not exists (select from orders o where o.ticket = r.ticket);

-- open: the buyer was sent to pay · declined: the provider refused · closed: a day after the payment deadline it was still
-- open, and is no longer asked about · captured: the order is paid ·
-- refund_due: the money arrived late or twice, or the order was refunded · refunded: returned
create table if not exists payments (
    id           uuid        primary key,
    order_id     uuid        not null references orders (id),
    amount       bigint      not null check (amount >= 0),
    status       text        not null default 'open'
                             check (status in ('open', 'declined', 'closed', 'captured', 'refund_due', 'refunded')),
    provider     text        not null default 'cashier' check (provider <> ''),
    provider_ref text,
    created_at   timestamptz not null default now(),
    updated_at   timestamptz not null default now(),
    -- Of an open payment, and of a refund that is due: when the provider was asked last and is asked next (null: not again
    -- unless the staff asks; of a refund: it is refused), how often since the payment has this status, and what went wrong; of a declined
    -- one the reason.
    asked_at     timestamptz,
    ask_at       timestamptz default now() + interval '30 seconds',
    tries        integer     not null default 0,
    why          text        not null default '',
    captured_as  uuid,       -- of a second capture of a payment: that payment, by which the provider knows it
    constraint one_payment_per_reference unique (provider_ref, provider),
    constraint money_has_a_reference check (status in ('open', 'declined', 'closed') or provider_ref is not null)
);

create unique index if not exists one_open_payment_per_order on payments (order_id) where status = 'open';
create unique index if not exists one_capture_per_order      on payments (order_id) where status = 'captured';
create index        if not exists payments_of_an_order       on payments (order_id);
create index        if not exists payments_waiting         on payments (status, created_at, id) where status in ('open', 'refund_due');
create index        if not exists payments_refund_due        on payments (updated_at) where status = 'refund_due';
create index        if not exists payments_to_ask            on payments (provider, ask_at) where status = 'open';
create index        if not exists payments_to_refund         on payments (provider, ask_at) where status = 'refund_due';

-- The delivery of an order: a copy of the buyer's address, and how it was shipped. An order without a row has no address.
create table if not exists deliveries (
    order_id   uuid        primary key,
    name       text,
    phone      text,
    address    text,
    carrier    text        not null default '',
    tracking   text        not null default '',
    shipped_at timestamptz,
    updated_at timestamptz not null default now(),
    constraint a_whole_address_or_none check (num_nulls(name, phone, address) in (0, 3)),
    constraint shipped_has_a_number    check (shipped_at is null or tracking <> '')
);

-- What became of orders after they were placed. It is append-only, and only the trigger below writes
-- it: its function runs with the rights of the schema's owner. An order's first status leaves no row,
-- since it is always the same; it did before version 6.
create table if not exists order_events (
    id          bigint      generated always as identity primary key,
    order_id    uuid        not null,
    sale_id     bigint      not null,
    from_status text        not null,
    to_status   text        not null,
    at          timestamptz not null default clock_timestamp()
);

create index if not exists order_events_of_an_order on order_events (order_id);

-- The history of every order, from its first status on. An order of a shop before version 6 begins
-- here with the time of its transaction's start.
create or replace view order_history as
    select id as order_id, sale_id, 'new' as from_status, 'pending' as to_status, created_at as at from orders
    union all
    select order_id, sale_id, from_status, to_status, at from order_events where from_status <> 'new';

create or replace function orders_begin_as_pending() returns trigger language plpgsql as $$
begin
    raise exception 'an order begins as pending' using errcode = 'check_violation', constraint = 'orders_begin_as_pending';
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

-- only_archived_rows_go refuses a delete. This trigger is for delete, too, because a process of version 11 looks for that.
create or replace function order_events_are_append_only() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' then
        return null;
    end if;
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

create or replace trigger orders_begin_as_pending before insert on orders
    for each row when (new.status <> 'pending') execute function orders_begin_as_pending();
create or replace trigger orders_updated after update on orders
    referencing old table as was new table as is_now for each statement execute function orders_updated();
create or replace trigger order_events_are_append_only before update or delete or truncate on order_events
    for each statement execute function order_events_are_append_only();

-- The upgrades from version 2, 3 and 10. Where nothing is to be added, not even a lock is taken: it would keep readers away.
do $$
begin
    if not exists (select from pg_attribute where attrelid = to_regclass('sales') and attname = 'bypasses') then
        alter table sales add column bypasses       bigint not null default 0;
        alter table sales add column bypasses_known bigint not null default 0 check (bypasses_known <= bypasses);
    end if;
    if not exists (select from pg_attribute where attrelid = to_regclass('users') and attname = 'generation') then
        alter table users add column generation bigint not null default 0;
    end if;
    if not exists (select from pg_attribute where attrelid = to_regclass('payments') and attname = 'captured_as') then
        alter table payments add column captured_as uuid;
    end if;
end $$;

-- The upgrade from version 11, in the order in which the staff adds a picture: the log comes after it.
do $$
begin
    if not exists (select from pg_constraint where conrelid = to_regclass('pictures') and conname = 'not_too_large') then
        alter table pictures add constraint not_too_large check (octet_length(bytes) <= 16777216);
    end if;
end $$;

-- The result of a ticket never changes, nor does a picture. Both are deleted when an archive has them, see below.
create or replace function rows_stay() returns trigger language plpgsql as $$
begin
    raise exception '% keeps its rows as they are', tg_table_name using errcode = 'check_violation', constraint = 'rows_stay';
end $$;

create or replace trigger rows_stay before update or truncate on ticket_results
    for each statement execute function rows_stay();
create or replace trigger rows_stay before update or truncate on pictures
    for each statement execute function rows_stay();

-- Actions of the staff, one line for each, written in the transaction that acts. It is append-only. No foreign
-- keys: a line stays as it is, whatever becomes of its subject. It stands behind all tables that a change of the staff
-- writes, since its line is the last that such a transaction writes: an upgrade beside it takes its locks in the same
-- order.
create table if not exists admin_log (
    id       bigint      generated always as identity primary key,
    at       timestamptz not null default clock_timestamp(),
    by_user  bigint,     -- null for a command at a terminal; for what was planned, who planned it
    by_login text        not null default session_user, -- the role of Postgres
    origin   text        not null, -- the address of the browser, the command, or the plan
    action   text        not null check (action ~ '^[a-z]+[.][a-z_]+$'), -- such as sale.pause
    subject  text        not null, -- such as sale 7
    before   jsonb,
    after    jsonb,
    -- Of a request with an idempotency key: the key, a digest of route and body, and the result with which a repetition
    -- is answered.
    key      uuid,
    digest   bytea,
    result   jsonb
);

-- The upgrade from version 9.
alter table admin_log add column if not exists key uuid, add column if not exists digest bytea, add column if not exists result jsonb;

create index if not exists admin_log_of_a_subject on admin_log (subject, id);
create index if not exists admin_log_of_a_user    on admin_log (by_user, id);
-- A repetition waits here for the first request to end, so both are one action.
create unique index if not exists one_action_per_key on admin_log (by_user, key) where key is not null;

create or replace function admin_log_is_append_only() returns trigger language plpgsql as $$
begin
    raise exception 'admin_log is append-only' using errcode = 'check_violation';
end $$;

create or replace trigger admin_log_is_append_only before update or truncate on admin_log
    for each statement execute function admin_log_is_append_only();

-- Archives ----------------------------------------------------------------------------------------------------------

-- The files of miaosha archive (package archive), each with the rows of one table. The file is on disk before its row is here, and
-- its rows are deleted by a later transaction, which sets gone_at. The files are no part of a dump.
create table if not exists archives (
    file       text        primary key, -- in the folder of the archives
    of_table   text        not null check (of_table in ('ticket_results', 'order_events', 'admin_log', 'pictures')),
    rows       bigint      not null check (rows > 0),
    sha256     text        not null check (sha256 ~ '^[0-9a-f]{64}$'), -- of the file's text, not compressed
    oldest     timestamptz not null, -- the times of its rows
    newest     timestamptz not null,
    created_at timestamptz not null default clock_timestamp(),
    written_by xid8        not null default pg_current_xact_id(), -- the transaction
    gone_at    timestamptz, -- null while its rows are still in their table
    dropped_at timestamptz  -- set by the owner when the file of rows that are gone is deleted, as a law may ask for, or lost
);

create or replace function archives_stay() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        new.written_by := pg_current_xact_id();
        return new;
    end if;
    if tg_op = 'DELETE' and old.gone_at is null then
        return old;
    end if;
    if tg_op = 'UPDATE' and (old.gone_at is null and to_jsonb(new) - 'gone_at' = to_jsonb(old) - 'gone_at'
                             or old.gone_at is not null and old.dropped_at is null and to_jsonb(new) - 'dropped_at' = to_jsonb(old) - 'dropped_at') then
        return new;
    end if;
    raise exception 'an archive whose rows are gone stays as it is' using errcode = 'check_violation', constraint = 'archives_stay';
end $$;

create or replace trigger archives_stay before insert or update or delete on archives
    for each row execute function archives_stay();
create or replace trigger rows_stay before truncate on archives
    for each statement execute function rows_stay();

-- Lets rows go if they are exactly those of an archive that an earlier transaction has committed, and takes note of it there. A row
-- is a line of JSON, and the lines are in the order of their bytes: sha256sum of the file's text is the sum that is compared.
create or replace function only_archived_rows_go() returns trigger language plpgsql set timezone = 'UTC' set bytea_output = 'hex' as $$
declare
    n   bigint;
    sum text;
begin
    select count(*) into n from gone;
    if exists (select from archives where of_table = tg_table_name and rows = n and gone_at is null and written_by <> pg_current_xact_id()) then
        select encode(sha256(convert_to(string_agg(line || chr(10), '' order by line collate "C"), 'UTF8')), 'hex') into sum
        from  (select to_jsonb(g)::text as line from gone g) l;
        update archives set gone_at = clock_timestamp()
        where  of_table = tg_table_name and rows = n and sha256 = sum and gone_at is null and written_by <> pg_current_xact_id();
        if found then
            return null;
        end if;
    end if;
    raise exception '% goes to an archive before it is deleted (miaosha archive)', tg_table_name
          using errcode = 'check_violation', constraint = 'only_archived_rows_go';
end $$;

create or replace trigger only_archived_rows_go after delete on ticket_results
    referencing old table as gone for each statement execute function only_archived_rows_go();
create or replace trigger only_archived_rows_go after delete on order_events
    referencing old table as gone for each statement execute function only_archived_rows_go();
create or replace trigger only_archived_rows_go after delete on admin_log
    referencing old table as gone for each statement execute function only_archived_rows_go();
create or replace trigger only_archived_rows_go after delete on pictures
    referencing old table as gone for each statement execute function only_archived_rows_go();

-- Draws a new incarnation in the place of the one that the caller has read, and reports whether it did: of several processes one
-- does. replaces is the incarnation whose marks are in Redis, seen has the highest number that Redis has seen of each sequence:
-- no id is given twice. It runs with the rights of the schema's owner, since the shop's role may set no sequence.
create or replace function new_incarnation(was uuid, replaces uuid, seen jsonb) returns boolean
    language plpgsql security definer as $$
declare
    name text;
    ids  regclass;
begin
    update shop
    set    incarnation = gen_random_uuid(), former = replaces, drawn_at = clock_timestamp(),
           beat = greatest(beat, (seen->>'beat')::bigint) + 1, next_xid = 0
    where  incarnation = was;
    if not found then
        return false;
    end if;
    foreach name in array array['users', 'role_changes', 'admin_log', 'goods', 'sales', 'sale_plans', 'order_events', 'gate_epoch'] loop
        ids := case name when 'gate_epoch' then name else pg_get_serial_sequence(name, 'id') end;
        if (seen->>name)::bigint > coalesce(pg_sequence_last_value(ids), 0) then
            perform setval(ids, (seen->>name)::bigint);
        end if;
    end loop;
    return true;
end $$;

-- The functions that run with the owner's rights, and those that let rows go, find their tables in the schema that they lie in (the
-- lab has schemas of its own), and never among the temporary tables of a caller, who could lay another
-- log before the true one. No role but the owner's may attach them to a table.
do $$
declare
    f regprocedure;
begin
    foreach f in array array['change_role(bigint, bigint, text)', 'disable_user(bigint, bigint, boolean)', 'orders_updated()', 'sales_changed()', 'new_incarnation(uuid, uuid, jsonb)',
                            'archives_stay()', 'only_archived_rows_go()']::regprocedure[] loop
        execute format('alter function %s set search_path = %I, pg_temp', f, current_schema());
        execute format('revoke execute on function %s from public', f);
    end loop;
end $$;

-- No sequence returns a number twice. A restore of some tables alone leaves the sequences at their start, and a second one
-- of the same dump sets them back.
do $$
declare
    s       record;
    highest bigint;
begin
    for s in select t, c, coalesce(pg_get_serial_sequence(t, c), 'gate_epoch')::regclass as seq
             from  (values ('users', 'id'), ('role_changes', 'id'), ('admin_log', 'id'), ('goods', 'id'), ('sales', 'id'),
                           ('sale_plans', 'id'), ('order_events', 'id'), ('sales', 'epoch')) v (t, c) loop
        execute format('select max(%I) from %I', s.c, s.t) into highest;
        if highest > coalesce(pg_sequence_last_value(s.seq), 0) then
            perform setval(s.seq, highest);
        end if;
    end loop;
end $$;

-- From version 9: the form of an address's telephone is the program's alone. It comes last: whoever reads an address of a
-- paid order has the locks of above, and there is no one left to wait for.
do $$
begin
    if exists (select from pg_constraint where conrelid = to_regclass('addresses') and conname = 'addresses_phone_check'
               and strpos(pg_get_constraintdef(oid), '~') > 0) then
        alter table addresses drop constraint addresses_phone_check, add constraint addresses_phone_check check (phone <> '');
    end if;
end $$;

-- From version 11: an open payment has an end. Those that were asked about for the last time are asked about once more, each at
-- its own time of a day, and then closed.
do $$
begin
    if exists (select from pg_constraint where conrelid = to_regclass('payments') and conname = 'payments_status_check'
               and strpos(pg_get_constraintdef(oid), 'closed') = 0) then
        alter table payments drop constraint payments_status_check, drop constraint money_has_a_reference,
            add constraint payments_status_check check (status in ('open', 'declined', 'closed', 'captured', 'refund_due', 'refunded')),
            add constraint money_has_a_reference check (status in ('open', 'declined', 'closed') or provider_ref is not null);
        update payments set ask_at = now() + random() * interval '1 day' where status = 'open' and ask_at is null;
    end if;
end $$;

-- A rush inserts orders, and a vacuum of them lets the counts of a sale's units (the audit of each minute, the staff's list) read the
-- index alone. By default it waits for a fifth of the table; it reads the new pages alone, whatever the table's size. Nothing else needs
-- a setting: the update of a sale's stock stays on its page (HOT) without one, and a change of status never does, since it is in an index.
alter table orders set (autovacuum_vacuum_insert_scale_factor = 0);

insert into schema_version (version) values (12)
    on conflict (one) do update set version = excluded.version where schema_version.version < excluded.version;
