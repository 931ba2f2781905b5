package validation

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
)

// fields are those that warnings begin with.
func fields(warnings []string) []string {
	var all []string
	for _, w := range warnings {
		field, _, _ := strings.Cut(w, ": ")
		all = append(all, field)
	}
	return all
}

// TestWarnings has what is warned of, and what is next to it and is not.
func TestWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		spec string
		want []string
	}{
		"nothing":                    {`{image: 'a:1', size: small}`, nil},
		"no tag":                     {`{image: a, size: small}`, []string{"spec.image"}},
		"a registry's port":          {`{image: 'r:5000/a', size: small}`, []string{"spec.image"}},
		"latest":                     {`{image: 'r:5000/a:latest', size: small}`, []string{"spec.image"}},
		"latest, by digest":          {`{image: 'a:latest@sha256:00', size: small}`, nil},
		"a digest":                   {`{image: 'r:5000/a@sha256:00', size: small}`, nil},
		"sidecars":                   {`{image: 'a:1', size: small, containers: [{image: 'a:1'}, {image: a}], initContainers: [{image: a}]}`, []string{"spec.initContainers[0].image", "spec.containers[1].image"}},
		"no resources":               {`{image: 'a:1'}`, []string{"spec.resources"}},
		"a limit, which requests":    {`{image: 'a:1', resources: {limits: {memory: 1Gi}}}`, nil},
		"all at once":                {`{image: 'a:1', size: small, rollingUpdate: 100%, replicas: 9}`, []string{"spec.rollingUpdate"}},
		"nearly all at once":         {`{image: 'a:1', size: small, rollingUpdate: 99%, replicas: 9}`, nil},
		"as many as there are":       {`{image: 'a:1', size: small, rollingUpdate: 9, replicas: 9}`, []string{"spec.rollingUpdate"}},
		"a number in quotes":         {`{image: 'a:1', size: small, rollingUpdate: "9", replicas: 9}`, []string{"spec.rollingUpdate"}},
		"one less":                   {`{image: 'a:1', size: small, rollingUpdate: 8, replicas: 9}`, nil},
		"the only one":               {`{image: 'a:1', size: small, rollingUpdate: 1, replicas: 1}`, []string{"spec.rollingUpdate"}},
		"one of an unknown number":   {`{image: 'a:1', size: small, rollingUpdate: 1, maxUnavailable: 1, disruptionBudget: {minAvailable: 1}}`, nil},
		"all of any number":          {`{image: 'a:1', size: small, rollingUpdate: 100%}`, []string{"spec.rollingUpdate"}},
		"a budget of the only one":   {`{image: 'a:1', size: small, replicas: 1, disruptionBudget: {minAvailable: 1}}`, []string{"spec.disruptionBudget.minAvailable"}},
		"a budget of the minimum":    {`{image: 'a:1', size: small, autoscaling: {minReplicas: 2, maxReplicas: 5}, disruptionBudget: {minAvailable: 2}}`, []string{"spec.disruptionBudget.minAvailable"}},
		"a budget, and 1 by default": {`{image: 'a:1', size: small, autoscaling: {maxReplicas: 5}, disruptionBudget: {minAvailable: 1}}`, []string{"spec.disruptionBudget.minAvailable"}},
		"a budget below a minimum":   {`{image: 'a:1', size: small, autoscaling: {minReplicas: 2, maxReplicas: 5}, disruptionBudget: {minAvailable: 1}}`, nil},
		"none":                       {`{image: 'a:1', size: small, rollingUpdate: 100%, replicas: 0}`, nil},
		"an unusual port":            {`{image: 'a:1', size: small, ports: [{port: 1, nodePort: 29999}, {port: 2, nodePort: 32767}]}`, []string{"spec.ports[0].nodePort"}},
		"a port that is not open":    {`{image: 'a:1', size: small, service: {type: ClusterIP}, ports: [{port: 1, nodePort: 1}]}`, nil},
		"a port without a Service":   {`{image: 'a:1', size: small, service: {clusterIP: None}, ports: [{port: 1, nodePort: 1}]}`, nil},
		"a patch":                    {`{image: 'a:1', size: small, podTemplatePatch: {}}`, nil},
		"no port stated":             {`{image: 'a:1', size: small, ports: [{port: 1}]}`, nil},
		"all at once, by half":       {`{image: 'a:1', size: small, maxUnavailable: 100%, replicas: 9}`, []string{"spec.maxUnavailable"}},
		"none, as there are two":     {`{image: 'a:1', size: small, maxUnavailable: 1, autoscaling: {minReplicas: 2, maxReplicas: 5}}`, nil},
		"all, as there is one":       {`{image: 'a:1', size: small, maxUnavailable: 1, replicas: 2, autoscaling: {maxReplicas: 5}}`, []string{"spec.maxUnavailable"}},
		"none at once":               {`{image: 'a:1', size: small, maxUnavailable: 0}`, nil},
		"a low port, restricted": {`{image: 'a:1', size: small, securityProfile: restricted, ports: [{port: 80}, {port: 81, targetPort: 8081}, {port: 8082, targetPort: 82}, {port: 1024}], containerPorts: [{containerPort: 83}, {containerPort: 9090}]}`,
			[]string{"spec.ports[0].port", "spec.ports[2].targetPort", "spec.containerPorts[0].containerPort"}},
		"a low port that is allowed": {`{image: 'a:1', size: small, securityProfile: restricted, securityContext: {capabilities: {add: [NET_BIND_SERVICE]}}, ports: [{port: 80}]}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			box := &appv1.ModelBox{}
			if err := yaml.UnmarshalStrict([]byte("{spec: "+c.spec+"}"), box); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, fields(ModelBoxWarnings(box, nil))); diff != "" {
				t.Errorf("ModelBox (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPasswordIsNotRepeated checks that the warning of a password in clear text does not say it.
func TestPasswordIsNotRepeated(t *testing.T) {
	cm := &appv1.CloudManager{}
	cm.Spec.DB.RootPass = "hunter2"
	said := strings.Join(CloudManagerWarnings(cm), "\n")
	if !strings.Contains(said, "spec.db.rootPass: ") || strings.Contains(said, "hunter2") {
		t.Errorf("warnings: %s", said)
	}
}

// TestSizeIsAName checks that a size has a name that AppDefaults can define.
func TestSizeIsAName(t *testing.T) {
	for size, want := range map[appv1.Size]int{"": 0, "small": 0, "custom": 0, "x-2": 0, "Small": 1, "a.b": 1, appv1.Size(strings.Repeat("a", 64)): 1} {
		app := &appv1.App{}
		app.Spec.Size = size
		if errs := App(app); len(errs) != want || want > 0 && errs[0].Field != "spec.size" {
			t.Errorf("size %q: %v", size, errs)
		}
	}
}

// TestHoldNamesTheLastGood has a hold at the last good ReplicaSet: the warning names it, and says so if it runs now.
func TestHoldNamesTheLastGood(t *testing.T) {
	for running, want := range map[string]string{"web-2": "web-1 (nginx:1), which was the last one to be ready", "": "web-1 (nginx:1), which was", "web-1": "the last version that was ready; its pods still run. If that is the version to leave"} {
		app, box := &appv1.App{}, &appv1.ModelBox{}
		app.Annotations = map[string]string{appv1.AnnotationHold: appv1.HoldLastGood}
		app.Status.HistoryStatus = appv1.HistoryStatus{ReplicaSet: running, LastGood: &appv1.GoodRevision{ReplicaSet: "web-1", Image: "nginx:1"}}
		box.Annotations, box.Status.HistoryStatus = app.Annotations, app.Status.HistoryStatus
		for _, said := range [][]string{AnnotationWarnings(app), AnnotationWarnings(box)} {
			if len(said) != 1 || !strings.Contains(said[0], want) {
				t.Errorf("while %q runs: %q, want %q", running, said, want)
			}
		}
	}
}

// TestAnnotationWarnings has the annotations of a custom resource that are warned of, for each kind, and words of the warning.
func TestAnnotationWarnings(t *testing.T) {
	for name, c := range map[string]struct{ key, value, says, others string }{
		"of others":       {"example.com/any", "hunter2", "", ""},
		"adopt":           {appv1.AnnotationAdopt, "true", "", ""},
		"adopt wrong":     {appv1.AnnotationAdopt, "yes, hunter2", `must be "true", "false" or "without-restart"`, ""},
		"without restart": {appv1.AnnotationAdopt, appv1.AdoptWithoutRestart, "", "a resource of this kind cannot adopt without a restart"},
		"overrides":       {appv1.AnnotationAcceptOverrides, "hunter2", `must be "true" or "false"`, ""},
		"refresh":         {appv1.AnnotationRefresh, "hunter2", "", ""},
		"hold":            {appv1.AnnotationHold, "hunter2", "holds this resource at an earlier ReplicaSet, if there is one", "a resource of this kind cannot be held"},
		"last good":       {appv1.AnnotationHold, appv1.HoldLastGood, "holds this resource at an earlier ReplicaSet, if there is one", "a resource of this kind cannot be held"},
		"hold no name":    {appv1.AnnotationHold, "hunter2/a", "is not the name of a ReplicaSet", "a resource of this kind cannot be held"},
		"hold too long":   {appv1.AnnotationHold, strings.Repeat("hunter2", 1000), "is not the name of a ReplicaSet", "a resource of this kind cannot be held"},
		"hold nothing":    {appv1.AnnotationHold, "", "has no effect; it must be the name of a ReplicaSet", "a resource of this kind cannot be held"},
		"paused":          {"app.huolala.cn/paused", "hunter2", "is not known to the operator", ""},
		"plan":            {appv1.AnnotationPlan, "request", "none once it is stored", ""},
		"unknown":         {"app.huolala.cn/pause", "hunter2", "is not known to the operator", ""},
		"a record":        {appv1.AnnotationLastAppliedSpec, "hunter2", "is not known to the operator", ""},
		"long":            {"app.huolala.cn/" + strings.Repeat("x", 63), "hunter2", "is not known to the operator", ""},
	} {
		key := c.key
		app, box, ud, cm := &appv1.App{}, &appv1.ModelBox{}, &appv1.UnitedDeployment{}, &appv1.CloudManager{}
		annotations := map[string]string{key: c.value}
		app.Annotations, box.Annotations, ud.Annotations, cm.Annotations = annotations, annotations, annotations, annotations
		for i, said := range [][]string{AppWarnings(app, nil), ModelBoxWarnings(box, nil), UnitedDeploymentWarnings(ud), CloudManagerWarnings(cm)} {
			var got []string
			for _, w := range said {
				if strings.HasPrefix(w, "metadata.annotations") {
					got = append(got, w)
				}
			}
			if i >= 2 && c.others != "" {
				c.says = c.others
			}
			text := strings.Join(got, "\n")
			if (c.says == "") != (text == "") || !strings.Contains(text, c.says) || strings.Contains(text, "hunter2") {
				t.Errorf("%s, kind %d, %s: %q; want %q", name, i, key, text, c.says)
			}
			if c.says != "" && !strings.HasPrefix(text, "metadata.annotations["+key+"]: ") {
				t.Errorf("kind %d, %s: %q does not name the annotation", i, key, text)
			}
		}
	}
}
