package apply

import (
	"testing"
)

func TestSummary(t *testing.T) {
	created := func(kind, name string) Change { return Change{Action: Created, Kind: kind, Name: name} }
	for name, c := range map[string]struct {
		set    ChangeSet
		action Action
		line   string
	}{
		"none":      {nil, "", ""},
		"unchanged": {ChangeSet{{Action: Unchanged, Kind: "Deployment", Name: "web"}, {Action: Unchanged, Kind: "Service", Name: "web"}}, "", ""},
		"one":       {ChangeSet{created("Deployment", "web")}, Created, "Created Deployment web"},
		"two of one action": {
			ChangeSet{created("Deployment", "web"), created("Service", "web")}, Created, "Created Deployment web, Service web",
		},
		"one among unchanged ones": {
			ChangeSet{{Action: Unchanged, Kind: "Deployment", Name: "web"}, {Action: Configured, Kind: "Service", Name: "web"}}, Configured, "Configured Service web",
		},
		"several actions, the first one counts": {
			ChangeSet{{Action: Configured, Kind: "Deployment", Name: "web"}, created("Service", "a"), {Action: Configured, Kind: "Service", Name: "b"}, {Action: Deleted, Kind: "Service", Name: "c"}},
			Configured, "Configured Deployment web, Service b; Created Service a; Deleted Service c",
		},
		"fields": {
			ChangeSet{
				{Action: Configured, Kind: "Deployment", Name: "web", Fields: []string{"image", "replicas"}},
				{Action: Configured, Kind: "Service", Name: "web", Fields: []string{"ports"}}, created("Service", "b"),
			},
			Configured, "Configured Deployment web: image, replicas; Configured Service web: ports; Created Service b",
		},
		"a repair": {
			ChangeSet{{Action: Repaired, Kind: "Deployment", Name: "web", Fields: []string{"image"}, By: "kubectl-set"}},
			Repaired, "Repaired Deployment web: image, changed by kubectl-set",
		},
		"a repair of many": {
			ChangeSet{{Action: Repaired, Kind: "Deployment", Name: "web", Fields: []string{"image"}, By: "kubectl-set", Times: 7}},
			Repaired, "Repaired Deployment web: image, changed by kubectl-set, repaired 7 times in an hour",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if action, line := c.set.Summary(); action != c.action || line != c.line {
				t.Errorf("summary is %q, %q; want %q, %q", action, line, c.action, c.line)
			}
		})
	}
}
