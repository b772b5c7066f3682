package experiments

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/labtest"
	"miaosha/seckill/sandbox/sandboxtest"
)

// span is the range of a figure.
type span struct{ from, to float64 }

func is(n float64) span { return span{n, n} }

// lessons lists the findings that each experiment must have, with any seed.
var lessons = map[string][]struct {
	variant string
	verdict string
	figures map[string]span
}{
	"address": {
		{"fixed address", Wrong, map[string]span{"tries": is(1000), "let_in": is(1000), "redis": is(1000), "bots": {25, 50}, "people": {0, 25}}},
		{"random address kept in Redis", Right, map[string]span{"tries": is(1000), "let_in": is(0), "redis": is(1000), "bots": is(0), "people": is(50)}},
		{"signed address", Right, map[string]span{"tries": is(1000), "let_in": is(0), "redis": is(0), "bots": is(0), "people": is(50)}},
		{"a sum may be tried again", Wrong, map[string]span{"tries": {50, 850}, "let_in": is(50), "redis": {50, 850}}},
		{"a sum dies with its first answer", Right, map[string]span{"tries": is(140), "let_in": is(0), "people": is(20)}},
	},
	"limits": {
		{"no limit", lab.Unfair, map[string]span{"asked": is(1200), "redis": is(1200), "bot": {30, 50}, "people": {0, 20}}},
		{"a bucket per user", Right, map[string]span{"asked": is(1200), "redis": {200, 250}, "bot": {0, 24}, "people": {26, 50}}},
		{"an address for everybody", Unbounded, map[string]span{"asked": is(1000), "alive": is(1000), "bound": is(100), "waiting": is(0)}},
		{"the big gate", Right, map[string]span{"asked": is(1000), "alive": is(100), "bound": is(100), "waiting": is(900)}},
		{"wait for a token", Unbounded, map[string]span{"asked": is(1500), "refused": is(0), "kept": {600, 1400}, "p99_ms": {600, 15_000}}},
		{"wait for no token", Right, map[string]span{"asked": is(1500), "refused": {300, 1400}, "kept": is(0), "kb": is(0), "p99_ms": {0, 999}}},
		{"wait for a token, 100 ms at most", Right, map[string]span{"asked": is(1500), "refused": {200, 1350}, "kept": {1, 300}, "p99_ms": {50, 999}}},
	},
	"late-payment": {
		{"select, then update", Wrong, map[string]span{"orders": is(200), "both": {10, 200}, "units": {205, 600}, "put_back": {20, 400}, "back_twice": {5, 200}}},
		{"one conditional update", Right, map[string]span{"orders": is(200), "both": is(0), "units": is(200), "put_back": {1, 199}, "back_twice": is(0)}},
	},
	"cache-consistency": {
		{"delete, then write", Wrong, map[string]span{"reads": {100, 5000}, "stale": {40, 2500}, "longest_ms": {40, 20_000}, "stays_old": {10, 20}}},
		{"write, then delete", Wrong, map[string]span{"reads": {100, 5000}, "stale": {5, 2500}, "longest_ms": {40, 20_000}, "stays_old": {3, 5}}},
		{"delete twice", Wrong, map[string]span{"reads": {100, 5000}, "stale": {40, 2500}, "longest_ms": {40, 20_000}, "stays_old": {1, 4}}},
		{"short life", Right, map[string]span{"reads": {100, 5000}, "stale": {40, 2500}, "longest_ms": {20, 20_000}, "stays_old": is(0)}},
	},
	"confirm": {
		{"no confirm", Wrong, map[string]span{"messages": is(1000), "per_second": {1, 1e9}, "p99_ms": {0, 20_000}, "lost": {100, 600}, "twice": is(0)}},
		{"a transaction for each message", Right, map[string]span{"messages": is(1000), "per_second": {1, 1e6}, "p99_ms": {0, 20_000}, "lost": is(0), "twice": is(1)}},
		{"a confirm for each message", Right, map[string]span{"messages": is(1000), "per_second": {1, 1e6}, "p99_ms": {0, 20_000}, "lost": is(0), "twice": is(1)}},
		{"confirms in batches", Right, map[string]span{"messages": is(1000), "per_second": {1, 1e6}, "p99_ms": {0, 20_000}, "lost": is(0), "twice": is(100)}},
		{"one journal entry for a batch", Right, map[string]span{"messages": is(1000), "per_second": {1, 1e7}, "p99_ms": {0, 20_000}, "lost": is(0), "twice": is(100)}},
		{"ack, then work", Wrong, map[string]span{"messages": is(100), "orders": is(89), "again": is(0), "dead": is(0), "lost": is(11)}},
		{"work, then ack", Right, map[string]span{"messages": is(100), "orders": is(99), "again": is(13), "dead": is(1), "lost": is(0)}},
	},
	"cache": {
		{"unknown ids, misses not remembered", Unbounded, map[string]span{"reads": is(1000), "sql": {500, 1000}}},
		{"unknown ids, misses remembered", Right, map[string]span{"reads": is(1000), "sql": is(100)}},
		{"hot id expires, everybody reads", Unbounded, map[string]span{"reads": is(500), "sql": {50, 500}, "at_once": {50, 500}}},
		{"hot id expires, single flight", Right, map[string]span{"reads": is(500), "sql": is(1), "at_once": is(1)}},
		{"500 ids expire at once", Slow, map[string]span{"sql": is(500), "at_once": {250, 500}}},
		{"500 ids expire with jitter", Right, map[string]span{"sql": is(500), "at_once": {1, 249}}},
		{"a read from the memory of the process", Right, map[string]span{"reads": is(200), "read_us": {0, 100}}},
		{"a read from Redis", Right, map[string]span{"reads": is(200), "read_us": {1, 1e5}}},
		{"a read from Postgres by its key", Right, map[string]span{"reads": is(200), "read_us": {1, 1e5}}},
	},
	"hot": {
		{"one queue without a bound", Slow, map[string]span{"cold": is(100), "cold_refused": is(0), "behind": {50, 150}, "cold_p99_ms": {1, 20_000}}},
		{"one queue with a bound", Wrong, map[string]span{"cold": is(100), "cold_refused": {10, 100}, "hot_p99_ms": {1, 20_000}}},
		{"a lane for each item", Right, map[string]span{"cold": is(100), "cold_refused": is(0), "behind": {0, 10}, "hot_per_s": {1, 1e4}}},
	},
	"load": {
		{"closed loop", Wrong, map[string]span{"asked": {30, 750}, "p99_ms": {0, 150}, "longest_ms": {290, 5000}, "p50_ms": {0, 150}}},
		{"the same run, with the clicks that it left out", Right, map[string]span{"late": {80, 900}, "p99_ms": {150, 5000}, "longest_ms": {290, 5000}}},
		{"open loop", Right, map[string]span{"asked": is(750), "late": {80, 750}, "p99_ms": {150, 5000}, "longest_ms": {250, 5000}}},
	},
	"batch-size": {
		{"1 order in a transaction", Right, map[string]span{"orders": {1, 1e5}, "per_second": {1, 1e5}, "turns": {1, 1e5}, "p99_ms": {0, 5000}}},
		{"8 orders in a transaction", Right, map[string]span{"orders": {8, 1e6}, "per_second": {1, 1e6}}},
		{"64 orders in a transaction", Right, map[string]span{"orders": {64, 1e7}, "per_second": {1, 1e7}}},
		{"512 orders in a transaction", Right, map[string]span{"orders": {512, 1e7}, "per_second": {1, 1e7}}},
	},
	"retries": {
		{"retry at once, without a bound", Slow, map[string]span{"asked": is(250), "tries": {700, 1e5}, "wasted": {100, 1e5}, "end_good": {0, 40}}},
		{"backoff and jitter, five tries", Slow, map[string]span{"asked": is(250), "tries": {400, 1250}, "end_good": {0, 49}}},
		{"backoff, jitter and a retry budget", Right, map[string]span{"asked": is(250), "tries": {250, 275}, "good": {40, 250}, "end_good": {50, 100}}},
	},
	"little": {
		{"200 clicks a second, 20 ms each", Right, map[string]span{"conns": is(26), "per_second": {20, 400}, "stay_ms": {20, 40}, "law": {0.5, 20}, "inside": {0.5, 20}}},
		{"400 clicks a second, 20 ms each", Right, map[string]span{"conns": is(26), "stay_ms": {20, 40}, "inside": {1, 40}}},
		{"400 clicks a second, 40 ms each", Right, map[string]span{"conns": is(26), "stay_ms": {40, 80}, "inside": {2, 60}}},
		{"the same with 8 connections", Slow, map[string]span{"conns": is(8), "per_second": {20, 220}, "stay_ms": {80, 5000}, "inside": {9, 200}}},
	},
	"fair": {
		{"first come, first served", lab.Unfair, map[string]span{"entries": is(450), "bots": {23, 50}, "slow": {0, 50}}},
		{"a lot", Right, map[string]span{"entries": is(450), "bots": {0, 22}, "fast": {20, 80}, "slow": {20, 80}}},
		{"a lot, and each bot has ten accounts", lab.Unfair, map[string]span{"entries": is(900), "bots": {30, 80}}},
		{"the same, one entry for each phone", Right, map[string]span{"entries": is(900), "bots": {0, 22}}},
	},
	"hold": {
		{"look up with the row locked", Slow, map[string]span{"per_second": {1, 51}, "held_ms": {20, 5000}, "p99_ms": {20, 20_000}}},
		{"look up in the transaction, before the write", Slow, map[string]span{"per_second": {1, 210}, "held_ms": {20, 5000}}},
		{"look up before the transaction", Right, map[string]span{"per_second": {20, 2000}, "held_ms": {0, 20}, "wait_ms": {0, 1000}}},
	},
	"failover": {
		{"asynchronous standby", Wrong, map[string]span{"told": {201, 400}, "lost": {1, 104}, "beyond": {1, 104}, "p99_ms": {0, 5000}}},
		{"synchronous for 20 ms, then alone", Wrong, map[string]span{"told": {201, 400}, "lost": {20, 60}, "beyond": {20, 60}}},
		{"synchronous standby", Right, map[string]span{"told": {100, 200}, "lost": is(0), "beyond": is(0), "p99_ms": {10, 5000}}},
	},
	"backup": {
		{"no other transaction", Right, map[string]span{"orders": {20, 1e5}, "first_s": {1, 1e5}, "last_s": {1, 1e5}, "pages": {1, 12}, "table_kb": {8, 500}}},
		{"beside a backup (pg_dump)", Slow, map[string]span{"orders": {20, 1e5}, "pages": {13, 1e5}}},
		{"after the backup, and a vacuum", Right, map[string]span{"orders": {20, 1e5}, "pages": {1, 12}}},
	},
}

// Each experiment has its variants, the verdicts that no machine changes (make latency checks those of the paced
// variants), and the figures that are the same with any order of events.
func TestExperimentsShowTheirLessons(t *testing.T) {
	t.Parallel()
	if names := slices.Sorted(slices.Values(Names())); !slices.Equal(names, slices.Sorted(maps.Keys(lessons))) {
		t.Fatalf("experiments %v", names)
	}
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := labtest.Stores(t)
			got, err := Run(t.Context(), s, name, 1, func(Progress) {})
			if err != nil || got.Experiment != name || len(got.Rows) != len(lessons[name]) {
				t.Fatalf("%+v, %v", got, err)
			}
			for i, want := range lessons[name] {
				row := got.Rows[i]
				if row.Variant != want.variant {
					t.Errorf("%q comes in place of %q", row.Variant, want.variant)
				}
				tooFew := name == "backup" && row.Verdict == Busy && row.Figures["orders"] < backupLeast // a slow machine sells no more
				if (!row.paced || row.sure) && !tooFew && row.Verdict != want.verdict {
					t.Errorf("%q is %s (%v)", row.Variant, row.Verdict, row.Figures)
				}
				for figure, span := range want.figures {
					if n, ok := row.Figures[figure]; !ok || span.from == span.to && n != span.from {
						t.Errorf("%s: %s %v, want %v (%v)", row.Variant, figure, n, span, row.Figures)
					}
				}
				if row.Span != nil && (row.Span.From >= row.Span.To || !strings.Contains(pageTexts(t, "zh"), "\n  'figure."+row.Span.Name+"': '")) {
					t.Errorf("%s: the time %+v", row.Variant, *row.Span)
				}
				for _, series := range row.Series {
					if len(series.Points) < 5 || !strings.Contains(pageTexts(t, "zh"), "\n  'figure."+series.Name+"': '") {
						t.Errorf("%s: no text for %q, or too little to draw: %v", row.Variant, series.Name, series.Points)
					}
				}
			}
			labtest.NothingIsLeft(t, s)
		})
	}
}

// In virtual time a crowd at a bucket is the same each time.
func TestWaitsAtABucket(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		wait                 time.Duration
		verdict              string
		refused, kept, p99ms span
	}{
		"any time":       {time.Hour, Unbounded, is(0), span{1200, 1400}, span{1200, 1400}},
		"no time":        {0, Right, span{1300, 1400}, is(0), is(0)},
		"100 ms at most": {bucketBound, Right, span{1150, 1350}, span{90, 110}, span{90, 101}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				row, err := crowdAtBucket(t.Context(), 1, test.wait)
				if err != nil || row.Verdict != test.verdict {
					t.Errorf("%+v, %v", row, err)
				}
				for figure, span := range map[string]span{"refused": test.refused, "kept": test.kept, "p99_ms": test.p99ms} {
					if n := row.Figures[figure]; n < span.from || n > span.to {
						t.Errorf("%s: %v, want %v", figure, n, span)
					}
				}
			})
		})
	}
}

// The page has a text in both languages for every variant and figure.
func TestFindingsHaveTheirTexts(t *testing.T) {
	t.Parallel()
	for _, lang := range []string{"en", "zh"} {
		words := pageTexts(t, lang)
		for name, rows := range lessons {
			for _, row := range rows {
				if !strings.Contains(words, "\n  'experiment.says."+row.variant+"': '") {
					t.Errorf("%s: no text in %s says what %q does", name, lang, row.variant)
				}
				for _, key := range append(slices.Collect(maps.Keys(row.figures)), row.variant, row.verdict, Busy) {
					if !strings.Contains(words, "\n  'experiment."+key+"': '") && !strings.Contains(words, "\n  'figure."+key+"': '") {
						t.Errorf("%s: no text in %s for %q", name, lang, key)
					}
				}
			}
		}
	}
}

// pageTexts returns the texts of the lab's page about its experiments.
func pageTexts(t *testing.T, lang string) (texts string) {
	t.Helper()
	for _, file := range []string{"", "trials_", "load_"} {
		text, err := os.ReadFile("../../../web/static/lab/words/" + file + lang + ".js")
		if err != nil {
			t.Error(err)
		}
		texts += string(text)
	}
	return texts
}

// An experiment that is stopped in the middle leaves nothing either, and returns an error.
func TestExperimentsStop(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := labtest.Stores(t)
			db, err := pgx.Connect(t.Context(), s.DatabaseURL)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close(context.Background())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				if got, err := Run(ctx, s, name, 1, func(Progress) {}); err == nil || got.Rows != nil {
					t.Errorf("%+v, %v", got, err)
				}
			}()
			sandboxtest.Until(t, "the experiment has its tables", func() bool { return labtest.LabSchemas(t, db) > 0 })
			cancel()
			<-ended
			labtest.NothingIsLeft(t, s)
		})
	}
	if _, err := Run(t.Context(), lab.Stores{}, "none", 1, nil); err == nil {
		t.Error("there is an experiment none")
	}
}
