package harness

import (
	"flag"
	"strconv"
)

// Parallel has so many tests run at once, unless the command line says otherwise, and half of them with the race detector. Tests mostly wait
// for a manager or a controller to have nothing to do, so the number of processors says nothing. Call it before the flags are parsed.
func Parallel(tests int) error { return flag.Set("test.parallel", strconv.Itoa(tests/slowdown)) }
