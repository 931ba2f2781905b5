package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// report is what was measured.
type report struct {
	Date     string    `json:"date"`
	Cores    int       `json:"cores"`
	Memory   string    `json:"memory"`
	Go       string    `json:"go"`
	Rounds   int       `json:"rounds"`
	Measures []*series `json:"measures"`
}

// series is one figure, with a value from each round.
type series struct {
	Name string `json:"name"`
	// Apps is how many there were.
	Apps int `json:"apps"`
	// Of is what was measured.
	Of     string    `json:"of"`
	Unit   string    `json:"unit,omitempty"`
	Values []float64 `json:"values"`
}

// find returns a series, nil if there is none.
func (r *report) find(name string, apps int, of string) *series {
	for _, s := range r.Measures {
		if s.Name == name && s.Apps == apps && s.Of == of {
			return s
		}
	}
	return nil
}

func (r *report) add(name string, apps int, of, unit string, value float64) {
	s := r.find(name, apps, of)
	if s == nil {
		s = &series{Name: name, Apps: apps, Of: of, Unit: unit}
		r.Measures = append(r.Measures, s)
	}
	s.Values = append(s.Values, value)
}

// divide notes the manager's last value as a multiple of a floor's.
func (r *report) divide(name string, apps int, floor string) {
	m, f := r.find(name, apps, manager).Values, r.find(name, apps, floor).Values
	r.add(name, apps, ratio(floor), "×", m[len(m)-1]/f[len(f)-1])
}

// ratio is what a multiple of a floor's is called.
func ratio(floor string) string { return manager + " ÷ " + floor }

// count notes requests, for each App.
func (r *report) count(what string, apps int, cost counts) {
	for name, n := range cost {
		r.add("requests for "+what, apps, name, "an App", float64(n)/float64(apps))
	}
}

// median of the rounds.
func (s *series) median() float64 {
	ordered := slices.Sorted(slices.Values(s.Values))
	middle := len(ordered) / 2
	if len(ordered)%2 == 0 {
		return (ordered[middle-1] + ordered[middle]) / 2
	}
	return ordered[middle]
}

// String is the median, and from where to where the rounds went.
func (s *series) String() string {
	least, most := number(slices.Min(s.Values)), number(slices.Max(s.Values))
	if least == most {
		return least
	}
	return fmt.Sprintf("%s (%s–%s)", number(s.median()), least, most)
}

// number writes three digits that count.
func number(value float64) string {
	switch {
	case value == 0 || value >= 100:
		return fmt.Sprintf("%.0f", value)
	case value >= 10:
		return fmt.Sprintf("%.1f", value)
	case value >= 0.01:
		return fmt.Sprintf("%.2f", value)
	}
	return fmt.Sprintf("%.4f", value)
}

// save writes the report into a folder, as JSON and as a table. An empty folder means none.
func (r *report) save(folder string) error {
	if folder == "" {
		return nil
	}
	data, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // It is documentation.
		return err
	}
	for name, text := range map[string]string{"bench.json": string(data) + "\n", "README.md": r.table()} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil { //nolint:gosec // So is this.
			return err
		}
	}
	return nil
}

// addReport adds the figures of an earlier run on such a machine, so that the benchmarks can be run in parts. A figure must not be measured again.
func (r *report) addReport(folder string) error {
	data, err := os.ReadFile(filepath.Join(folder, "bench.json"))
	if err != nil {
		return err
	}
	var earlier report
	if err := json.Unmarshal(data, &earlier); err != nil {
		return err
	}
	if earlier.Cores != r.Cores || earlier.Memory != r.Memory || earlier.Go != r.Go {
		return fmt.Errorf("the figures are of another machine, with %d cores, %s of memory and %s", earlier.Cores, earlier.Memory, earlier.Go)
	}
	if !strings.Contains(earlier.Date, r.Date) {
		r.Date = earlier.Date + " and " + r.Date
	} else {
		r.Date = earlier.Date
	}
	r.Measures, r.Rounds = earlier.Measures, max(earlier.Rounds, r.Rounds)
	return nil
}

// memory is how much this machine has, as Linux tells it.
func memory() string {
	text, err := os.ReadFile("/proc/meminfo")
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 1 {
		var kib int
		if _, err := fmt.Sscan(fields[1], &kib); err == nil {
			return fmt.Sprintf("%d GiB", (kib+1<<19)>>20)
		}
	}
	return "unknown"
}
