package lab

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// judgedRun is a run of which a test plays the program.
type judgedRun struct{ *run }

// OpenJudged opens a namespace with the tables of a run, whose buyers have the numbers 1 to n.
func OpenJudged(ctx context.Context, s Stores, stock, n int) (judgedRun, error) {
	r := &run{stores: s, Plan: Plan{Stock: stock, Buyers: n}, buyers: map[int64]int64{}}
	for user := range int64(n) {
		r.buyers[user+1] = user + 1
	}
	var err error
	r.Namespace, err = OpenNamespace(ctx, s, Tables)
	return judgedRun{r}, err
}

// Look opens the eye of the judge. The caller closes it.
func (j judgedRun) Look(ctx context.Context) (eye *pgx.Conn, err error) {
	j.eye, err = OpenEye(ctx, j.stores.DatabaseURL)
	return j.eye, err
}

func (j judgedRun) ProgramRole() string { return j.role }

func (j judgedRun) EndSale(ctx context.Context) error { return j.noteEnd(ctx) }

func (j judgedRun) LateSales(ctx context.Context) (int, error) { return j.soldLate(ctx) }

func (j judgedRun) Count(ctx context.Context) (owners []int64, tampered bool, err error) {
	return j.witnessed(ctx)
}
