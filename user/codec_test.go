package user

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestCodec(t *testing.T) {
	deadline := time.UnixMilli(1_800_000_000_123)
	for _, session := range []Session{{1, RoleBuyer}, {1<<63 - 1, RoleAdmin}, {2, RoleDue}} {
		record, err := codec{}.Encode(deadline, map[string]any{sessionValue: session})
		if err != nil {
			t.Fatal(err)
		}
		got, values, err := codec{}.Decode(record)
		if err != nil || !got.Equal(deadline) {
			t.Errorf("decoded deadline %v, %v; want %v", got, err, deadline)
		}
		if diff := cmp.Diff(map[string]any{sessionValue: session}, values); diff != "" {
			t.Error(diff)
		}
	}
	for _, values := range []map[string]any{
		nil, {}, {"user": 7}, {sessionValue: 7}, {sessionValue: &Session{1, RoleBuyer}},
		{sessionValue: Session{}}, {sessionValue: Session{1, ""}}, {sessionValue: Session{1, "king"}},
		{sessionValue: Session{-1, RoleBuyer}}, {sessionValue: Session{1, RoleBuyer}, "more": 1},
	} {
		if record, err := (codec{}).Encode(deadline, values); err == nil {
			t.Errorf("%v was encoded as %x", values, record)
		}
	}
}

func FuzzDecode(f *testing.F) {
	good, err := encodeRecord(time.UnixMilli(1_800_000_000_123), Session{7, RoleAdmin})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:17])
	f.Add(append(bytes.Clone(good), 0))
	f.Add(append([]byte{recordVersion + 1}, good[1:]...))
	f.Add(make([]byte, recordBytes))
	slowest := sandboxtest.Slowest(f)
	f.Fuzz(func(t *testing.T, record []byte) {
		defer slowest(record)()
		deadline, values, err := codec{}.Decode(record)
		if err != nil {
			return
		}
		// A record that can be decoded is a record that Encode would write.
		again, err := codec{}.Encode(deadline, values)
		if err != nil || !bytes.Equal(again, record) {
			t.Errorf("%x decodes to %v, %v and encodes to %x, %v", record, deadline, values, again, err)
		}
	})
}
