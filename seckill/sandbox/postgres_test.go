package sandbox

import "testing"

// A port that was returned is not returned again while its server is being started.
func TestFreePortReturnsEachPortOnce(t *testing.T) {
	returned := make(map[int]bool)
	for range 1000 {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		if returned[port] {
			t.Fatalf("port %d is returned twice", port)
		}
		returned[port] = true
	}
}
