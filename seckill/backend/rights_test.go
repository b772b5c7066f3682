package backend

import (
	"context"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/seckill/sandbox/sandboxtest"
)

var documentedGrant = regexp.MustCompile(`(?m)^grant (.*) to shop;$`)

// What the start looks for is what the document grants.
func TestTheRightsAreTheDocumentedOnes(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../deploy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, m := range documentedGrant.FindAllStringSubmatch(string(readme), -1) {
		if m[1] != "usage on schema public" { // without it the schema itself is not found
			documented = append(documented, m[1])
		}
	}
	if got := strings.Join(documented, "\n"); got != strings.TrimSpace(grants) {
		t.Errorf("deploy/README.md grants\n%s\nand the start looks for%s", got, grants)
	}
}

// The first right that the role lacks is named, with the statement that grants it.
func TestAMissingRightIsNamed(t *testing.T) {
	at := sandboxtest.DatabaseURL(t)
	owner, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close(context.Background())
	do := func(sql string) {
		t.Helper()
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	do(`create role "a clerk" login password 'clerk'`)
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), at)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		for _, sql := range []string{`drop owned by "a clerk"`, `drop role "a clerk"`} {
			if _, err := conn.Exec(context.Background(), sql); err != nil {
				t.Error(err)
			}
		}
	})
	do("revoke execute on all functions in schema public from public")
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("a clerk", "clerk")
	db, err := pgxpool.New(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// From no right at all, what each error says is done, until nothing is missing.
	statement := regexp.MustCompile(`run "(grant [^"]* to "a clerk")" as the owner`)
	lines := strings.Split(strings.TrimSpace(grants), "\n")
	for _, line := range lines {
		err := checkRights(t.Context(), db)
		if err == nil {
			t.Fatalf("nothing is missing before %q", line)
		}
		m := statement.FindStringSubmatch(err.Error())
		if m == nil || m[1] != "grant "+line+` to "a clerk"` {
			t.Fatalf("%v, want the statement of %q", err, line)
		}
		do(m[1])
	}
	if err := checkRights(t.Context(), db); err != nil {
		t.Fatalf("with all rights: %v", err)
	}
	// A single one that is taken away is found.
	for _, line := range lines {
		what, on, _ := strings.Cut(line, " on ")
		for _, p := range privilege.FindAllStringSubmatch(what, -1) {
			right := p[1]
			if columns := strings.Split(p[2], ", "); p[2] != "" {
				right += " (" + columns[len(columns)-1] + ")"
			}
			do(`revoke ` + right + ` on ` + on + ` from "a clerk"`)
			if err := checkRights(t.Context(), db); err == nil || !strings.Contains(err.Error(), `lacks `+p[1]+` on `) {
				t.Errorf("without %s on %s: %v", right, on, err)
			}
			do(`grant ` + right + ` on ` + on + ` to "a clerk"`)
		}
	}
}
