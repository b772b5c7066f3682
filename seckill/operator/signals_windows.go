package operator

import "os"

// QuietSignals is empty: Windows has none of them.
var QuietSignals []os.Signal
