package harness

import (
	"flag"
	"strconv"

	"huolala.cn/app-operator/test/fixture"
)

// Parallel has so many tests run at once, unless the command line says otherwise, and half of them with the race detector. Tests mostly wait
// for a manager or a controller to have nothing to do, so the number of processors says nothing. Call it before the flags are parsed.
func Parallel(tests int) error {
	if fixture.Race {
		tests /= 2
	}
	return flag.Set("test.parallel", strconv.Itoa(tests))
}
