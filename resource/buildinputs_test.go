package resource

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestChooseInputs has one row for each case of the rule; today's rendering is the newest, the recorded one an older.
func TestChooseInputs(t *testing.T) {
	const (
		older     = `{"rendering":0}`
		refreshed = `{"rendering":0,"refresh":"1"}`
	)
	later := fmt.Sprintf(`{"rendering":%d,"refresh":"1"}`, RenderingLatest+1)
	today := BuildInputs{Rendering: RenderingLatest}
	ours := Provenance{Exists: true, Ours: true}
	with := func(h Provenance, recorded string, changed bool) Provenance {
		h.Inputs, h.SpecChanged = recorded, changed
		return h
	}
	tutorial := Provenance{Exists: true}
	for name, c := range map[string]struct {
		history Provenance
		refresh string
		want    BuildInputs
	}{
		"new":                            {Provenance{}, "", today},
		"new, refresh":                   {Provenance{}, "1", BuildInputs{Rendering: RenderingLatest, Refresh: "1"}},
		"unchanged":                      {with(ours, older, false), "", BuildInputs{Rendering: 0}},
		"changed":                        {with(ours, older, true), "", today},
		"unchanged, first refresh":       {with(ours, older, false), "1", BuildInputs{Rendering: RenderingLatest, Refresh: "1"}},
		"unchanged, refresh acted on":    {with(ours, refreshed, false), "1", BuildInputs{Rendering: 0, Refresh: "1"}},
		"unchanged, refresh removed":     {with(ours, refreshed, false), "", BuildInputs{Rendering: 0, Refresh: "1"}},
		"unchanged, next refresh":        {with(ours, refreshed, false), "2", BuildInputs{Rendering: RenderingLatest, Refresh: "2"}},
		"changed, refresh acted on":      {with(ours, refreshed, true), "1", BuildInputs{Rendering: RenderingLatest, Refresh: "1"}},
		"changed, refresh removed":       {with(ours, refreshed, true), "", BuildInputs{Rendering: RenderingLatest, Refresh: "1"}},
		"changed, next refresh":          {with(ours, refreshed, true), "2", BuildInputs{Rendering: RenderingLatest, Refresh: "2"}},
		"record lost":                    {with(ours, "", false), "", today},
		"record unreadable":              {with(ours, "{", false), "", today},
		"record of a later release":      {with(ours, later, false), "", today},
		"record of a later one, refresh": {with(ours, later, false), "1", BuildInputs{Rendering: RenderingLatest, Refresh: "1"}},
		"tutorial, unchanged":            {with(tutorial, "", false), "", BuildInputs{Rendering: RenderingTutorial}},
		"tutorial, changed":              {with(tutorial, "", true), "", today},
		"tutorial, refresh":              {with(tutorial, "", false), "1", BuildInputs{Rendering: RenderingLatest, Refresh: "1"}},
		"another owner's":                {with(Provenance{}, older, false), "", today},
	} {
		t.Run(name, func(t *testing.T) {
			got, isToday := ChooseInputs(c.history, c.refresh, today, today.Size, today.ServiceAccount)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("inputs (-want +got):\n%s", diff)
			}
			if isToday != (got.Rendering == RenderingLatest) {
				t.Errorf("they are today's: %t", isToday)
			}
		})
	}
}

// TestChooseSize has the cases that the size adds: a recorded one is used for as long as the spec names it.
func TestChooseSize(t *testing.T) {
	resolved := func(name appv1.Size, cpu string) ResolvedSize {
		return ResolvedSize{Name: name, Amounts: Amounts{Requests: corev1.ResourceList{"cpu": quantity(cpu)}}}
	}
	small, medium := resolved(appv1.SizeSmall, "2"), resolved(appv1.SizeMedium, "2")
	oldSmall := resolved(appv1.SizeSmall, "1")
	record := func(size ResolvedSize) string { return BuildInputs{Size: size}.Encode() }
	for name, c := range map[string]struct {
		recorded string
		changed  bool
		refresh  string
		today    ResolvedSize
		want     BuildInputs
	}{
		"unchanged":                     {record(oldSmall), false, "", small, BuildInputs{Size: oldSmall}},
		"changed":                       {record(oldSmall), true, "", small, BuildInputs{Rendering: RenderingLatest, Size: small}},
		"refreshed":                     {record(oldSmall), false, "1", small, BuildInputs{Rendering: RenderingLatest, Refresh: "1", Size: small}},
		"changed to another size":       {record(oldSmall), true, "", medium, BuildInputs{Rendering: RenderingLatest, Size: medium}},
		"changed to none":               {record(oldSmall), true, "", ResolvedSize{}, BuildInputs{Rendering: RenderingLatest}},
		"spec's record lost, another":   {record(oldSmall), false, "", medium, BuildInputs{Size: medium}},
		"spec's record lost, now none":  {record(oldSmall), false, "", ResolvedSize{}, BuildInputs{}},
		"spec's record lost, now small": {record(ResolvedSize{}), false, "", small, BuildInputs{Size: small}},
		"record of an unnamed size": {
			`{"rendering":0,"size":{"name":"custom","requests":{"cpu":"1"}}}`, false, "", small, BuildInputs{Rendering: RenderingLatest, Size: small},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := Provenance{Exists: true, Ours: true, Inputs: c.recorded, SpecChanged: c.changed}
			got, _ := ChooseInputs(h, c.refresh, BuildInputs{Rendering: RenderingLatest, Size: c.today}, c.today, "")
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("inputs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestInputsSettle checks that what is chosen, once recorded, is chosen again: nothing is built twice.
func TestInputsSettle(t *testing.T) {
	today := BuildInputs{Rendering: RenderingLatest}
	for _, refresh := range []string{"", "1", `"quoted", {and} – more`} {
		for _, recorded := range []string{"", "{", `{"rendering":0}`, `{"rendering":0,"refresh":"0"}`, `{"rendering":99}`} {
			for _, changed := range []bool{false, true} {
				first, _ := ChooseInputs(Provenance{Exists: true, Ours: true, Inputs: recorded, SpecChanged: changed}, refresh, today, today.Size, today.ServiceAccount)
				again, _ := ChooseInputs(Provenance{Exists: true, Ours: true, Inputs: first.Encode()}, refresh, today, today.Size, today.ServiceAccount)
				if !cmp.Equal(again, first) {
					t.Errorf("refresh %q over record %q: first %+v, then %+v", refresh, recorded, first, again)
				}
			}
		}
	}
}

func TestDecodeInputs(t *testing.T) {
	for _, in := range []BuildInputs{
		{},
		{Rendering: RenderingLatest},
		{Rendering: RenderingLatest, Refresh: "<&>"},
		{Rendering: RenderingLatest, Size: BuiltInSizes().Resolve(appv1.SizeSmall)},
		{Size: ResolvedSize{Name: appv1.SizeLarge, Amounts: Amounts{Limits: corev1.ResourceList{
			"cpu": quantity("0.5"), "memory": quantity("1.5Gi"), "hugepages-2Mi": quantity("2Gi"), "example.com/gpu": quantity("1e3"),
		}}}},
	} {
		if got, err := DecodeInputs(in.Encode()); err != nil || !cmp.Equal(got, in) {
			t.Errorf("%+v comes back as %+v, %v", in, got, err)
		}
	}
	for _, recorded := range []string{
		"", "null but not", "null", "[]", "{}", `{"rendering":"1"}`, `{"rendering":null}`, `{"rendering": 1}`,
		`{"rendering":1,"refresh":""}`, `{"rendering":1,"later":true}`, `{"rendering":1}{}`,
		`{"rendering":-1}`, `{"rendering":99}`,
		`{"rendering":1,"size":{}}`, `{"rendering":1,"size":{"name":""}}`, `{"rendering":1,"size":{"name":"custom"}}`,
		`{"rendering":1,"size":{"name":"huge","requests":{"cpu":"1"}}}`, `{"rendering":1,"size":{"name":"small"}}`,
		`{"rendering":1,"size":{"name":"small","requests":{"cpu":"1000m"}}}`, `{"rendering":1,"size":"small"}`,
		`{"rendering":1,"size":{"name":"small","requests":{"cpu":"2"},"limits":{"cpu":"1"}}}`,
	} {
		if got, err := DecodeInputs(recorded); err == nil || !cmp.Equal(got, BuildInputs{}) {
			t.Errorf("%q is read as %+v, %v; want an error", recorded, got, err)
		}
	}
}
