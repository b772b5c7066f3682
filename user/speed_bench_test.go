package user

import (
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
)

// BenchmarkSession is whose token it is: by the copy in this process, and without one, which is a round trip.
func BenchmarkSession(b *testing.B) {
	for name, forget := range map[string]bool{"kept": false, "read": true} {
		b.Run(name, func(b *testing.B) {
			s, _ := newSessions(b, sandboxtest.RedisURL(b))
			token := logIn(b, s, buyer)
			b.ReportAllocs()
			for b.Loop() {
				if forget {
					s.copies.kept.Invalidate(hashed(token))
				}
				if who, err := s.Get(b.Context(), token); err != nil || who.UserID != buyer.ID {
					b.Fatal(who, err)
				}
			}
		})
	}
}
