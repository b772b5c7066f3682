package lab

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// judgedRun is a run of which a test plays the program.
type judgedRun struct{ *run }

// openJudged opens a namespace with the tables of a run, whose buyers have the numbers 1 to n.
func openJudged(ctx context.Context, s Stores, stock, n int) (judgedRun, error) {
	r := &run{stores: s, plan: Plan{Stock: stock, Buyers: n}, buyers: map[int64]int64{}}
	for user := range int64(n) {
		r.buyers[user+1] = user + 1
	}
	var err error
	r.namespace, err = openNamespace(ctx, s, tables)
	return judgedRun{r}, err
}

// look opens the eye of the judge. The caller closes it.
func (j judgedRun) look(ctx context.Context) (eye *pgx.Conn, err error) {
	j.eye, err = openEye(ctx, j.stores.DatabaseURL)
	return j.eye, err
}

func (j judgedRun) programRole() string { return j.role }

func (j judgedRun) endSale(ctx context.Context) error { return j.noteEnd(ctx) }

func (j judgedRun) lateSales(ctx context.Context) (int, error) { return j.soldLate(ctx) }

func (j judgedRun) count(ctx context.Context) (owners []int64, tampered bool, err error) {
	return j.witnessed(ctx)
}
