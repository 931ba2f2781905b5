package controllers

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the transcripts of the stories to testdata")

// transcripts is the folder of the golden files, one for each world that a test creates.
const transcripts = "testdata/transcripts"

// transcript records a story that a test plays on a world: the requests of the operator with their bodies, the live reads, the
// events, the result of each reconcile, and what changed in the status and in the children. At the end of the test it is compared
// with the golden file of the test's name.
type transcript struct {
	mu   sync.Mutex
	text strings.Builder
	// start is the time of the clock at the start. Times are written as the distance from it.
	start time.Time
	// section is the heading of the last lines.
	section string
	// sent has the last applied body of each object, flat.
	sent map[string]map[string]string
	// state is the state of all objects as it was last written, flat, by kind. touched are the kinds that were written since.
	state   map[string]map[string]string
	touched map[string]bool
}

// recorded has the golden files of the stories that were played, for the search for stale ones.
var recorded = struct {
	sync.Mutex
	playing, played map[string]bool
}{playing: map[string]bool{}, played: map[string]bool{}}

// newTranscript returns the transcript of a test, which the end of the test compares with its golden file.
func newTranscript(t *testing.T, start time.Time) *transcript {
	t.Helper()
	path := transcriptPath(t.Name())
	recorded.Lock()
	defer recorded.Unlock()
	if recorded.playing[path] {
		t.Fatalf("%s is the transcript of another world: create each world in a subtest of its own, see forEach", path)
	}
	recorded.playing[path] = true
	s := &transcript{start: start, sent: map[string]map[string]string{}, state: map[string]map[string]string{}, touched: map[string]bool{}}
	t.Cleanup(func() {
		s.compare(t, path)
		recorded.Lock()
		defer recorded.Unlock()
		delete(recorded.playing, path)
	})
	return s
}

var notInPaths = regexp.MustCompile(`[^A-Za-z0-9/.-]+`)

// transcriptPath returns the golden file of a test.
func transcriptPath(test string) string {
	return filepath.Join(transcripts, strings.Trim(notInPaths.ReplaceAllString(test, "-"), "-")+".txt")
}

// compare compares the transcript with its golden file, or writes the file. A story in which nothing happens has none.
func (s *transcript) compare(t *testing.T, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.text.String()
	if got == "" {
		return
	}
	recorded.Lock()
	recorded.played[path] = true
	recorded.Unlock()
	if *update {
		if t.Failed() {
			return
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("the story has no transcript; -update writes it: %v", err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got); read the difference, and -update accepts it:\n%s", path, diff)
	}
}

// checkTranscripts returns the golden files that no story has written, or removes them on an update. It is for a run of all tests.
func checkTranscripts() (stale []string, err error) {
	err = filepath.WalkDir(transcripts, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || recorded.played[path] {
			return err
		}
		if *update {
			return os.Remove(path)
		}
		stale = append(stale, path)
		return nil
	})
	return stale, err
}

// runsAll reports whether the flags choose all tests.
func runsAll() bool {
	return !slices.ContainsFunc([]string{"test.run", "test.skip", "test.list"}, func(name string) bool {
		f := flag.Lookup(name)
		return f != nil && f.Value.String() != ""
	})
}

// forEach runs a subtest for each row of a table, in the order of the names.
func forEach[V any](t *testing.T, table map[string]V, run func(t *testing.T, name string, row V)) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(table)) {
		t.Run(name, func(t *testing.T) { run(t, name, table[name]) })
	}
}

// forNames runs a subtest for each name.
func forNames(t *testing.T, names []string, run func(t *testing.T, name string)) {
	t.Helper()
	for _, name := range names {
		t.Run(name, func(t *testing.T) { run(t, name) })
	}
}

// printf writes a line of a section, whose heading is written once.
func (s *transcript) printf(section, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.section != section {
		s.section = section
		fmt.Fprintf(&s.text, "# %s\n", section)
	}
	fmt.Fprintf(&s.text, format+"\n", args...)
}
