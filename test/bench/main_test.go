// Package bench measures the manager against the least that the same work costs a plain client. `make bench` runs it.
//
// The manager runs as a process of its own, with the flags of config/manager, on an API server and an etcd that have nothing
// else to do. What a floor or the manager is measured on is new each time, so that nobody pays for what others left; the three
// take turns, so that what slows the machine down slows all of them down. Machines differ, and from minute to minute: only
// the ratios of one round mean something elsewhere.
package bench

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"huolala.cn/app-operator/test/harness"
)

var (
	// program is the manager's, built for this run.
	program string
	// sizes are the numbers of Apps that are measured, from BENCH_SIZES.
	sizes = []int{100, 1000, 5000, 10000}
	// rounds is how often each is measured, from BENCH_ROUNDS.
	rounds = 3
	// found is what was measured.
	found report
	began = time.Now()
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctrl.SetLogger(logr.Discard())
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		return m.Run() // "go test ./..." measures nothing, and needs no API server for it.
	}
	scratch, err := os.MkdirTemp("", "bench-")
	if err == nil {
		defer func() { _ = os.RemoveAll(scratch) }()
		err = prepare(scratch)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	found = report{
		Date: began.UTC().Format(time.DateOnly), Cores: runtime.NumCPU(), Memory: memory(), Go: runtime.Version(), Rounds: rounds,
	}
	if os.Getenv("BENCH_ADD") != "" {
		if err := found.addReport(os.Getenv("BENCH_OUT")); err != nil {
			fmt.Fprintln(os.Stderr, "BENCH_ADD:", err)
			return 1
		}
	}
	code := m.Run()
	fmt.Fprint(os.Stdout, found.table())
	return code
}

// prepare reads the settings and builds the program, with its files in scratch.
func prepare(scratch string) (err error) {
	if given := os.Getenv("BENCH_ROUNDS"); given != "" {
		if rounds, err = strconv.Atoi(given); err != nil {
			return fmt.Errorf("BENCH_ROUNDS: %w", err)
		}
	}
	if given := strings.Fields(os.Getenv("BENCH_SIZES")); len(given) > 0 {
		sizes = make([]int, len(given))
		for i, n := range given {
			if sizes[i], err = strconv.Atoi(n); err != nil {
				return fmt.Errorf("BENCH_SIZES: %w", err)
			}
		}
	}
	program, err = harness.BuildManager(scratch)
	return err
}

// progress tells how far the run is.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%7s  %s\n", time.Since(began).Round(time.Second), fmt.Sprintf(format, args...))
}
