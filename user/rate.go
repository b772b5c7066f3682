package user

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Rate is a number of tries in a time. As text it is "5/s", "30/min", "10/hour" or "3/10min".
type Rate struct {
	N   float64
	Per time.Duration
}

// rateUnits are the words for a time in the text of a Rate.
var rateUnits = []struct {
	name string
	time time.Duration
}{{"s", time.Second}, {"min", time.Minute}, {"hour", time.Hour}}

// ParseRate parses the text of a Rate. Its error is for the person who wrote the text.
func ParseRate(text string) (Rate, error) {
	tries, per, _ := strings.Cut(text, "/")
	for _, unit := range rateUnits {
		times, found := strings.CutSuffix(per, unit.name)
		if !found {
			continue
		}
		if times == "" {
			times = "1"
		}
		n, err := strconv.ParseFloat(tries, 64)
		k, errOfTimes := strconv.Atoi(times)
		r := Rate{n, time.Duration(k) * unit.time}
		if errors.Join(err, errOfTimes) != nil || k < 1 || k > 100 || !(n > 0) || n > 1e9 ||
			r.Refill() > 100*time.Hour {
			// !(n > 0) refuses NaN, too
			break
		}
		return r, nil
	}
	return Rate{}, fmt.Errorf("%q is no rate such as 5/s, 30/min, 10/hour or 3/10min", text)
}

// Refill returns the time in which one token of a bucket with this rate comes back.
func (r Rate) Refill() time.Duration { return time.Duration(float64(r.Per) / r.N) }

// String returns the text that ParseRate parses.
func (r Rate) String() string {
	for i := len(rateUnits) - 1; i >= 0; i-- {
		if unit := rateUnits[i]; r.Per%unit.time == 0 {
			times := ""
			if k := r.Per / unit.time; k > 1 {
				times = strconv.Itoa(int(k))
			}
			return strconv.FormatFloat(r.N, 'f', -1, 64) + "/" + times + unit.name
		}
	}
	return fmt.Sprintf("%v/%v", r.N, r.Per)
}

// Limit is a token bucket as data: Burst tries at once, and one more each time that a token has come
// back. It refills evenly: with 10/min and a burst of 10, the 11th try in a row waits 6 s, not a minute.
// The zero Limit allows everything.
type Limit struct {
	Rate
	Burst int
}

// NewLimit returns the limit of a rate with the usual burst: what the rate allows in its time, or, since a
// second is short, in two seconds.
func NewLimit(r Rate) Limit {
	burst := r.N
	if r.Per == time.Second {
		burst *= 2
	}
	return Limit{r, max(1, int(math.Ceil(burst)))}
}

// MustLimit returns the limit of a rate that stands in the source. With a burst of 0 it has the usual one.
func MustLimit(text string, burst int) Limit {
	r, err := ParseRate(text)
	if err != nil {
		panic(err)
	}
	l := NewLimit(r)
	if burst > 0 {
		l.Burst = burst
	}
	return l
}
