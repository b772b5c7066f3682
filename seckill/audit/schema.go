package audit

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// wanted has a line for each object of schema.sql, as objects reads it from a database that has just received the
// schema. TestTheListOfObjectsIsThatOfTheSchema writes it again with -write.
//
//go:embed schema.txt
var wanted string

// newestCompared is the newest Postgres whose texts of definitions are known to be those of the list. For a newer one
// only the names are compared.
const newestCompared = 18

// object is a part of a schema.
type object struct{ kind, table, name, definition string }

// Difference is an object of schema.sql that a database lacks or has otherwise, such as after a restore that went on
// after an error.
type Difference struct {
	What   string // such as "the index sales_by_end is missing"
	WayOut string // the statement that mends it
	Kind   string // table, column, constraint, index, trigger, function, view, sequence, ids, rights or owner
	Lost   bool   // data may be lost with it: a table or column is missing
	Key    bool   // a primary key or unique constraint is missing
	Mended bool   // by applying schema.sql
}

// String returns what differs, and the way out.
func (d Difference) String() string {
	if d.WayOut == "" {
		return d.What
	}
	return d.What + ": " + d.WayOut
}

// applied is the way out for what schema.sql itself mends.
const applied = "apply schema.sql as the database's owner, or start the shop as that role"

// plainText makes Postgres print definitions the same way, whatever the settings of the role or the database are.
const plainText = `set local quote_all_identifiers = off; set local standard_conforming_strings = on; set local intervalstyle = 'postgres'`

// Differences returns what of schema.sql the database lacks or has otherwise. It only reads. A database of another
// version than this program's has none: it cannot be compared.
//
// A restore prints definitions and reads them again. What changes by that alone is no difference (flat). What a
// database has besides is not a finding either.
func Differences(ctx context.Context, tx pgx.Tx) (found []Difference, err error) {
	if _, err := tx.Exec(ctx, plainText); err != nil {
		return nil, err
	}
	var there bool
	var major, version int
	err = tx.QueryRow(ctx, `select to_regclass('schema_version') is not null, current_setting('server_version_num')::int / 10000`).Scan(&there, &major)
	if err != nil || !there {
		return nil, err
	}
	if err := tx.QueryRow(ctx, `select coalesce(max(version), 0) from schema_version`).Scan(&version); err != nil {
		return nil, err
	}
	head, list, _ := strings.Cut(wanted, "\n")
	if head != fmt.Sprintf("version\t%d", version) {
		return nil, nil
	}
	rows, err := objects(ctx, tx)
	if err != nil {
		return nil, err
	}
	has := map[object]string{}
	for _, o := range rows {
		has[object{kind: o.kind, table: o.table, name: o.name}] = o.definition
	}
	for line := range strings.Lines(list) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		want := object{f[0], f[1], f[2], f[3]}
		if _, ok := has[object{kind: "table", name: want.table}]; want.table != "" && !ok {
			continue // the missing table says it all
		}
		definition, ok := has[object{kind: want.kind, table: want.table, name: want.name}]
		if !ok && (want.kind == "rights" || want.kind == "owner") {
			continue // and so does the missing function
		}
		if !ok || major <= newestCompared && flat(definition) != flat(want.definition) {
			found = append(found, want.difference(definition, ok))
		}
	}
	if slices.ContainsFunc(found, func(d Difference) bool { return d.Lost }) {
		return found, nil
	}
	late, err := sequencesBehind(ctx, tx)
	return append(found, late...), err
}

// Tables returns the names of the tables of schema.sql.
func Tables() (names []string) {
	for line := range strings.Lines(wanted) {
		if f := strings.Split(line, "\t"); f[0] == "table" {
			names = append(names, f[2])
		}
	}
	return names
}

// difference describes an object whose definition in the database is another, or that it lacks.
func (o object) difference(definition string, there bool) Difference {
	d := Difference{Kind: o.kind, What: fmt.Sprintf("the %s %s is missing", o.kind, o.name)}
	if o.table != "" {
		d.What = fmt.Sprintf("the %s %s of the table %s is missing", o.kind, o.name, o.table)
	}
	switch {
	case there && flat(definition) == flat(o.definition+disabled):
		d.What = strings.TrimSuffix(d.What, "missing") + "switched off"
	case there:
		d.What = strings.TrimSuffix(d.What, "missing") + "not as in schema.sql"
	}
	switch o.kind {
	case "table":
		d.Lost, d.WayOut = !there, "restore the dump again into an empty database, and look for the first error"
		if there { // an unlogged table is empty after a crash
			d.WayOut = fmt.Sprintf("alter table %s %s", o.name, definition)
		}
	case "column":
		d.Lost = !there
		d.WayOut = "restore the dump again into an empty database, and look for the first error"
		if there {
			d.WayOut = fmt.Sprintf("it is %s, and has to be %s", definition, o.definition)
		}
	case "constraint":
		add := fmt.Sprintf("add constraint %s %s", o.name, o.definition)
		d.Key = !there && !strings.HasPrefix(o.definition, "CHECK") && !strings.HasPrefix(o.definition, "FOREIGN KEY")
		switch {
		case !there:
			d.WayOut = fmt.Sprintf("alter table %s %s", o.table, add)
		case flat(definition) == flat(o.definition+" NOT VALID"):
			d.WayOut = fmt.Sprintf("alter table %s validate constraint %s", o.table, o.name)
		default:
			d.WayOut = fmt.Sprintf("alter table %s drop constraint %s, %s", o.table, o.name, add)
		}
	case "index":
		d.Mended, d.WayOut = !there, o.definition
		if there {
			d.WayOut = fmt.Sprintf("drop index %s; %s", o.name, o.definition)
		}
	case "rights":
		d.Mended, d.What = true, fmt.Sprintf("every role may execute %s, as after a restore without rights (-x)",
			o.name)
		d.WayOut = fmt.Sprintf("revoke execute on function %s from public", o.name)
	case "owner":
		d.What = fmt.Sprintf("the function %s belongs to %s, who may not act as the owner of the tables",
			o.name, definition)
		d.WayOut = fmt.Sprintf("alter function %s owner to the role that owns the tables", o.name)
	default:
		d.Mended, d.WayOut = true, applied
	}
	return d
}

// disabled stands at the end of the definition of a trigger or foreign key that "disable trigger" has switched off.
const disabled = " DISABLED"

// objects returns the parts of the schema in which schema_version lies. Names of that schema are left out of the
// definitions, so they are the same in each. Of functions only those in PL/pgSQL are read: an extension may have
// brought many others.
func objects(ctx context.Context, tx pgx.Tx) ([]object, error) {
	rows, _ := tx.Query(ctx, `
		with ns as (
		     select n.oid, quote_ident(n.nspname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
		     where  c.oid = to_regclass('schema_version')),
		tables as (select c.oid, c.relname::text, c.relowner, c.relpersistence, c.relrowsecurity from pg_class c join ns on ns.oid = c.relnamespace where c.relkind = 'r'),
		functions as (
		     select p.*, p.proname || '(' || oidvectortypes(p.proargtypes) || ')' as signature
		     from   pg_proc p join ns on ns.oid = p.pronamespace join pg_language l on l.oid = p.prolang
		     where  l.lanname = 'plpgsql')
		select kind, coalesce(of_table, ''), o.name, btrim(replace(regexp_replace(definition, '\s+', ' ', 'g'), ns.name || '.', ''))
		from  ns, lateral (
		select 'table' as kind, null as of_table, relname as name,
		       case when relpersistence = 'u' then 'set logged' when relrowsecurity then 'disable row level security' else '' end as definition from tables
		union all
		select 'column', t.relname, a.attname, concat_ws(' ', format_type(a.atttypid, a.atttypmod),
		       case when a.attnotnull then 'not null' end, case when a.attidentity <> '' then 'identity' end,
		       'default ' || pg_get_expr(d.adbin, d.adrelid))
		from   tables t join pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
		       left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
		union all
		select 'constraint', t.relname, c.conname, pg_get_constraintdef(c.oid) ||
		       case when exists (select from pg_trigger g where g.tgconstraint = c.oid and g.tgenabled in ('D', 'R')) then $1 else '' end
		from   tables t join pg_constraint c on c.conrelid = t.oid and c.contype in ('p', 'u', 'c', 'f')
		union all
		select 'index', t.relname, i.relname, pg_get_indexdef(i.oid) || case when x.indisvalid and x.indisready then '' else ' INVALID' end
		from   tables t join pg_index x on x.indrelid = t.oid join pg_class i on i.oid = x.indexrelid
		where  not exists (select from pg_constraint c where c.conindid = i.oid and c.contype in ('p', 'u'))
		union all
		select 'trigger', t.relname, g.tgname, pg_get_triggerdef(g.oid) || case when g.tgenabled in ('D', 'R') then $1 else '' end
		from   tables t join pg_trigger g on g.tgrelid = t.oid and not g.tgisinternal
		union all
		select 'function', null, signature, concat_ws(' ', 'returns', pg_get_function_result(oid), case when prosecdef then 'security definer' end,
		       (select string_agg(case s when 'search_path=' || ns.name || ', pg_temp' then 'search_path=its schema' else s end, ' ')
		        from unnest(proconfig) s), md5(replace(prosrc, chr(13), '')))
		from   functions
		union all
		select 'rights', null, signature, case when exists (
		       select from aclexplode(coalesce(proacl, acldefault('f', proowner))) a where a.grantee = 0) then 'of everyone' else '' end
		from   functions where prosecdef
		union all
		select 'owner', null, signature, case when (select bool_and(pg_has_role(proowner, t.relowner, 'usage')) from tables t) then ''
		       else proowner::regrole::text end
		from   functions where prosecdef
		union all
		select 'view', null, c.relname, regexp_replace(pg_get_viewdef(c.oid), '\m[a-z_]+\.', '', 'g')
		from   pg_class c where c.relnamespace = ns.oid and c.relkind = 'v'
		union all
		select 'sequence', null, c.relname, '' from pg_class c
		where  c.relnamespace = ns.oid and c.relkind = 'S'
		and    not exists (select from pg_depend d where d.objid = c.oid and d.classid = 'pg_class'::regclass and d.deptype = 'i')
		) o
		order by kind collate "C", coalesce(of_table, '') collate "C", o.name collate "C"`, disabled)
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o object, err error) {
		return o, row.Scan(&o.kind, &o.table, &o.name, &o.definition)
	})
	if err != nil {
		return nil, fmt.Errorf("read the objects of the schema: %w", err)
	}
	return list, nil
}

// sequencesBehind returns the sequences that would give a number again: a restore of some tables alone leaves them at
// their start, and a second one sets them back. A role without rights on a sequence does not learn where it stands.
func sequencesBehind(ctx context.Context, tx pgx.Tx) (found []Difference, err error) {
	rows, _ := tx.Query(ctx, `
		select sequence::text, highest
		from  (values (pg_get_serial_sequence('users', 'id'), (select max(id) from users)),
		              (pg_get_serial_sequence('role_changes', 'id'), (select max(id) from role_changes)),
		              (pg_get_serial_sequence('admin_log', 'id'), (select max(id) from admin_log)),
		              (pg_get_serial_sequence('goods', 'id'), (select max(id) from goods)),
		              (pg_get_serial_sequence('sales', 'id'), (select max(id) from sales)),
		              (pg_get_serial_sequence('sale_plans', 'id'), (select max(id) from sale_plans)),
		              (pg_get_serial_sequence('order_events', 'id'), (select max(id) from order_events)),
		              (to_regclass('gate_epoch')::text, (select max(epoch) from sales))) s (name, highest), to_regclass(name) sequence
		where  case when has_sequence_privilege(sequence, 'select, usage') then coalesce(pg_sequence_last_value(sequence), 0) < highest end`)
	var sequence string
	var highest int64
	_, err = pgx.ForEachRow(rows, []any{&sequence, &highest}, func() error {
		found = append(found, Difference{Kind: "ids", Mended: true,
			What:   fmt.Sprintf("the sequence %s is behind the highest number that it gave, %d", sequence, highest),
			WayOut: fmt.Sprintf("select setval('%s', %d)", sequence, highest)})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the sequences: %w", err)
	}
	return found, nil
}

// flat returns a definition without the parentheses that a restore changes. Postgres prints a chain of ORs or ANDs as
// it was written, and a chain that it reads from its own text as one list: ((a OR b) OR c) and (a OR b OR c) are equal,
// and (a OR b) AND c is not a OR (b AND c). A word in quotes stays as it is.
func flat(definition string) string {
	var b strings.Builder
	for i := 0; i < len(definition); i++ {
		end := i
		switch definition[i] {
		case '\'', '"':
			end = closing(definition, i)
			b.WriteString(definition[i:min(end+1, len(definition))])
		case '(':
			end = closing(definition, i)
			b.WriteString("(" + flat(definition[i+1:end]) + ")")
		default:
			b.WriteByte(definition[i])
		}
		i = end
	}
	text := b.String()
	if inner, ok := group(text); ok {
		return inner
	}
	for _, word := range []string{" OR ", " AND "} {
		parts := split(text, word)
		for i, p := range parts {
			if inner, ok := group(p); ok && len(split(inner, word)) > 1 {
				parts[i] = inner
			}
		}
		text = strings.Join(parts, word)
	}
	return text
}

// closing returns the place of the quote or parenthesis that closes the one at a place, or the length if none does.
func closing(text string, at int) int {
	for i := at + 1; i < len(text); i++ {
		switch c := text[i]; {
		case text[at] != '(' && c == text[at], text[at] == '(' && c == ')':
			return i
		case text[at] == '(' && (c == '(' || c == '\'' || c == '"'):
			i = closing(text, i)
		}
	}
	return len(text)
}

// group returns what is between the parentheses of a text that is one pair of them.
func group(text string) (inner string, ok bool) {
	if len(text) > 1 && text[0] == '(' && closing(text, 0) == len(text)-1 {
		return text[1 : len(text)-1], true
	}
	return "", false
}

// split splits a text at a word that is in no parentheses and no quotes.
func split(text, word string) (parts []string) {
	from := 0
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '(' || text[i] == '\'' || text[i] == '"':
			i = closing(text, i)
		case strings.HasPrefix(text[i:], word):
			parts = append(parts, text[from:i])
			from = i + len(word)
			i = from - 1
		}
	}
	return append(parts, text[from:])
}

// Schema returns a finding with what of schema.sql the database lacks or has otherwise, and a note of what it lost of
// the rights around it: with them lost every invariant holds, until a role uses what it should not have.
func Schema(ctx context.Context, db *pgxpool.Pool) (found []Finding, err error) {
	err = readOnly(ctx, db, quickStatement, func(tx pgx.Tx) error {
		found, err = schemaFindings(ctx, tx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("audit the schema: %w", err)
	}
	return found, nil
}

func schemaFindings(ctx context.Context, tx pgx.Tx) (found []Finding, err error) {
	differences, err := Differences(ctx, tx)
	var broken, notes []string
	for _, d := range differences {
		if d.Kind == "rights" || d.Kind == "owner" {
			notes = append(notes, d.String())
		} else {
			broken = append(broken, d.String())
		}
	}
	if len(broken) > 0 {
		found = append(found, Finding{"schema", "the database is not as schema.sql makes it",
			broken[:min(len(broken), maxRows)]})
	}
	if len(notes) > 0 {
		found = append(found, Finding{"", "the rights in the database are not those of schema.sql",
			notes[:min(len(notes), maxRows)]})
	}
	return found, err
}
