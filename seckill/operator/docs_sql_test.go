package operator

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"miaosha/seckill/sandbox/sandboxtest"
)

var (
	sqlParameter = regexp.MustCompile(`\$[0-9]`)
	byZero       = regexp.MustCompile(`\$[0-9]+ *(=|<>|>|<|,) *0\b`)
)

// sqlOf returns the texts with parameters in a Go file that look like SQL. A text that is made of several is joined where all its parts
// are literals, and otherwise has the word true in place of a part that is not, which is mostly a condition.
func sqlOf(source string) (all []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, 0)
	if err != nil {
		return nil, err
	}
	var text func(ast.Expr) string
	text = func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.BasicLit:
			if s, err := strconv.Unquote(e.Value); err == nil {
				return s
			}
		case *ast.BinaryExpr:
			if e.Op == token.ADD {
				return text(e.X) + text(e.Y)
			}
		}
		return " true "
	}
	ast.Inspect(file, func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		switch e.(type) {
		case *ast.BasicLit, *ast.BinaryExpr:
			if s := text(e); sqlParameter.MatchString(s) {
				all = append(all, s)
			}
			return false
		}
		return true
	})
	return all, nil
}

// An id that Postgres reads as four bytes is refused by the driver from 2147483648 on, as an internal error: "$1 = 0 or id = $1" is one,
// since the first use decides. A statement that means four bytes says so by a cast.
func TestNoStatementReadsAnIDAsFourBytes(t *testing.T) {
	t.Parallel()
	conn, err := sandboxtest.DB(t).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	prepared, parts := 0, 0
	for at, source := range readRepository(t).sources {
		if !strings.HasSuffix(at, ".go") || strings.HasSuffix(at, "_test.go") || strings.HasPrefix(at, "seckill/lab/") {
			continue
		}
		statements, err := sqlOf(source)
		if err != nil {
			t.Fatal(err)
		}
		for _, sql := range statements {
			known, err := conn.Conn().Prepare(t.Context(), "", sql)
			if err != nil {
				if byZero.MatchString(sql) {
					t.Errorf("%s: a part of a statement that compares a parameter with 0, and gives it no type\n%s", at, sql)
				}
				parts++
				continue
			}
			prepared++
			for i, kind := range known.ParamOIDs {
				cast := regexp.MustCompile(`\$` + strconv.Itoa(i+1) + `::(integer|smallint)`)
				if (kind == pgtype.Int4OID || kind == pgtype.Int2OID) && !cast.MatchString(sql) {
					t.Errorf("%s: $%d has four bytes\n%s", at, i+1, sql)
				}
			}
		}
	}
	if prepared < 100 || parts > 30 {
		t.Errorf("%d statements and %d parts of statements were read", prepared, parts)
	}
}
