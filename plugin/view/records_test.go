package view

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/bounds"
	"huolala.cn/app-operator/resource"
)

// recordOf returns a record of an image with a number of bytes as plain JSON.
func recordOf(image string, length int) string {
	const form = `{"image":%q,"command":[%q]}`
	return fmt.Sprintf(form, image, strings.Repeat("x", length-len(fmt.Sprintf(form, image, ""))))
}

// withRecords returns a snapshot whose ReplicaSets have records, the newest first.
func withRecords(records ...string) *Snapshot {
	const image = "nginx:1.17.0"
	s := cases()["ready"]
	s.ReplicaSets = nil
	for i, record := range records {
		rs := replicaSet(fmt.Sprintf("cart-%03d", i), 5, 0, 0, image, `{"image":"nginx:1.17.0"}`, time.Hour)
		rs.Annotations[appv1.AnnotationLastAppliedSpec] = record
		delete(rs.Annotations, appv1.AnnotationLastAppliedInputs)
		s.ReplicaSets = append(s.ReplicaSets, rs)
	}
	return s
}

// TestRecordsWithinBudget has records as long as a history reads together, and longer. What is not read has a note in place of a spec, and no text of
// others is public.
func TestRecordsWithinBudget(t *testing.T) {
	const image, half = "nginx:1.17.0", maxRecords / 2
	short := recordOf(image, 100)
	tooMany := faultTooMany + ": no rollback"
	for name, c := range map[string]struct {
		records []string
		notes   []string
	}{
		"at the limit":             {[]string{recordOf(image, half), recordOf(image, half)}, []string{"", ""}},
		"one byte beyond":          {[]string{recordOf(image, half), recordOf(image, half-99), short}, []string{"", "", tooMany}},
		"none after a longer one":  {[]string{recordOf(image, half), recordOf(image, half-99), short, recordOf(image, 99)}, []string{"", "", tooMany, tooMany}},
		"unreadable records count": {[]string{"gzip:x", "gzip:x", short}, []string{"unreadable record: no rollback", "unreadable record: no rollback", tooMany}},
		"short unreadable records": {[]string{"x", "x", short}, []string{"unreadable record: no rollback", "unreadable record: no rollback", ""}},
		"no record costs nothing":  {[]string{recordOf(image, half), recordOf(image, half), ""}, []string{"", "", "no record: no rollback"}},
	} {
		s := withRecords(c.records...)
		h, err := HistoryOf(s, "")
		if err != nil {
			t.Fatal(err)
		}
		left := false
		for i, rev := range h.Revisions {
			note, _, _ := strings.Cut(rev.Note, "; no record of its inputs")
			note = strings.TrimSuffix(note, "no record of its inputs: no hold")
			if note != c.notes[i] || (rev.Spec == nil) != (note != "") {
				t.Errorf("%s: revision %d of %d has the note %q, want %q", name, i+1, len(c.records), rev.Note, c.notes[i])
			}
			left = left || c.notes[i] == tooMany
		}
		s.Events = []corev1.Event{{Message: "said by others"}}
		if said := s.PublicCopy().Events[0].Message; (said == hidden) != left {
			t.Errorf("%s: the public event is %q", name, said)
		}
	}
}

// TestForgedRecords has 300 ReplicaSets with compressed records of the longest spec. The specs that are kept have no more bytes than the budget.
func TestForgedRecords(t *testing.T) {
	spec := json.RawMessage(recordOf("nginx:1.17.0", bounds.MaxSpec-100))
	record, _ := resource.EncodeSpec(spec, nil, nil)
	if len(record) > 4<<10 {
		t.Fatalf("the record has %d bytes", len(record))
	}
	records := make([]string, 300)
	for i := range records {
		records[i] = record
	}
	h, err := HistoryOf(withRecords(records...), "")
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for i := range h.Revisions {
		if h.Revisions[i].Spec != nil {
			kept += len(encode(h.Revisions[i].Spec))
		}
	}
	if len(h.Revisions) != len(records) || kept > maxRecords || kept < bounds.MaxSpec/2 {
		t.Errorf("%d revisions keep %d bytes of specs, want at most %d", len(h.Revisions), kept, maxRecords)
	}
}
