package lab

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// span is the range of a figure.
type span struct{ from, to float64 }

func is(n float64) span { return span{n, n} }

// lessons lists the findings that each experiment must have, with any seed.
var lessons = map[string][]struct {
	variant string
	right   bool
	figures map[string]span
}{
	"address": {
		{"fixed address", false, map[string]span{"tries": is(1000), "let_in": is(1000), "redis": is(1000), "bots": {25, 50}, "people": {0, 25}}},
		{"random address kept in Redis", true, map[string]span{"tries": is(1000), "let_in": is(0), "redis": is(1000), "bots": is(0), "people": is(50)}},
		{"signed address", true, map[string]span{"tries": is(1000), "let_in": is(0), "redis": is(0), "bots": is(0), "people": is(50)}},
		{"a sum may be tried again", false, map[string]span{"tries": {50, 850}, "let_in": is(50), "redis": {50, 850}}},
		{"a sum dies with its first answer", true, map[string]span{"tries": is(140), "let_in": is(0), "people": is(20)}},
	},
	"limits": {
		{"no limit", false, map[string]span{"asked": is(1200), "redis": is(1200), "bot": {30, 50}, "people": {0, 20}}},
		{"a bucket per user", true, map[string]span{"asked": is(1200), "redis": {200, 250}, "bot": {0, 24}, "people": {26, 50}}},
		{"an address for everybody", false, map[string]span{"asked": is(1000), "alive": is(1000), "bound": is(100), "waiting": is(0)}},
		{"the big gate", true, map[string]span{"asked": is(1000), "alive": is(100), "bound": is(100), "waiting": is(900)}},
		{"wait for a token", false, map[string]span{"asked": is(1500), "refused": is(0), "kept": {600, 1400}, "p99_ms": {600, 15_000}}},
		{"wait for no token", true, map[string]span{"asked": is(1500), "refused": {300, 1400}, "kept": is(0), "kb": is(0), "p99_ms": {0, 999}}},
		{"wait for a token, 100 ms at most", true, map[string]span{"asked": is(1500), "refused": {200, 1350}, "kept": {1, 300}, "p99_ms": {50, 999}}},
	},
	"late-payment": {
		{"select, then update", false, map[string]span{"orders": is(200), "both": {10, 200}, "units": {205, 600}, "put_back": {20, 400}, "back_twice": {5, 200}}},
		{"one conditional update", true, map[string]span{"orders": is(200), "both": is(0), "units": is(200), "put_back": {1, 199}, "back_twice": is(0)}},
	},
	"cache-consistency": {
		{"delete, then write", false, map[string]span{"reads": {100, 5000}, "stale": {40, 2500}, "longest_ms": {40, 20_000}, "stays_old": {10, 20}}},
		{"write, then delete", false, map[string]span{"reads": {100, 5000}, "stale": {5, 2500}, "longest_ms": {40, 20_000}, "stays_old": {3, 5}}},
		{"delete twice", false, map[string]span{"reads": {100, 5000}, "stale": {40, 2500}, "longest_ms": {40, 20_000}, "stays_old": {1, 4}}},
		{"short life", true, map[string]span{"reads": {100, 5000}, "stale": {40, 2500}, "longest_ms": {20, 20_000}, "stays_old": is(0)}},
	},
	"confirm": {
		{"no confirm", false, map[string]span{"messages": is(1000), "per_second": {1, 1e9}, "p99_ms": {0, 20_000}, "lost": {100, 600}, "twice": is(0)}},
		{"a transaction for each message", true, map[string]span{"messages": is(1000), "per_second": {1, 1e6}, "p99_ms": {0, 20_000}, "lost": is(0), "twice": is(1)}},
		{"a confirm for each message", true, map[string]span{"messages": is(1000), "per_second": {1, 1e6}, "p99_ms": {0, 20_000}, "lost": is(0), "twice": is(1)}},
		{"confirms in batches", true, map[string]span{"messages": is(1000), "per_second": {1, 1e6}, "p99_ms": {0, 20_000}, "lost": is(0), "twice": is(100)}},
		{"one journal entry for a batch", true, map[string]span{"messages": is(1000), "per_second": {1, 1e7}, "p99_ms": {0, 20_000}, "lost": is(0), "twice": is(100)}},
		{"ack, then work", false, map[string]span{"messages": is(100), "orders": is(89), "again": is(0), "dead": is(0), "lost": is(11)}},
		{"work, then ack", true, map[string]span{"messages": is(100), "orders": is(99), "again": is(13), "dead": is(1), "lost": is(0)}},
	},
	"cache": {
		{"unknown ids, misses not remembered", false, map[string]span{"reads": is(1000), "sql": {500, 1000}}},
		{"unknown ids, misses remembered", true, map[string]span{"reads": is(1000), "sql": is(100)}},
		{"hot id expires, everybody reads", false, map[string]span{"reads": is(500), "sql": {50, 500}, "at_once": {50, 500}}},
		{"hot id expires, single flight", true, map[string]span{"reads": is(500), "sql": is(1), "at_once": is(1)}},
		{"500 ids expire at once", false, map[string]span{"sql": is(500), "at_once": {250, 500}}},
		{"500 ids expire with jitter", true, map[string]span{"sql": is(500), "at_once": {1, 249}}},
	},
	"hot": {
		{"one queue without a bound", false, map[string]span{"cold": is(100), "cold_refused": is(0), "behind": {50, 150}, "cold_p99_ms": {1, 20_000}}},
		{"one queue with a bound", false, map[string]span{"cold": is(100), "cold_refused": {10, 100}, "hot_p99_ms": {1, 20_000}}},
		{"a lane for each item", true, map[string]span{"cold": is(100), "cold_refused": is(0), "behind": {0, 10}, "hot_per_s": {1, 1e4}}},
	},
}

func TestExperimentsShowTheirLesson(t *testing.T) {
	if names := slices.Sorted(slices.Values(Experiments())); !slices.Equal(names, slices.Sorted(maps.Keys(lessons))) {
		t.Fatalf("experiments %v", names)
	}
	for _, name := range Experiments() {
		for _, seed := range []uint64{1, 20261111} {
			t.Run(fmt.Sprint(name, "/", seed), func(t *testing.T) {
				s := stores(t)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // the limit in web
				defer cancel()
				got, err := RunExperiment(ctx, s, name, seed, func(ExperimentProgress) {})
				if err != nil {
					t.Fatal(err)
				}
				if got.Experiment != name || len(got.Rows) != len(lessons[name]) {
					t.Fatalf("%+v", got)
				}
				for i, want := range lessons[name] {
					row := got.Rows[i]
					if row.Variant != want.variant || row.Right != want.right {
						t.Errorf("%q is right: %t, want %q %t", row.Variant, row.Right, want.variant, want.right)
					}
					for figure, span := range want.figures {
						n, ok := row.Figures[figure]
						if !ok {
							t.Errorf("%s: no figure %s (%v)", row.Variant, figure, row.Figures)
						}
						if n < span.from || n > span.to {
							t.Errorf("%s: %s %v, want %v to %v (%v)", row.Variant, figure, n, span.from, span.to, row.Figures)
						}
					}
				}
				nothingIsLeft(t, s)
			})
		}
	}
}

// The page has a text in both languages for every variant and figure.
func TestFindingsHaveTheirTexts(t *testing.T) {
	t.Parallel()
	for _, lang := range []string{"en", "zh"} {
		words, err := os.ReadFile("../../web/static/lab/words/" + lang + ".js")
		if err != nil {
			t.Fatal(err)
		}
		for name, rows := range lessons {
			for _, row := range rows {
				trials, err := os.ReadFile("../../web/static/lab/words/trials_" + lang + ".js")
				if err != nil || !strings.Contains(string(trials), "\n  'experiment.says."+row.variant+"': '") {
					t.Errorf("%s: words/trials_%s.js does not say what %q does, %v", name, lang, row.variant, err)
				}
				for _, key := range append(slices.Collect(maps.Keys(row.figures)), row.variant) {
					if !strings.Contains(string(words), "\n  'experiment."+key+"': '") && !strings.Contains(string(words), "\n  'figure."+key+"': '") {
						t.Errorf("%s: words/%s.js has no text for %q", name, lang, key)
					}
				}
			}
		}
	}
}

// nothingIsLeft checks that the stores are empty, except for captchas, which expire.
func nothingIsLeft(t *testing.T, s Stores) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), s.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	var schemas, sales, orders int
	if err := db.QueryRow(t.Context(), `
		select (select count(*) from pg_namespace where nspname like 'lab%'), (select count(*) from public.sales), (select count(*) from public.orders)`).
		Scan(&schemas, &sales, &orders); err != nil || schemas+sales+orders != 0 {
		t.Errorf("%d schemas, %d sales, %d orders are left, %v", schemas, sales, orders, err)
	}
	keys, err := s.Redis.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if !strings.Contains(key, ":captcha:") {
			t.Errorf("%s is left", key)
		}
		if life := s.Redis.TTL(t.Context(), key).Val(); life <= 0 || life > time.Minute {
			t.Errorf("%s lives for %v", key, life)
		}
	}
}

// An experiment that is stopped in the middle leaves nothing either, and returns an error.
func TestExperimentsStop(t *testing.T) {
	for _, name := range Experiments() {
		t.Run(name, func(t *testing.T) {
			s := stores(t)
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
			defer cancel()
			if got, err := RunExperiment(ctx, s, name, 1, func(ExperimentProgress) {}); err == nil || got.Rows != nil {
				t.Errorf("%+v, %v", got, err)
			}
			nothingIsLeft(t, s)
		})
	}
	if _, err := RunExperiment(t.Context(), Stores{}, "none", 1, nil); err == nil {
		t.Error("there is an experiment none")
	}
}
