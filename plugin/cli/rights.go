package cli

import (
	"slices"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
)

// Right is what a user can be allowed to do in a namespace.
type Right struct {
	// Verb, Group and Resource are the fields of an RBAC rule.
	Verb, Group, Resource string
	// Needed is true if the command does nothing without the right, where the cluster has the kind. Without another right the command shows
	// less, and names the missing right.
	Needed bool
}

// String is the right in a few words, such as "list pods".
func (r Right) String() string {
	if r.Group == "" {
		return r.Verb + " " + r.Resource
	}
	return r.Verb + " " + r.Resource + "." + r.Group
}

// rightsBelow returns the rights to see the objects below a resource.
func rightsBelow() []Right {
	rights := []Right{
		{"list", "apps", "deployments", false}, {"list", "apps", "statefulsets", false}, {"list", "apps", "replicasets", false},
		{"list", "", "pods", false}, {"list", "", "services", false}, {"list", "", "persistentvolumeclaims", false},
		{"list", "autoscaling", "horizontalpodautoscalers", false},
	}
	for i := range view.AroundTypes {
		around := view.AroundTypes[i].Resource
		rights = append(rights, Right{"list", around.Group, around.Resource, false})
	}
	return rights
}

// rightsToLogs returns the rights to find the pods of a resource, and to read their logs.
func rightsToLogs() []Right {
	return []Right{
		{"get", "", "pods/log", true}, {"list", "", "pods", true},
		{"list", "apps", "deployments", false}, {"list", "apps", "statefulsets", false}, {"list", "apps", "replicasets", false},
	}
}

// rightsToRuns returns the rights to see the runs of a Task, and the Jobs of commands before rollouts.
func rightsToRuns() []Right {
	return []Right{{"list", "batch", "cronjobs", false}, {"list", "batch", "jobs", false}}
}

// rightsOfCreation returns the rights to find obstacles to the creation of a resource.
func rightsOfCreation() []Right {
	rights := []Right{
		{"get", "apps", "deployments", false}, {"get", "apps", "statefulsets", false}, {"get", "", "services", false},
		{"get", "autoscaling", "horizontalpodautoscalers", false}, {"get", "batch", "cronjobs", false},
	}
	for i := range view.AroundTypes {
		around := view.AroundTypes[i].Resource
		rights = append(rights, Right{"get", around.Group, around.Resource, false})
	}
	return append(rights,
		Right{"list", "apps", "deployments", false}, Right{"list", "apps", "statefulsets", false}, Right{"list", "apps", "daemonsets", false},
		Right{"list", "batch", "cronjobs", false}, Right{"list", "batch", "jobs", false}, Right{"list", "", "pods", false},
	)
}

// rightsToKinds returns a right to all kinds.
func rightsToKinds(verb string, needed bool) []Right {
	return rightsToKindsWith(verb, needed, view.AnyKind)
}

// rightsToKindsWith returns a right to the kinds for which has is true.
func rightsToKindsWith(verb string, needed bool, has func(view.Kind) bool) []Right {
	var rights []Right
	for _, kind := range view.Kinds {
		if has(kind) {
			rights = append(rights, Right{verb, appv1.GroupVersion.Group, kind.Plural, needed})
		}
	}
	return rights
}

// Need is what a command needs.
type Need struct {
	Command string
	Rights  []Right
}

// rightsToImport returns the rights to read Deployments and what is around them.
func rightsToImport() []Right {
	rights := []Right{
		{"get", "apps", "deployments", true}, {"list", "apps", "deployments", false}, {"list", "apps", "statefulsets", false},
		{"list", "apps", "daemonsets", false}, {"list", "", "services", false}, {"list", "autoscaling", "horizontalpodautoscalers", false},
		{"list", "policy", "poddisruptionbudgets", false}, {"list", "networking.k8s.io", "ingresses", false},
		{"list", "networking.k8s.io", "networkpolicies", false},
	}
	for _, around := range view.ImportedCustom() {
		rights = append(rights, Right{"list", around.Resource.Group, around.Resource.Resource, false})
	}
	return rights
}

// rightsToRun returns the rights to run a command in a Job, and to follow the Job.
func rightsToRun() []Right {
	return []Right{
		{"get", "apps", "deployments", true}, {"list", "", "services", true}, {"create", "batch", "jobs", true}, {"get", "batch", "jobs", true},
		{"list", "", "pods", true}, {"get", "", "pods/log", true}, {"list", "", "events", false}, {"delete", "batch", "jobs", false},
	}
}

// CommandNeeds returns the rights that each command needs, in the order of the documentation.
func CommandNeeds() []Need {
	get, patch := rightsToKinds("get", true), rightsToKinds("patch", true)
	serving := func(kind view.Kind) bool { return !kind.Scheduled }
	scheduled := func(kind view.Kind) bool { return kind.Scheduled }
	change := slices.Concat(rightsToKindsWith("get", true, serving), rightsToKindsWith("patch", true, serving))
	jobs := rightsToRuns()
	look := slices.Concat(get, rightsBelow(), jobs)
	restart := []Right{
		{"get", "apps", "deployments", true}, {"patch", "apps", "deployments", true},
		{"get", "apps", "statefulsets", true}, {"patch", "apps", "statefulsets", true},
	}
	restartByPage := slices.Clone(restart)
	for i := range restartByPage {
		restartByPage[i].Needed = false
	}
	eject, allChildren := look, slices.Concat(rightsBelow(), jobs)
	for i := range allChildren {
		allChildren[i].Needed = true
	}
	var cleaned []Right
	for _, right := range rightsBelow() {
		if right.Resource != "replicasets" && right.Resource != "pods" && right.Resource != "persistentvolumeclaims" {
			cleaned = append(cleaned, Right{"patch", right.Group, right.Resource, false})
		}
	}
	cleaned = append(cleaned, Right{"patch", "batch", "cronjobs", false})
	events := Right{"list", "", "events", false}
	return []Need{
		{"list", rightsToKinds("list", false)},
		{"tree", look},
		{"why", slices.Concat(look, []Right{events})},
		{"logs", slices.Concat(get, rightsToLogs(), jobs)},
		{"report", slices.Concat(look, []Right{events})},
		{"wait", look},
		{"history", slices.Concat(look)},
		{"plan", patch},
		{"plan -f", slices.Concat(get, patch, rightsToKinds("create", true), rightsOfCreation())},
		{"rollback", slices.Concat(change, rightsBelow(), jobs[1:])},
		{"hold", change},
		{"unhold", change},
		{"promote", change},
		{"abort", change},
		{"pause", slices.Concat(get, patch)},
		{"suspend", slices.Concat(rightsToKindsWith("get", true, scheduled), rightsToKindsWith("patch", true, scheduled))},
		{"resume", slices.Concat(get, patch)},
		{"refresh", change},
		{"refresh --all", slices.Concat(change, rightsToKinds("list", false))},
		{"restart", slices.Concat(rightsToKindsWith("get", true, serving), restart)},
		{"run", slices.Concat(rightsToKindsWith("get", true, serving), rightsToRun())},
		{"run -i", slices.Concat(rightsToKindsWith("get", true, serving), rightsToRun(), []Right{{"create", "", "pods/attach", true}, {"get", "", "pods/attach", false}})},
		{"import", rightsToImport()},
		{"adopt", slices.Concat(get, patch)},
		{"eject", eject},
		{"eject --delete", slices.Concat(get, allChildren, rightsToKinds("delete", true), cleaned)},
		{"ui", slices.Concat(ViewerRights(), rightsToKinds("patch", false), restartByPage, []Right{{"get", "", "pods/log", false}})},
	}
}

// ViewerRights returns the rights of the pages that change nothing.
func ViewerRights() []Right {
	return slices.Concat(rightsToKinds("get", false), rightsToKinds("list", false), rightsBelow(), rightsToRuns(), []Right{{"list", "", "events", false}},
		rightsToKinds("watch", false), []Right{
			{"watch", "apps", "deployments", false}, {"watch", "apps", "statefulsets", false}, {"watch", "apps", "replicasets", false},
			{"watch", "", "pods", false}, {"watch", "", "services", false}, {"watch", "", "events", false},
			{"watch", "batch", "cronjobs", false}, {"watch", "batch", "jobs", false},
		})
}
