package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func text(value string) *string { return &value }

// TestLines has plans of every sort in words.
func TestLines(t *testing.T) {
	deployment := func(pods Pods, fields ...Field) Object {
		return Object{Kind: "Deployment", Name: "web", Action: Changed, Pods: &pods, Fields: fields}
	}
	image := Field{Path: "template.containers[web].image", Change: FieldModified, From: text("a:1"), To: text("a:2")}
	for name, c := range map[string]struct {
		plan Plan
		want []string
	}{
		"nothing":  {Plan{}, []string{"nothing changes"}},
		"too late": {Plan{Incomplete: true}, []string{"not all was answered in time; run it again"}},
		"all at a time": {
			Plan{Objects: []Object{deployment(Pods{Replaced: true, Running: 3, Wanted: 3, Missing: 3}, image)}},
			[]string{"Deployment web: changed, 3 pods are replaced, all may be missing at a time", "Deployment web: template.containers[web].image: a:1 -> a:2"},
		},
		"some at a time": {
			Plan{Objects: []Object{deployment(Pods{Replaced: true, Running: 3, Wanted: 5, Missing: 1})}},
			[]string{"Deployment web: changed, 3 pods are replaced, at most 1 missing at a time, 3 pods become 5"},
		},
		"one": {
			Plan{Objects: []Object{deployment(Pods{Replaced: true, Running: 1, Wanted: 1})}},
			[]string{"Deployment web: changed, 1 pod is replaced, none is missing meanwhile"},
		},
		"values": {
			Plan{Objects: []Object{deployment(Pods{},
				Field{Path: "args", Change: FieldModified},
				Field{Path: "replicas", Change: FieldAdded, To: text("2")},
				Field{Path: "a", Change: FieldRemoved, From: text("x y")},
				Field{Path: "b\x1b[31m", Change: FieldAdded, To: text("\x1b")},
				Field{Path: "c", Change: FieldAdded, To: text(strings.Repeat("x", 100))})}},
			[]string{
				"Deployment web: changed", "no pod is replaced", "Deployment web: args: changed", "Deployment web: replicas: set to 2",
				`Deployment web: a: "x y" is removed`, `Deployment web: b\u001b[31m: set to "\x1b"`, "Deployment web: c: set to " + strings.Repeat("x", 60) + "…",
			},
		},
		"what comes with it": {
			Plan{Objects: []Object{{Kind: "Deployment", Name: "web", Action: Changed, Rendering: &Step{"1", "2"}, Size: &Step{"", "small"}}}},
			[]string{
				"Deployment web: changed", "Deployment web: rendering 1 -> 2 comes with the change",
				"Deployment web: size none -> small comes with the change", "no pod is replaced",
			},
		},
		"others": {
			Plan{Paused: true, Objects: []Object{
				{Kind: "Service", Name: "web", Action: Deleted}, {Kind: "Deployment", Name: "old", Action: Deleted, Pods: &Pods{Running: 2}},
				{Kind: "StatefulSet", Name: "db", Action: Recreated, Pods: &Pods{Running: 1, Wanted: 1}},
				{Kind: "Deployment", Name: "theirs", Action: Changed, TakenOver: true}, {Kind: "Deployment", Name: "late", Action: Changed, Unasked: true},
			}},
			[]string{
				"Service web: deleted", "Deployment old: deleted with its 2 pods", "StatefulSet db: recreated, its pods stay",
				"Deployment theirs: exists and is taken over", "Deployment late: changed (not asked in time; run it again)",
				"no pod is replaced", "spec.paused is true: all of this waits until it is false",
			},
		},
		"a problem": {Plan{Problem: &Problem{"Invalid", "no"}}, []string{"Invalid: no"}},
	} {
		if diff := cmp.Diff(c.want, c.plan.Lines(20, 200)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestLinesFit has plans of every length: no more lines than asked for, none too long, and what is left out is counted.
func TestLinesFit(t *testing.T) {
	for objects := range 30 {
		for fields := range 30 {
			var p Plan
			for i := range objects {
				o := Object{Kind: "Deployment", Name: fmt.Sprintf("web-%d\x00", i), Action: Changed}
				for range fields {
					o.Fields = append(o.Fields, Field{Path: strings.Repeat("界", 100), Change: FieldAdded})
				}
				p.Objects = append(p.Objects, o)
			}
			lines := p.Lines(14, 100)
			whole := p.Lines(10_000, 10_000)
			if len(lines) != min(len(whole), 14) {
				t.Fatalf("%d of %d lines", len(lines), len(whole))
			}
			if len(whole) > 14 && !strings.HasPrefix(lines[13], "and ") {
				t.Fatalf("what is left out is not counted: %q", lines)
			}
			for _, line := range lines {
				if len(line) > 100 || strings.ContainsFunc(line, unicode.IsControl) {
					t.Fatalf("a line is %q", line)
				}
			}
		}
	}
}

// TestDecode reads a plan from the answer of an API server, and from nothing else.
func TestDecode(t *testing.T) {
	data, err := json.Marshal(Plan{Version: Version, Name: "web", Objects: []Object{}})
	if err != nil {
		t.Fatal(err)
	}
	answer := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: ReasonAnswered, Details: &metav1.StatusDetails{
		Causes: []metav1.StatusCause{{Type: CauseAnswered, Message: string(data)}},
	}}}
	if p, err := Decode(fmt.Errorf("apply: %w", answer)); err != nil || p.Name != "web" {
		t.Errorf("it reads %+v, %v", p, err)
	}
	for _, err := range []error{nil, errors.New("x"), apierrors.NewBadRequest("x"), &apierrors.StatusError{ErrStatus: metav1.Status{Reason: ReasonAnswered}}} {
		if p, wrong := Decode(err); wrong == nil {
			t.Errorf("of %v it reads %+v", err, p)
		}
	}
}
