package webhooks

import (
	"errors"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
)

// TestWarningsCountDefaults warns of an App and a ModelBox by their fields with the defaults. The Deployment has an autoscaler of others.
func TestWarningsCountDefaults(t *testing.T) {
	const (
		noResources = "spec.resources: "
		budget      = "spec.disruptionBudget.minAvailable: "
		port        = "spec.ports[0].port: "
		scaler      = "spec.autoscaling: "
		path        = "spec.volumeMounts[0].mountPath: "
	)
	for name, c := range map[string]struct{ defaults, old, spec, says, hides string }{
		"no size":                            {`{}`, "", `{"image":"a:1"}`, noResources, ""},
		"a default size":                     {`size: small`, "", `{"image":"a:1"}`, "", noResources},
		"default resources":                  {`resources: {limits: {cpu: 1}}`, "", `{"image":"a:1"}`, "", noResources},
		"a default size done without":        {`size: small`, "", `{"image":"a:1","withoutDefaults":["size"]}`, noResources, ""},
		"a default budget":                   {`disruptionBudget: {minAvailable: 1}`, "", `{"image":"a:1","replicas":1}`, budget, ""},
		"a default budget of unstated pods":  {`disruptionBudget: {minAvailable: 1}`, "", `{"image":"a:1"}`, budget, ""},
		"a default budget of several pods":   {`disruptionBudget: {minAvailable: 1}`, "", `{"image":"a:1","replicas":2}`, "", budget},
		"a default number of pods":           {`autoscaling: {minReplicas: 2, maxReplicas: 3}`, "", `{"image":"a:1","size":"small","replicas":1,"disruptionBudget":{"minAvailable":1}}`, "", budget},
		"a default profile":                  {`securityProfile: restricted`, "", `{"image":"a:1","ports":[{"port":80}]}`, port, ""},
		"a default profile with a privilege": {`{securityProfile: restricted, securityContext: {capabilities: {add: [NET_BIND_SERVICE]}}}`, "", `{"image":"a:1","ports":[{"port":80}]}`, "", port},
		"no profile":                         {`{}`, "", `{"image":"a:1","ports":[{"port":80}]}`, "", port},
		"a default autoscaler":               {`{size: small, autoscaling: {maxReplicas: 3}}`, "", `{"image":"a:1"}`, scaler, ""},
		"a default autoscaler of a change":   {`{size: small, autoscaling: {maxReplicas: 3}}`, `{"image":"a:1"}`, `{"image":"a:2"}`, scaler, ""},
		"no autoscaler":                      {`size: small`, "", `{"image":"a:1"}`, "", scaler},
		"a mount after a default mount": {`{volumes: [{name: ca, emptyDir: {}}], volumeMounts: [{name: ca, mountPath: /ca}]}`, "",
			`{"image":"a:1","volumeMounts":[{"name":"ca","mountPath":"relative"}]}`, path, ""},
		"a default mount": {`{volumes: [{name: ca, emptyDir: {}}], volumeMounts: [{name: ca, mountPath: relative}]}`, "", `{"image":"a:1"}`, "", path},
	} {
		for _, kind := range []string{"App", "ModelBox"} {
			s, _ := secretWorld(t)
			hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "others"}}
			hpa.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "web"}
			if err := s.cache.(client.Client).Create(t.Context(), hpa); err != nil {
				t.Fatal(err)
			}
			var defaults appv1.AppDefaultsSpec
			if err := yaml.UnmarshalStrict([]byte(c.defaults), &defaults.Defaults); err != nil {
				t.Fatal(err)
			}
			s.planner = presentPlanner{present: resource.LayerDefaults(&defaults)}
			answer := reviewSpec(t, s, kind, c.old, c.spec)
			said := strings.Join(answer.Warnings, "\n")
			if !answer.Allowed || !strings.Contains(said, c.says) || c.hides != "" && strings.Contains(said, c.hides) {
				t.Errorf("%s: a %s: allowed is %t: %+v, %q", name, kind, answer.Allowed, answer.Result, said)
			}
			s.planner = presentPlanner{err: errors.New("no cache")}
			if said := strings.Join(reviewSpec(t, s, kind, c.old, c.spec).Warnings, "\n"); strings.Contains(said, noResources) {
				t.Errorf("%s: a %s whose defaults are not known: %q", name, kind, said)
			}
		}
	}
}
