package backend

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// grants are the rights that the shop's role needs, a line for each statement of deploy/README.md, "With no more rights
// than it needs". A test compares the two.
const grants = `
select on schema_version, shop
update (beat, beaten_at, next_xid) on shop
select on users, goods, sales, orders, ticket_results, ticket_outcomes, payments, order_events, role_changes
select on admin_log, addresses, deliveries, sale_plans, pictures, archives
insert (phone, nickname, password_hash), update (phone, nickname, password_hash, legacy_hash, legacy_salt, generation, password_due) on users
insert (title, title_en, image, detail, detail_en, list_price, demo), update (title, title_en, image, detail, detail_en, list_price) on goods
insert (goods_id, price, total, stock, state, starts_at, ends_at), update (price, priced_at, total, stock, state, starts_at, ends_at, epoch, bypasses, bypasses_known) on sales
insert (id, user_id, sale_id, ticket, title, price, expires_at), update (status, paid_at, expires_at) on orders
insert (ticket, user_id, sale_id, outcome, order_id) on ticket_results
insert (id, order_id, amount, status, provider, provider_ref, ask_at, captured_as), update (status, provider_ref, asked_at, ask_at, tries, why, updated_at) on payments
insert (user_id, name, phone, address), update (name, phone, address, updated_at) on addresses
insert (order_id, name, phone, address, carrier, tracking, shipped_at), update (name, phone, address, carrier, tracking, shipped_at, updated_at) on deliveries
insert (sale_id, action, at, by_user), update (state, why, done_at) on sale_plans
insert (name, bytes, width, height) on pictures
insert (by_user, origin, action, subject, before, after, key, digest, result) on admin_log
usage on sequence gate_epoch
execute on function change_role, disable_user, new_incarnation
`

var privilege = regexp.MustCompile(`(\w+)(?: \(([^)]*)\))?`)

// checkRights returns an error that names the first right which the role of a pool has not.
func checkRights(ctx context.Context, db *pgxpool.Pool) error {
	var lines, kinds, objects, rights, columns []string
	for _, line := range strings.Split(strings.TrimSpace(grants), "\n") {
		what, on, _ := strings.Cut(line, " on ")
		kind, names, _ := strings.Cut(on, " ")
		if kind != "sequence" && kind != "function" {
			kind, names = "table", on
		}
		for _, name := range strings.Split(names, ", ") {
			for _, p := range privilege.FindAllStringSubmatch(what, -1) {
				lines, kinds, objects, rights, columns = append(lines, line), append(kinds, kind), append(objects,
					name), append(rights, p[1]), append(columns, p[2])
			}
		}
	}
	var line, right, object, role string
	err := db.QueryRow(ctx, `
		select line, "right", object, quote_ident(current_user)
		from   unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) with ordinality as needed (line, kind, object, "right", columns, n)
		where  not coalesce(case kind
		       when 'sequence' then has_sequence_privilege(to_regclass(object), "right")
		       when 'function' then has_function_privilege(to_regproc(object), "right")
		       else has_table_privilege(to_regclass(object), "right")
		            or columns <> '' and (select bool_and(has_column_privilege(to_regclass(object), c, "right")) from unnest(string_to_array(columns, ', ')) c)
		       end, false)
		order  by n
		limit  1`, lines, kinds, objects, rights, columns).Scan(&line, &right, &object, &role)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the rights of the role: %w", err)
	}
	return fmt.Errorf(`the role %s lacks %s on %s: run "grant %s to %s" as the owner of the database (deploy/README.md, With no more rights than it needs)`,
		role, right, object, line, role)
}
