package apply

import "testing"

func TestSummary(t *testing.T) {
	created := func(kind, name string) Change { return Change{Created, kind, name} }
	for name, c := range map[string]struct {
		set    ChangeSet
		action Action
		line   string
	}{
		"none":      {nil, "", ""},
		"unchanged": {ChangeSet{{Unchanged, "Deployment", "web"}, {Unchanged, "Service", "web"}}, "", ""},
		"one":       {ChangeSet{created("Deployment", "web")}, Created, "Created Deployment web"},
		"two of one action": {
			ChangeSet{created("Deployment", "web"), created("Service", "web")}, Created, "Created Deployment web, Service web",
		},
		"one among unchanged ones": {
			ChangeSet{{Unchanged, "Deployment", "web"}, {Configured, "Service", "web"}}, Configured, "Configured Service web",
		},
		"several actions, the first one counts": {
			ChangeSet{{Configured, "Deployment", "web"}, created("Service", "a"), {Configured, "Service", "b"}, {Deleted, "Service", "c"}},
			Configured, "Configured Deployment web, Service b; Created Service a; Deleted Service c",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if action, line := c.set.Summary(); action != c.action || line != c.line {
				t.Errorf("summary is %q, %q; want %q, %q", action, line, c.action, c.line)
			}
		})
	}
}
