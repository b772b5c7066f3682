//go:build ignore

// A shop in one file: the lab sends it a crowd and counts what it sold. Inside this repository
//
//	go build -o /tmp/shop seckill/lab/starters/go/shop.go
//	miaosha lab --mine /tmp/shop --processes 2
//
// and elsewhere after `go mod init shop && go get github.com/jackc/pgx/v5`.
//
// It oversells. Your work is buy, below. 本文件是一个店铺，实验室派一群买家来抢，再数它卖出了什么。它会超卖，要改的是 buy。
package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	db         *pgxpool.Pool
	errSoldOut = errors.New("sold out")
	inTx       = pgx.BeginFunc // inTx(ctx, db, func(tx pgx.Tx) error { ... }) commits if the function returns nil
)

// ---- your way to sell: from here ----

// prepare runs once in each process when it starts, also in one that takes the place of a killed one.
func prepare(ctx context.Context) error { return nil }

// buy handles one click: it returns true if the buyer gets a unit. Many goroutines and processes run it at once. After
// an error the buyer gets no answer and clicks again.
func buy(ctx context.Context, user int64) (bool, error) {
	var stock int
	if err := db.QueryRow(ctx, `select stock from item`).Scan(&stock); err != nil {
		return false, err
	}
	if stock <= 0 {
		return false, nil
	}
	lookUpPrice() // meanwhile other buyers read the same stock
	// HERE is the mistake: the stock was read before, and is written as if no one had written it since.
	// 错在这里：库存是先前读的，写的时候却当作没有别人改过。
	if _, err := db.Exec(ctx, `update item set stock = $1`, stock-1); err != nil {
		return false, err
	}
	_, err := db.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
	return err == nil, err
}

// ---- your way to sell: to here ----

func lookUpPrice() { time.Sleep(time.Millisecond) }

func main() {
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	connections, err := strconv.Atoi(os.Getenv("DATABASE_CONNECTIONS"))
	if err != nil {
		log.Fatal(err)
	}
	config.MaxConns = int32(connections)
	if db, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		log.Fatal(err)
	}
	if err := prepare(ctx); err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("GET /ready", func(w http.ResponseWriter, r *http.Request) {})
	http.HandleFunc("POST /buy", func(w http.ResponseWriter, r *http.Request) {
		user, err := strconv.ParseInt(r.FormValue("user"), 10, 64)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		switch yes, err := buy(r.Context(), user); {
		case err != nil: // the buyer gets no answer and clicks again
			log.Print("user ", user, ": ", err)
			w.WriteHeader(http.StatusInternalServerError)
		case !yes:
			w.WriteHeader(http.StatusConflict)
		}
	})
	// Every click is answered after its work is done, so nothing is left to finish.
	http.HandleFunc("POST /end", func(w http.ResponseWriter, r *http.Request) {})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
}
