//go:build faults && linux

package faults

// processes kills the shops from outside.
func processes() []scenario {
	return []scenario{
		{name: "both processes killed and started", crowd: usual,
			run: func(w *World, c *Crowd) {
				c.Sold(40)
				w.Strike("both killed", func() {
					for _, s := range w.Shops {
						s.Kill()
					}
					for n := range w.Shops {
						w.restart(n)
					}
				})
			}},
	}
}
