package audit

import "time"

// Hurry makes Run begin at once and audit again after so long.
func (w *Watch) Hurry(every time.Duration) { w.first, w.every = 0, every }
