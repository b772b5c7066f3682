package seckill

import (
	"cmp"
	"crypto/sha256"
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
	name    string
	hash    string // of the text for which run was written
	selects bool   // the text begins with "select"
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

// statementOf returns the row of the model for a statement.
func statementOf(sql string) pgStatement {
	text := strings.Join(strings.Fields(strings.ToLower(sql)), " ")
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:12]
	for name, s := range pgStatements {
		if s.hash == hash {
			s.name, s.tag, s.selects = name, cmp.Or(s.tag, "SELECT"), strings.HasPrefix(text, "select")
			return s
		}
	}
	panic(fmt.Sprintf("the model of Postgres does not know this statement. If it was changed, look at what the model "+
		"does for it, and then set its hash in pgStatements to %s:\n%s", hash, sql))
}

// pgStatements are the statements by the function that sends them. The hash of the text stands beside what the model
// does, so a changed statement is unknown until someone has looked at its model. The model has no standby, so what
// package order calls durable is true.
var pgStatements = map[string]pgStatement{
	// goods
	"goods.Lock": {
		hash:   "f400a97e0162",
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
	"goods.Take": {
		hash:   "548473fc3b6f",
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
	"goods.GiveBack": {
		hash:   "1084b31c2f99",
		params: []uint32{pgtype.Int8OID, pgtype.Int4OID}, tag: "UPDATE",
		run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
			r := m.sales[arg[int64](a, 1)]
			if r == nil {
				return nil, 0, ""
			}
			return nil, 1, r.lock(tx).take(-arg[int64](a, 2))
		},
	},
	"goods.NextEpoch": {
		hash:   "e409ef44384a",
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
	"by hand: state": { // an administrator's
		hash:   "6c5b6171f6e4",
		params: []uint32{pgtype.Int8OID, pgtype.TextOID}, tag: "UPDATE",
		run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
			return nil, 1, m.change(m.sales[arg[int64](a, 1)].lock(tx), func(s *saleRow) { s.state = arg[string](a, 2) })
		},
	},
	"by hand: total": { // by hand
		hash:   "0a17a3457a6b",
		params: []uint32{pgtype.Int8OID, pgtype.Int4OID}, tag: "UPDATE",
		run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
			return nil, 1, m.change(m.sales[arg[int64](a, 1)].lock(tx), func(s *saleRow) { s.total += arg[int64](a, 2) })
		},
	},
	"by hand: window": { // by hand
		hash:   "e81a152e3722",
		params: []uint32{pgtype.Int8OID, pgtype.TimestamptzOID, pgtype.TimestamptzOID}, tag: "UPDATE",
		run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
			return nil, 1, m.change(m.sales[arg[int64](a, 1)].lock(tx), func(s *saleRow) { s.starts, s.ends = arg[time.Time](a, 2), arg[time.Time](a, 3) })
		},
	},
	"goods.AddUnits": {
		hash:   "e7b4575de54d",
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
	"goods.CountBypass": {
		hash:   "54e32df44233",
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
	"goods.GateKnows": {
		hash:   "0d0968763596",
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
	"goods.SaleStates": {
		hash:    "917cc449b313",
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
	"goods.StatesOf": {
		hash:    "5cd65438d5c9",
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
	"goods.DrawEpoch": {
		hash:    "6119fb8a22d0",
		columns: columns("nextval:int8"),
		run: func(m *pgModel, _ *pgTx, _ pgArgs) ([][]any, int, pgFault) {
			m.epoch++
			return [][]any{{m.epoch}}, 1, ""
		},
	},
	"goods.Changed": {
		hash:   "91874742cb20",
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
	"order.sell": {
		hash: "9474aa3bc60a",
		params: []uint32{pgtype.Int8OID, pgtype.TextOID, pgtype.Int8OID, pgtype.IntervalOID, pgtype.TextArrayOID,
			pgtype.Int8ArrayOID, pgtype.UUIDArrayOID, pgtype.Int8OID},
		columns: columns("id:uuid"),
		run:     (*pgModel).place,
	},
	"order.PlaceAtOnce": {
		hash:    "7a063bb22f84",
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
	"order.refuse": {
		hash:   "6a922b036e0f",
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
	"order.Reject": {
		hash:   "6d014dd3031e",
		params: []uint32{pgtype.TextOID, pgtype.Int8OID, pgtype.Int8OID}, tag: "INSERT 0",
		run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
			before := len(m.results)
			if m.orderOfTicket(tx, arg[string](a, 1)) == nil {
				m.addResult(tx, resultRow{ticket: arg[string](a, 1), user: arg[int64](a, 2), sale: arg[int64](a, 3), outcome: order.Invalid})
			}
			return nil, len(m.results) - before, ""
		},
	},
	"order.results": {
		hash:   "fa5e6e343f0b",
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
	"order.Outcomes": {
		hash:   "f5bb9b8a6c94",
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
	"order.Owners": {
		hash:   "e160062f1d09",
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
	"order.OwnersAmong": {
		hash:   "5eedaa96bdec",
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
	"order.ByID": {
		hash:    "501a2f6d8860",
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
	"order.Cancel": {
		hash:   "90f6160d4229",
		params: []uint32{pgtype.UUIDOID, pgtype.Int8OID}, tag: "UPDATE",
		run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
			r := m.order(tx, arg[uuidBytes](a, 1))
			return nil, moveIf(r, tx, order.Cancelled, func(o *orderRow) bool {
				return o.user == arg[int64](a, 2) && o.status == order.Pending
			}), ""
		},
	},
	"order.overdueSales": {
		hash:   "04bcf8dd8a1f",
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
	"order.expireSale": {
		hash:   "9fb37b725f6a",
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
	"order.capture": {
		hash:   "09cf922083f8",
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
	"order.saleOf": {
		hash:   "bb2f3da8d60d",
		params: []uint32{pgtype.UUIDOID}, columns: columns("sale_id:int8 status:text"),
		run: func(m *pgModel, tx *pgTx, a pgArgs) ([][]any, int, pgFault) {
			if r := m.order(tx, arg[uuidBytes](a, 1)); r != nil {
				return [][]any{{r.see(tx).sale, r.see(tx).status}}, 1, ""
			}
			return nil, 0, ""
		},
	},
	"order.receive: order": {
		hash:   "eb511ddb4938",
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
	"order.Refund": {
		hash:   "a00a68cba897",
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
	"order.copyAddress": {
		hash:   "d772dffe10e4",
		params: []uint32{pgtype.UUIDOID}, tag: "INSERT 0",
		run: func(*pgModel, *pgTx, pgArgs) ([][]any, int, pgFault) { return nil, 0, "" },
	},
	// The model has one provider, whose notices name no payment.
	"order.receive: payment": {
		hash:    "7f40054e6b01",
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
}

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
