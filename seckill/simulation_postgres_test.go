package seckill

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"miaosha/goods"
	"miaosha/order"
)

// pgModel is a model of Postgres with the tables of a sale: READ COMMITTED, with row locks. A
// statement sees what was committed before it, and the changes of its own transaction. A statement
// that needs a row which another transaction has changed or locked must wait.
// TestModelFollowsPostgres holds the model against the real Postgres.
type pgModel struct {
	sales    map[int64]*row[saleRow]
	orders   []*row[orderRow]
	results  map[string]*row[resultRow]
	payments []*row[paymentRow]
	epoch    int64 // the sequence gate_epoch
	commits  int
}

type (
	uuidBytes = [16]byte

	saleRow struct {
		id, price, epoch int64
		total, stock     int64
		bypasses, known  int64
		title, state     string
		starts, ends     time.Time
		gateUntil        time.Time // zero for null
	}
	orderRow struct {
		id                       uuidBytes
		user, sale, price        int64
		ticket, title, status    string
		created, expires, paidAt time.Time
	}
	resultRow struct {
		ticket, outcome string
		user, sale      int64
		order           uuidBytes // zero for none
		created         time.Time
	}
	paymentRow struct {
		id, order   uuidBytes
		amount      int64
		status, ref string
	}
)

// row is a row with the change of at most one open transaction. committed is nil for a row whose
// insert is not committed.
type row[T any] struct {
	committed, changed *T
	owner              *pgTx
}

// see returns the row as tx sees it, or nil. A nil tx sees what is committed.
func (r *row[T]) see(tx *pgTx) *T {
	if tx != nil && r.owner == tx {
		return r.changed
	}
	return r.committed
}

// lock locks the row for tx, or makes the statement wait.
func (r *row[T]) lock(tx *pgTx) *T {
	if r.owner != nil && r.owner != tx {
		panic(mustWait{})
	}
	if r.owner == nil {
		changed := *r.committed
		r.changed, r.owner = &changed, tx
		tx.undo = append(tx.undo, r)
	}
	return r.changed
}

func (r *row[T]) end(commit bool) {
	if commit {
		r.committed = r.changed
	}
	r.changed, r.owner = nil, nil
}

// insert returns a new row that only tx sees.
func insert[T any](tx *pgTx, value T) *row[T] {
	r := &row[T]{changed: &value, owner: tx}
	tx.undo = append(tx.undo, r)
	return r
}

// pgTx is an open transaction.
type pgTx struct {
	now  time.Time // when it began
	undo []interface{ end(commit bool) }
}

// mustWait is the panic of a statement that needs a row which another transaction holds. It has
// changed nothing.
type mustWait struct{}

// pgFault is an error of a statement: a SQLSTATE.
type pgFault string

func newPgModel() *pgModel {
	return &pgModel{sales: map[int64]*row[saleRow]{}, results: map[string]*row[resultRow]{}}
}

func (m *pgModel) begin() *pgTx { return &pgTx{now: now()} }

// now is the clock of the model: Postgres counts microseconds.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

func (m *pgModel) end(tx *pgTx, commit bool) {
	for _, r := range tx.undo {
		r.end(commit)
	}
	tx.undo = nil
	m.orders = slices.DeleteFunc(m.orders, func(r *row[orderRow]) bool { return r.committed == nil && r.owner == nil })
	m.payments = slices.DeleteFunc(m.payments, func(r *row[paymentRow]) bool { return r.committed == nil && r.owner == nil })
	maps.DeleteFunc(m.results, func(_ string, r *row[resultRow]) bool { return r.committed == nil && r.owner == nil })
	if commit {
		m.commits++
	}
}

// sell adds a sale that is committed.
func (m *pgModel) sell(s saleRow) {
	m.epoch++
	s.epoch = m.epoch
	m.sales[s.id] = &row[saleRow]{committed: &s}
}

// orderOf returns a user's order in a sale, or nil. An order that another transaction is about to
// insert makes the statement wait if it must know, as a unique index does.
func (m *pgModel) orderOf(tx *pgTx, sale, user int64, mustKnow bool) *orderRow {
	for _, r := range m.orders {
		if o := r.see(tx); o != nil && o.sale == sale && o.user == user {
			return o
		}
		if o := r.changed; mustKnow && r.committed == nil && r.owner != tx && o.sale == sale && o.user == user {
			panic(mustWait{})
		}
	}
	return nil
}

func (m *pgModel) orderOfTicket(tx *pgTx, ticket string) *orderRow {
	for _, r := range m.orders {
		if o := r.see(tx); o != nil && o.ticket == ticket {
			return o
		}
	}
	return nil
}

// resultOf returns the result of a ticket: its order, or else the stored row.
func (m *pgModel) resultOf(tx *pgTx, ticket string) *resultRow {
	if o := m.orderOfTicket(tx, ticket); o != nil {
		return &resultRow{ticket: ticket, user: o.user, sale: o.sale, outcome: order.Ordered, order: o.id, created: o.created}
	}
	return m.stored(tx, ticket)
}

// stored returns the row of a ticket in ticket_results.
func (m *pgModel) stored(tx *pgTx, ticket string) *resultRow {
	if r := m.results[ticket]; r != nil {
		return r.see(tx)
	}
	return nil
}

// committed returns the committed results of all tickets.
func (m *pgModel) committed() (results []*resultRow) {
	for _, r := range m.orders {
		if o := r.committed; o != nil {
			results = append(results, m.resultOf(nil, o.ticket))
		}
	}
	for _, r := range m.results {
		if r.committed != nil {
			results = append(results, r.committed)
		}
	}
	return results
}

func (m *pgModel) order(tx *pgTx, id uuidBytes) *row[orderRow] {
	for _, r := range m.orders {
		if o := r.see(tx); o != nil && o.id == id {
			return r
		}
	}
	return nil
}

// addResult stores a result unless the ticket has one.
func (m *pgModel) addResult(tx *pgTx, r resultRow) {
	switch old := m.results[r.ticket]; {
	case old == nil:
		r.created = tx.now
		m.results[r.ticket] = insert(tx, r)
	case old.see(tx) == nil:
		panic(mustWait{})
	}
}

// refused reports whether the user of a refusal has another one with its outcome.
func (m *pgModel) refused(tx *pgTx, refusal resultRow) bool {
	for _, r := range m.results {
		if old := r.see(tx); old != nil && old.user == refusal.user && old.sale == refusal.sale && old.outcome == refusal.outcome {
			return true
		}
	}
	return false
}

// inSale returns a sale's orders that a statement sees, in the order of their inserts.
func (m *pgModel) inSale(tx *pgTx, sale int64) (orders []*orderRow) {
	for _, r := range m.orders {
		if o := r.see(tx); o != nil && o.sale == sale {
			orders = append(orders, o)
		}
	}
	return orders
}

// pgArgs are the parameters of a statement.
type pgArgs struct {
	oids    []uint32
	formats []int16
	values  [][]byte
}

var pgTypes = pgtype.NewMap()

// arg returns a statement's parameter, counted from 1 as in SQL.
func arg[T any](a pgArgs, n int) (value T) {
	format := int16(pgtype.TextFormatCode)
	switch len(a.formats) {
	case 0:
	case 1:
		format = a.formats[0]
	default:
		format = a.formats[n-1]
	}
	if err := pgTypes.Scan(a.oids[n-1], format, a.values[n-1], &value); err != nil {
		panic(fmt.Sprintf("parameter %d: %v", n, err))
	}
	return value
}

// pgStatement is one statement that the project sends. run returns its rows, or the number of rows
// that it changed.
type pgStatement struct {
	params  []uint32
	columns []pgColumn
	tag     string // the command tag, with the number of rows
	run     func(m *pgModel, tx *pgTx, a pgArgs) (rows [][]any, n int, fault pgFault)
}

type pgColumn struct {
	name string
	oid  uint32
}

func columns(text string) (all []pgColumn) {
	oids := map[string]uint32{"int8": pgtype.Int8OID, "int4": pgtype.Int4OID, "text": pgtype.TextOID, "uuid": pgtype.UUIDOID,
		"bool": pgtype.BoolOID, "time": pgtype.TimestamptzOID}
	for _, column := range strings.Fields(text) {
		name, kind, _ := strings.Cut(column, ":")
		all = append(all, pgColumn{name, oids[kind]})
	}
	return all
}

func normalize(sql string) string { return strings.Join(strings.Fields(strings.ToLower(sql)), " ") }

// durable is the condition of package order. The model has no standby, so it is true.
const durable = `(select current_setting('synchronous_standby_names') = '' or pg_logical_emit_message(true, 'miaosha', '') is not null)`

var pgStatements = func() map[string]pgStatement {
	byText := map[string]pgStatement{}
	for sql, s := range map[string]pgStatement{
		// goods
		`select s.id, g.title, s.price, s.stock, case when s.archived_at is null then s.state else 'closed' end as state, s.starts_at, s.ends_at, s.epoch,
		       s.bypasses, s.bypasses_known, clock_timestamp() as now
		from   sales s join goods g on g.id = s.goods_id
		where  s.id = $1
		for    no key update of s`: {
			params: []uint32{pgtype.Int8OID},
			columns: columns("id:int8 title:text price:int8 stock:int4 state:text starts_at:time ends_at:time epoch:int8 " +
				"bypasses:int8 bypasses_known:int8 now:time"),
			run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
				r := m.sales[arg[int64](a, 1)]
				if r == nil {
					return nil, 0, ""
				}
				s := r.lock(tx)
				return [][]any{{s.id, s.title, s.price, int32(s.stock), s.state, s.starts, s.ends, s.epoch, s.bypasses, s.known, now()}}, 1, ""
			},
		},
		`update sales set stock = stock - $2::integer where id = $1 and stock > 0 and stock >= $2`: {
			params: []uint32{pgtype.Int8OID, pgtype.Int4OID}, tag: "UPDATE",
			run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
				r, n := m.sales[arg[int64](a, 1)], arg[int64](a, 2)
				if r == nil {
					return nil, 0, ""
				}
				s := r.lock(tx)
				if s.stock <= 0 || s.stock < n {
					return nil, 0, ""
				}
				return nil, 1, s.take(n)
			},
		},
		`update sales set stock = stock + $2::integer where id = $1`: {
			params: []uint32{pgtype.Int8OID, pgtype.Int4OID}, tag: "UPDATE",
			run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
				r := m.sales[arg[int64](a, 1)]
				if r == nil {
					return nil, 0, ""
				}
				return nil, 1, r.lock(tx).take(-arg[int64](a, 2))
			},
		},
		`update sales set epoch = nextval('gate_epoch') where id = $1 returning epoch`: {
			params: []uint32{pgtype.Int8OID}, columns: columns("epoch:int8"), tag: "UPDATE",
			run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
				r := m.sales[arg[int64](a, 1)]
				if r == nil {
					return nil, 0, ""
				}
				s := r.lock(tx)
				m.epoch++ // a rollback does not take it back
				s.epoch = m.epoch
				return [][]any{{s.epoch}}, 1, ""
			},
		},
		`update sales set state = $2 where id = $1`: { // an administrator's
			params: []uint32{pgtype.Int8OID, pgtype.TextOID}, tag: "UPDATE",
			run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
				return nil, 1, m.change(m.sales[arg[int64](a, 1)].lock(tx), func(s *saleRow) { s.state = arg[string](a, 2) })
			},
		},
		`update sales set total = total + $2 where id = $1`: { // by hand
			params: []uint32{pgtype.Int8OID, pgtype.Int4OID}, tag: "UPDATE",
			run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
				return nil, 1, m.change(m.sales[arg[int64](a, 1)].lock(tx), func(s *saleRow) { s.total += arg[int64](a, 2) })
			},
		},
		`update sales set starts_at = $2, ends_at = $3 where id = $1`: { // by hand
			params: []uint32{pgtype.Int8OID, pgtype.TimestamptzOID, pgtype.TimestamptzOID}, tag: "UPDATE",
			run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
				return nil, 1, m.change(m.sales[arg[int64](a, 1)].lock(tx), func(s *saleRow) { s.starts, s.ends = arg[time.Time](a, 2), arg[time.Time](a, 3) })
			},
		},
		`update sales set stock = stock + $2::integer, total = total + $2::integer
		where  id = $1 and state <> 'closed' and ends_at > clock_timestamp()
		and    stock::bigint + $2::integer >= 0 and total::bigint + $2::integer between 1 and 2147483647
		returning epoch`: {
			params: []uint32{pgtype.Int8OID, pgtype.Int4OID}, columns: columns("epoch:int8"), tag: "UPDATE",
			run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
				s, n := m.sales[arg[int64](a, 1)].lock(tx), arg[int64](a, 2)
				if s.state == goods.Closed || !s.ends.After(now()) || s.stock+n < 0 || s.total+n < 1 {
					return nil, 0, ""
				}
				fault := m.change(s, func(s *saleRow) { s.stock, s.total = s.stock+n, s.total+n })
				return [][]any{{s.epoch}}, 1, fault
			},
		},
		`update sales set bypasses = bypasses + 1 where id = $1`: {
			params: []uint32{pgtype.Int8OID}, tag: "UPDATE",
			run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
				r := m.sales[arg[int64](a, 1)]
				if r == nil {
					return nil, 0, ""
				}
				r.lock(tx).bypasses++
				return nil, 1, ""
			},
		},
		`update sales set bypasses_known = $2
		where  id = $1 and bypasses = $2`: {
			params: []uint32{pgtype.Int8OID, pgtype.Int8OID}, tag: "UPDATE",
			run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
				r, n := m.sales[arg[int64](a, 1)], arg[int64](a, 2)
				if r == nil || r.owner == nil && r.committed.bypasses != n {
					return nil, 0, ""
				}
				s := r.lock(tx)
				if s.bypasses != n {
					return nil, 0, ""
				}
				s.known = n
				return nil, 1, ""
			},
		},
		`select id, stock, state, starts_at, ends_at, epoch, bypasses, bypasses_known,
		       now() >= starts_at and now() < ends_at as open,
		       state <> 'draft' and ends_at > now() - $1::interval and starts_at < now() + $2::interval as near
		from   sales
		where  state <> 'draft' and ends_at > now() - $1::interval and starts_at < now() + $2::interval
		or     id = any($3)
		order  by near desc, id
		limit  $4`: {
			params:  []uint32{pgtype.IntervalOID, pgtype.IntervalOID, pgtype.Int8ArrayOID, pgtype.Int8OID},
			columns: columns("id:int8 stock:int4 state:text starts_at:time ends_at:time epoch:int8 bypasses:int8 bypasses_known:int8 open:bool near:bool"),
			run: func(m *pgModel, tx *pgTx, a pgArgs) (rows [][]any, _ int, _ pgFault) {
				since, ahead, also := arg[time.Duration](a, 1), arg[time.Duration](a, 2), arg[[]int64](a, 3)
				for _, id := range slices.Sorted(maps.Keys(m.sales)) {
					s := m.sales[id].see(tx)
					near := s.state != goods.Draft && s.ends.After(tx.now.Add(-since)) && s.starts.Before(tx.now.Add(ahead))
					if near || slices.Contains(also, id) {
						open := !tx.now.Before(s.starts) && tx.now.Before(s.ends)
						rows = append(rows, []any{s.id, int32(s.stock), s.state, s.starts, s.ends, s.epoch, s.bypasses, s.known, open, near})
					}
				}
				return rows, len(rows), ""
			},
		},
		`select id, stock, state, starts_at, ends_at, epoch, bypasses, bypasses_known, now() >= starts_at and now() < ends_at as open,
		       state <> 'draft' and ends_at > now() and starts_at < now() + $2::interval as near
		from   sales
		where  id = any($1)
		order  by id`: {
			params:  []uint32{pgtype.Int8ArrayOID, pgtype.IntervalOID},
			columns: columns("id:int8 stock:int4 state:text starts_at:time ends_at:time epoch:int8 bypasses:int8 bypasses_known:int8 open:bool near:bool"),
			run: func(m *pgModel, tx *pgTx, a pgArgs) (rows [][]any, _ int, _ pgFault) {
				for _, id := range arg[[]int64](a, 1) {
					s := m.sales[id].see(tx)
					open := !tx.now.Before(s.starts) && tx.now.Before(s.ends)
					near := s.state != goods.Draft && s.ends.After(tx.now) && s.starts.Before(tx.now.Add(arg[time.Duration](a, 2)))
					rows = append(rows, []any{s.id, int32(s.stock), s.state, s.starts, s.ends, s.epoch, s.bypasses, s.known, open, near})
				}
				return rows, len(rows), ""
			},
		},
		`select nextval('gate_epoch')`: {
			columns: columns("nextval:int8"),
			run: func(m *pgModel, _ *pgTx, _ pgArgs) ([][]any, int, pgFault) {
				m.epoch++
				return [][]any{{m.epoch}}, 1, ""
			},
		},
		`select id from sales where gate_until > now() order by gate_until desc limit $1`: {
			params: []uint32{pgtype.Int8OID}, columns: columns("id:int8"),
			run: func(m *pgModel, tx *pgTx, a pgArgs) (rows [][]any, _ int, _ pgFault) {
				for _, id := range slices.Sorted(maps.Keys(m.sales)) {
					if m.sales[id].see(tx).gateUntil.After(tx.now) {
						rows = append(rows, []any{id})
					}
				}
				return rows, len(rows), ""
			},
		},
		// order: place
		`insert into orders (id, user_id, sale_id, ticket, title, price, expires_at)
			select order_id, user_id, $1, ticket, $2, $3, clock_timestamp() + $4::interval
			from (select distinct on (user_id) ticket, user_id, order_id, n
			      from   unnest($5::text[], $6::bigint[], $7::uuid[]) with ordinality as t (ticket, user_id, order_id, n)
			      where  not exists (select from ticket_results r where r.ticket = t.ticket)
			      and    not exists (select from orders o where o.user_id = t.user_id and o.sale_id = $1)
			      order  by user_id, n) as fresh
			order by n
			limit $8
			returning id`: {
			params: []uint32{pgtype.Int8OID, pgtype.TextOID, pgtype.Int8OID, pgtype.IntervalOID, pgtype.TextArrayOID,
				pgtype.Int8ArrayOID, pgtype.UUIDArrayOID, pgtype.Int8OID},
			columns: columns("id:uuid"),
			run:     (*pgModel).place,
		},
		`with decided as (
		     select t.ticket, t.user_id, o.id as order_id,
		            case when o.id is null then $2 when o.ticket = t.ticket then 'ordered' else 'duplicate' end as outcome
		     from   unnest($3::text[], $4::bigint[]) as t (ticket, user_id)
		     left   join orders o on o.user_id = t.user_id and o.sale_id = $1
		), recorded as (
		     insert into ticket_results (ticket, user_id, sale_id, outcome)
		     select distinct on (user_id) ticket, user_id, $1, outcome
		     from   decided d
		     where  order_id is null and not exists (select from orders x where x.ticket = d.ticket) and not exists (
		            select from ticket_results r
		            where  r.user_id = d.user_id and r.sale_id = $1 and r.order_id is null and r.outcome = $2)
		     order  by user_id, ticket collate "C"
		     on     conflict do nothing
		)
		select ticket, user_id, outcome, coalesce(order_id, '00000000-0000-0000-0000-000000000000') as order_id
		from   decided`: {
			params:  []uint32{pgtype.Int8OID, pgtype.TextOID, pgtype.TextArrayOID, pgtype.Int8ArrayOID},
			columns: columns("ticket:text user_id:int8 outcome:text order_id:uuid"),
			run: func(m *pgModel, tx *pgTx, a pgArgs) (rows [][]any, _ int, _ pgFault) {
				decided := m.decide(tx, a)
				slices.SortStableFunc(decided, func(a, b resultRow) int { return cmp.Or(cmp.Compare(a.user, b.user), cmp.Compare(a.ticket, b.ticket)) })
				var first []resultRow // of each user without an order or such a refusal
				for _, r := range decided {
					rows = append(rows, []any{r.ticket, r.user, r.outcome, r.order})
					distinct := len(first) == 0 || first[len(first)-1].user != r.user
					if r.outcome == arg[string](a, 2) && distinct && m.orderOfTicket(tx, r.ticket) == nil && !m.refused(tx, r) {
						first = append(first, r)
					}
				}
				for _, r := range first {
					m.addResult(tx, r)
				}
				return rows, len(rows), ""
			},
		},
		`insert into ticket_results (ticket, user_id, sale_id, outcome, order_id)
		select t.ticket, t.user_id, $1, case when o.id is null then $2 else 'duplicate' end, o.id
		from   unnest($3::text[], $4::bigint[]) as t (ticket, user_id)
		left   join orders o on o.user_id = t.user_id and o.sale_id = $1
		where  not exists (select from orders x where x.ticket = t.ticket)
		on     conflict (ticket) do nothing`: {
			params: []uint32{pgtype.Int8OID, pgtype.TextOID, pgtype.TextArrayOID, pgtype.Int8ArrayOID}, tag: "INSERT 0",
			run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
				before := len(m.results)
				for _, r := range m.decide(tx, a) {
					if m.orderOfTicket(tx, r.ticket) == nil {
						m.addResult(tx, r)
					}
				}
				return nil, len(m.results) - before, ""
			},
		},
		`insert into ticket_results (ticket, user_id, sale_id, outcome)
			select $1, $2::bigint, $3::bigint, 'invalid' where not exists (select from orders where ticket = $1)
			on conflict (ticket) do nothing`: {
			params: []uint32{pgtype.TextOID, pgtype.Int8OID, pgtype.Int8OID}, tag: "INSERT 0",
			run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
				before := len(m.results)
				if m.orderOfTicket(tx, arg[string](a, 1)) == nil {
					m.addResult(tx, resultRow{ticket: arg[string](a, 1), user: arg[int64](a, 2), sale: arg[int64](a, 3), outcome: order.Invalid})
				}
				return nil, len(m.results) - before, ""
			},
		},
		`select ticket, user_id, 'ordered' as outcome, id as order_id
		from   orders
		where  ticket = any($1)
		union  all
		select ticket, user_id, outcome, coalesce(order_id, '00000000-0000-0000-0000-000000000000')
		from   ticket_results r
		where  ticket = any($1) and not exists (select from orders o where o.ticket = r.ticket)`: {
			params: []uint32{pgtype.TextArrayOID}, columns: columns("ticket:text user_id:int8 outcome:text order_id:uuid"),
			run: func(m *pgModel, tx *pgTx, a pgArgs) (rows [][]any, _ int, _ pgFault) {
				for _, t := range slices.Compact(slices.Sorted(slices.Values(arg[[]string](a, 1)))) {
					if r := m.resultOf(tx, t); r != nil {
						rows = append(rows, []any{r.ticket, r.user, r.outcome, r.order})
					}
				}
				return rows, len(rows), ""
			},
		},
		`select distinct on (sale_id, user_id) sale_id, user_id, ticket, outcome,
		       coalesce(order_id, '00000000-0000-0000-0000-000000000000') as order_id
		from   unnest($1::bigint[], $2::bigint[]) as asked (sale_id, user_id),
		       lateral (select ticket, 'ordered' as outcome, id as order_id, 'infinity'::timestamptz as created_at
		                from   orders o
		                where  o.sale_id = asked.sale_id and o.user_id = asked.user_id
		                union  all
		                select ticket, outcome, order_id, created_at
		                from   ticket_results r
		                where  r.sale_id = asked.sale_id and r.user_id = asked.user_id and order_id is null) as known
		where  ` + durable + `
		order  by sale_id, user_id, created_at desc`: {
			params: []uint32{pgtype.Int8ArrayOID, pgtype.Int8ArrayOID}, columns: columns("sale_id:int8 user_id:int8 ticket:text outcome:text order_id:uuid"),
			run: func(m *pgModel, tx *pgTx, a pgArgs) (rows [][]any, _ int, _ pgFault) {
				buyers, users := map[order.Buyer]bool{}, arg[[]int64](a, 2)
				for i, sale := range arg[[]int64](a, 1) {
					buyers[order.Buyer{SaleID: sale, UserID: users[i]}] = true
				}
				for _, b := range slices.SortedFunc(maps.Keys(buyers), func(a, b order.Buyer) int {
					return cmp.Or(cmp.Compare(a.SaleID, b.SaleID), cmp.Compare(a.UserID, b.UserID))
				}) {
					if o := m.orderOf(tx, b.SaleID, b.UserID, false); o != nil {
						rows = append(rows, []any{b.SaleID, b.UserID, o.ticket, order.Ordered, o.id})
					} else if r := m.newestRefusal(tx, b.SaleID, b.UserID); r != nil {
						rows = append(rows, []any{b.SaleID, b.UserID, r.ticket, r.outcome, uuidBytes{}})
					}
				}
				return rows, len(rows), ""
			},
		},
		`select user_id, id as order_id
		from   orders
		where  sale_id = $1 and starts_with(ticket, $2) and user_id > $3 and ` + durable + `
		order  by user_id
		limit  $4`: {
			params: []uint32{pgtype.Int8OID, pgtype.TextOID, pgtype.Int8OID, pgtype.Int8OID}, columns: columns("user_id:int8 order_id:uuid"),
			run: func(m *pgModel, tx *pgTx, a pgArgs) (rows [][]any, _ int, _ pgFault) {
				for _, o := range m.inSale(tx, arg[int64](a, 1)) {
					if strings.HasPrefix(o.ticket, arg[string](a, 2)) && o.user > arg[int64](a, 3) {
						rows = append(rows, []any{o.user, o.id})
					}
				}
				slices.SortFunc(rows, func(a, b []any) int { return cmp.Compare(a[0].(int64), b[0].(int64)) })
				rows = rows[:min(len(rows), int(arg[int64](a, 4)))]
				return rows, len(rows), ""
			},
		},
		`select user_id, id as order_id from orders where sale_id = $1 and user_id = any($2) and ` + durable: {
			params: []uint32{pgtype.Int8OID, pgtype.Int8ArrayOID}, columns: columns("user_id:int8 order_id:uuid"),
			run: func(m *pgModel, tx *pgTx, a pgArgs) (rows [][]any, _ int, _ pgFault) {
				for _, o := range m.inSale(tx, arg[int64](a, 1)) {
					if slices.Contains(arg[[]int64](a, 2), o.user) {
						rows = append(rows, []any{o.user, o.id})
					}
				}
				return rows, len(rows), ""
			},
		},
		// order: cancel, expire
		`select o.id, o.user_id, o.sale_id, o.title, case when g.title = o.title then g.title_en else '' end as title_en, coalesce(g.image, '') as image, o.price, o.status, o.created_at, o.expires_at, o.paid_at,
		       case when o.status = 'cancelled' then (select max(e.at) from order_events e where e.order_id = o.id) end as cancelled_at
		from   orders o left join sales s on s.id = o.sale_id left join goods g on g.id = s.goods_id
		where  o.id = $1 and o.user_id = $2 and ` + durable: {
			params:  []uint32{pgtype.UUIDOID, pgtype.Int8OID},
			columns: columns("id:uuid user_id:int8 sale_id:int8 title:text title_en:text image:text price:int8 status:text created_at:time expires_at:time paid_at:time cancelled_at:time"),
			run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
				r := m.order(tx, arg[uuidBytes](a, 1))
				if r == nil || r.see(tx).user != arg[int64](a, 2) {
					return nil, 0, ""
				}
				o, paid := r.see(tx), any(nil)
				if !o.paidAt.IsZero() {
					paid = o.paidAt
				}
				return [][]any{{o.id, o.user, o.sale, o.title, "", "", o.price, o.status, o.created, o.expires, paid, nil}}, 1, ""
			},
		},
		`update orders set status = 'cancelled'
		where  id = $1 and user_id = $2 and status || '' = 'pending'`: {
			params: []uint32{pgtype.UUIDOID, pgtype.Int8OID}, tag: "UPDATE",
			run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
				r := m.order(tx, arg[uuidBytes](a, 1))
				return nil, moveIf(r, tx, order.Cancelled, func(o *orderRow) bool {
					return o.user == arg[int64](a, 2) && o.status == order.Pending
				}), ""
			},
		},
		`with recursive first as (
		     (select sale_id, expires_at from orders where status = 'pending' order by sale_id, expires_at limit 1)
		     union all
		     select following.*
		     from   first cross join lateral (
		            select sale_id, expires_at
		            from   orders
		            where  status = 'pending' and sale_id > first.sale_id
		            order  by sale_id, expires_at
		            limit  1) following
		)
		select sale_id
		from   first
		where  expires_at <= statement_timestamp() and sale_id <> all($1)
		order  by expires_at
		limit  100`: {
			params: []uint32{pgtype.Int8ArrayOID}, columns: columns("sale_id:int8"),
			run: func(m *pgModel, tx *pgTx, a pgArgs) (rows [][]any, _ int, _ pgFault) {
				first := map[int64]time.Time{}
				for _, id := range slices.Sorted(maps.Keys(m.sales)) {
					for _, o := range m.inSale(tx, id) {
						at, ok := first[id]
						if o.overdue() && !slices.Contains(arg[[]int64](a, 1), id) && (!ok || o.expires.Before(at)) {
							first[id] = o.expires
						}
					}
				}
				sales := slices.SortedFunc(maps.Keys(first), func(a, b int64) int {
					return cmp.Or(first[a].Compare(first[b]), cmp.Compare(a, b))
				})
				for _, id := range sales {
					rows = append(rows, []any{id})
				}
				return rows, len(rows), ""
			},
		},
		`update orders set status = 'cancelled'
		where  status || '' = 'pending' and id = any (array(
		       select id
		       from   orders
		       where  sale_id = $1 and status = 'pending' and expires_at <= statement_timestamp()
		       order  by expires_at
		       limit  $2
		       for    no key update skip locked))`: {
			params: []uint32{pgtype.Int8OID, pgtype.Int8OID}, tag: "UPDATE",
			run: func(m *pgModel, tx *pgTx, a pgArgs) (_ [][]any, n int, _ pgFault) {
				var due []*row[orderRow]
				for _, r := range m.orders {
					if o := r.see(tx); o != nil && o.sale == arg[int64](a, 1) && o.overdue() && (r.owner == nil || r.owner == tx) {
						due = append(due, r)
					}
				}
				slices.SortStableFunc(due, func(a, b *row[orderRow]) int { return a.see(tx).expires.Compare(b.see(tx).expires) })
				due = due[:min(len(due), int(arg[int64](a, 2)))]
				for _, r := range due {
					r.lock(tx) // all of them before the first change
				}
				for _, r := range due {
					n += moveIf(r, tx, order.Cancelled, func(o *orderRow) bool { return o.status == order.Pending })
				}
				return nil, n, ""
			},
		},
		// order: pay
		`select o.price, coalesce(p.order_id, o.id), coalesce(p.status, '')
		from   orders o left join payments p on p.provider = $2 and p.provider_ref = $3
		where  o.id = $1 and ` + durable: {
			params: []uint32{pgtype.UUIDOID, pgtype.TextOID, pgtype.TextOID}, columns: columns("price:int8 order_id:uuid status:text"),
			run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
				r := m.order(tx, arg[uuidBytes](a, 1))
				if r == nil {
					return nil, 0, ""
				}
				o, of, status := r.see(tx), r.see(tx).id, ""
				for _, r := range m.payments {
					if p := r.see(tx); p != nil && p.ref == arg[string](a, 3) {
						of, status = p.order, p.status
					}
				}
				return [][]any{{o.price, of, status}}, 1, ""
			},
		},
		`select sale_id, status from orders where id = $1 and ` + durable: {
			params: []uint32{pgtype.UUIDOID}, columns: columns("sale_id:int8 status:text"),
			run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
				if r := m.order(tx, arg[uuidBytes](a, 1)); r != nil {
					return [][]any{{r.see(tx).sale, r.see(tx).status}}, 1, ""
				}
				return nil, 0, ""
			},
		},
		`update orders set status = 'paid', paid_at = clock_timestamp()
		where  id = $1 and status || '' = 'pending' and expires_at > clock_timestamp()`: {
			params: []uint32{pgtype.UUIDOID}, tag: "UPDATE",
			run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
				r := m.order(tx, arg[uuidBytes](a, 1))
				n := moveIf(r, tx, order.Paid, func(o *orderRow) bool { return o.status == order.Pending && !o.overdue() })
				if n == 1 {
					r.changed.paidAt = now()
				}
				return nil, n, ""
			},
		},
		`with refunded as (
		     update orders set status = 'refunded' where id = $1 and status = 'paid' returning id
		), due as (
		     update payments set status = 'refund_due', ask_at = now(), tries = 0, updated_at = now()
		     where  order_id = $1 and status = 'captured' and exists (select from refunded)
		)
		select id from refunded`: {
			params: []uint32{pgtype.UUIDOID}, columns: columns("id:uuid"),
			run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
				id := arg[uuidBytes](a, 1)
				if moveIf(m.order(tx, id), tx, order.Refunded, func(o *orderRow) bool { return o.status == order.Paid }) == 0 {
					return nil, 0, ""
				}
				m.movePayments(tx, id, "captured", "refund_due", "")
				return [][]any{{id}}, 1, ""
			},
		},
		// No buyer of the model has an address.
		`insert into deliveries (order_id, name, phone, address)
		select o.id, a.name, a.phone, a.address
		from   orders o join addresses a on a.user_id = o.user_id
		where  o.id = $1 and a.address is not null
		on     conflict (order_id) do nothing`: {
			params: []uint32{pgtype.UUIDOID}, tag: "INSERT 0",
			run: func(*pgModel, *pgTx, pgArgs) ([][]any, int, pgFault) { return nil, 0, "" },
		},
		// The model has one provider, whose notices name no payment.
		`with known as (
		     update payments set status = $5, provider_ref = $4, ask_at = now(), tries = 0, why = '', updated_at = now()
		     where  order_id = $1 and provider = $2 and (id = $3 and status in ('open', 'declined', 'closed') or
		            $3 = '00000000-0000-0000-0000-000000000000' and status in ('open', 'closed'))
		     returning id
		), new as (
		     insert into payments (id, order_id, amount, status, provider, provider_ref, ask_at, captured_as)
		     select $6, id, price, $5, $2, $4, now(), coalesce(nullif($3, '00000000-0000-0000-0000-000000000000'),
		            (select coalesce(captured_as, id) from payments where order_id = $1 and provider = $2 order by id desc limit 1))
		     from   orders
		     where  id = $1 and not exists (select from known)
		     returning id
		)
		select id from known union all select id from new`: {
			params:  []uint32{pgtype.UUIDOID, pgtype.TextOID, pgtype.UUIDOID, pgtype.TextOID, pgtype.TextOID, pgtype.UUIDOID},
			columns: columns("id:uuid"),
			run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
				id, status, ref := arg[uuidBytes](a, 1), arg[string](a, 5), arg[string](a, 4)
				if fault := m.unique(tx, id, status, ref); fault != "" {
					return nil, 0, fault
				}
				if m.movePayments(tx, id, "open", status, ref) == 0 {
					m.payments = append(m.payments, insert(tx, paymentRow{arg[uuidBytes](a, 6), id, m.order(tx, id).see(tx).price, status, ref}))
				}
				return [][]any{{arg[uuidBytes](a, 6)}}, 1, ""
			},
		},
	} {
		s.tag = cmp.Or(s.tag, "SELECT")
		byText[normalize(sql)] = s
	}
	return byText
}()

// take subtracts n units. The constraint stock_within_total stands behind it.
func (s *saleRow) take(n int64) pgFault {
	if s.stock-n < 0 || s.stock-n > s.total {
		return "23514"
	}
	s.stock -= n
	return ""
}

// change changes a locked sale as an update of its state, window or total does: the trigger sales_changed, then the constraints.
func (m *pgModel) change(s *saleRow, set func(*saleRow)) pgFault {
	old := *s
	set(s)
	if s.state != old.state || s.total != old.total || !s.starts.Equal(old.starts) || !s.ends.Equal(old.ends) {
		m.epoch++ // a rollback does not take it back
		s.epoch = m.epoch
		if old.state != goods.Draft {
			for _, end := range []time.Time{old.ends, now()} {
				if until := end.Add(25 * time.Hour); until.After(s.gateUntil) {
					s.gateUntil = until
				}
			}
		}
		if s.stock == old.stock {
			s.stock += s.total - old.total
		}
	}
	if s.total < 1 || s.stock < 0 || s.stock > s.total || !s.ends.After(s.starts) {
		*s = old
		return "23514"
	}
	return ""
}

func (o *orderRow) overdue() bool { return o.status == order.Pending && !o.expires.After(now()) }

// moveIf sets an order's status if a condition holds, and returns how many orders it changed.
func moveIf(r *row[orderRow], tx *pgTx, status string, may func(*orderRow) bool) int {
	if r == nil || r.see(tx) == nil {
		return 0
	}
	// A row that does not match is not locked. One that another transaction holds is judged after
	// the wait.
	if r.owner == nil && !may(r.committed) {
		return 0
	}
	o := r.lock(tx)
	if !may(o) {
		return 0
	}
	o.status = status
	return 1
}

// decide returns the results of tickets that get no unit now: sale, refusal, tickets, users.
func (m *pgModel) decide(tx *pgTx, a pgArgs) (results []resultRow) {
	sale, refusal, tickets, users := arg[int64](a, 1), arg[string](a, 2), arg[[]string](a, 3), arg[[]int64](a, 4)
	for i, t := range tickets {
		r := resultRow{ticket: t, user: users[i], sale: sale, outcome: refusal}
		if o := m.orderOf(tx, sale, users[i], false); o != nil {
			r.outcome, r.order = order.Duplicate, o.id
			if o.ticket == t {
				r.outcome = order.Ordered
			}
		}
		results = append(results, r)
	}
	return results
}

// place is the statement of order.Place that inserts orders.
func (m *pgModel) place(tx *pgTx, a pgArgs) (rows [][]any, _ int, _ pgFault) {
	sale, title, price, within := arg[int64](a, 1), arg[string](a, 2), arg[int64](a, 3), arg[time.Duration](a, 4)
	tickets, users, ids, limit := arg[[]string](a, 5), arg[[]int64](a, 6), arg[[]uuidBytes](a, 7), arg[int64](a, 8)
	seen := map[int64]bool{}
	var fresh []int
	for i, t := range tickets {
		if r := m.results[t]; r != nil && r.see(tx) == nil {
			panic(mustWait{})
		}
		if m.stored(tx, t) == nil && !seen[users[i]] && m.orderOf(tx, sale, users[i], true) == nil {
			seen[users[i]] = true
			fresh = append(fresh, i)
		}
	}
	fresh = fresh[:min(len(fresh), int(limit))]
	for _, i := range fresh {
		if users[i] <= 0 { // the check on orders.user_id
			return nil, 0, "23514"
		}
		if m.orderOfTicket(tx, tickets[i]) != nil { // the unique index on orders.ticket
			return nil, 0, "23505"
		}
	}
	for _, i := range fresh {
		m.orders = append(m.orders, insert(tx, orderRow{id: ids[i], user: users[i], sale: sale, price: price, ticket: tickets[i],
			title: title, status: order.Pending, created: now(), expires: now().Add(within)}))
		rows = append(rows, []any{ids[i]})
	}
	return rows, len(rows), ""
}

func (m *pgModel) newestRefusal(tx *pgTx, sale, user int64) (newest *resultRow) {
	for _, ticket := range slices.Sorted(maps.Keys(m.results)) {
		r := m.results[ticket].see(tx)
		if r != nil && r.sale == sale && r.user == user && r.order == (uuidBytes{}) && (newest == nil || r.created.After(newest.created)) {
			newest = r
		}
	}
	return newest
}

// unique returns the fault of a payment that would be a second one with the same reference, or a
// second capture.
func (m *pgModel) unique(tx *pgTx, id uuidBytes, status, ref string) pgFault {
	for _, r := range m.payments {
		for _, p := range []*paymentRow{r.see(tx), r.changed} {
			if p == nil || p.ref != ref && (p.order != id || p.status != status || status != "captured") {
				continue
			}
			if r.owner != nil && r.owner != tx {
				panic(mustWait{})
			}
			return "23505"
		}
	}
	return ""
}

func (m *pgModel) movePayments(tx *pgTx, id uuidBytes, from, to, ref string) (n int) {
	for _, r := range m.payments {
		if p := r.see(tx); p != nil && p.order == id && p.status == from {
			p = r.lock(tx)
			p.status, p.ref = to, cmp.Or(ref, p.ref)
			n++
		}
	}
	return n
}
