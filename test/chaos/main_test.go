// Package chaos lets everything fail around the manager while it has much to do: the manager itself, its rivals, its
// neighbours, the API server and the network before it. Nothing of that may be seen in what comes out. `make chaos` runs it
// with the numbers that count, CHAOS=full; else it is a short form of the same.
package chaos

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"huolala.cn/app-operator/test/harness"
)

var (
	// plane is the whole control plane that all tests share but those that stop its servers.
	plane *harness.Plane
	// program is the manager's, built for these tests.
	program string
	// seed is what all chance comes from.
	seed uint64
	// full is true for the numbers that count.
	full = os.Getenv("CHAOS") == "full"
)

// of returns one of two numbers: that of the short form, or that of the full one.
func of(short, long int) int {
	if full {
		return long
	}
	return short
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	ctrl.SetLogger(logr.Discard())
	scratch, err := os.MkdirTemp("", "chaos-")
	if err == nil {
		defer func() { _ = os.RemoveAll(scratch) }()
		err = prepare(scratch)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := plane.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the control plane:", err)
			code = 1
		}
	}()
	code = m.Run()
	fmt.Fprintf(os.Stdout, "CHAOS_SEED=%d\n%s", seed, &results)
	return code
}

// prepare builds the program, with its files in scratch, and starts the control plane.
func prepare(scratch string) (err error) {
	// In the short form they mostly wait, so the number of processors says nothing; with the full numbers, they work.
	if err := flag.Set("test.parallel", strconv.Itoa(of(10, 3))); err != nil {
		return err
	}
	seed = rand.Uint64()
	if given := os.Getenv("CHAOS_SEED"); given != "" {
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			return fmt.Errorf("CHAOS_SEED: %w", err)
		}
	}
	if program, err = harness.BuildManager(scratch); err != nil {
		return err
	}
	plane, err = harness.StartCluster("chaos", 6)
	return err
}

// chance returns a source of chance for one use.
func chance(use uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, use)) }

// results is the table of what was tried.
var results table

// table has a row for each fault.
type table struct {
	mu   sync.Mutex
	rows []row
}

type row struct {
	fault string
	runs  int
	note  string
	took  []time.Duration
}

// add notes that a fault was survived: how often it was made, and how long each recovery took. By a test that has failed, none
// was.
func (r *table) add(t testing.TB, fault string, runs int, took []time.Duration, note string, args ...any) {
	t.Helper()
	if t.Failed() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(took)
	r.rows = append(r.rows, row{fault: fault, runs: runs, took: took, note: fmt.Sprintf(note, args...)})
}

// String is the table, of those faults by which nothing was lost: a test that finds a loss fails before its row.
func (r *table) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.rows, func(a, b row) int { return strings.Compare(a.fault, b.fault) })
	var text strings.Builder
	fmt.Fprintln(&text, "| fault | runs | lost | recovery, p50 / max | |\n|---|---|---|---|---|")
	for _, row := range r.rows {
		recovery := "–"
		if n := len(row.took); n > 0 {
			recovery = fmt.Sprintf("%s / %s", row.took[n/2].Round(10*time.Millisecond), row.took[n-1].Round(10*time.Millisecond))
		}
		fmt.Fprintf(&text, "| %s | %d | nothing | %s | %s |\n", row.fault, row.runs, recovery, row.note)
	}
	return text.String()
}
