package controllers

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	appv1 "huolala.cn/app-operator/api/v1"
)

// valuesOfDefaults has a valid value of each field of Defaults, as JSON, with further fields that it needs.
var valuesOfDefaults = map[string]string{
	"labels": `{"a":"b"}`, "annotations": `{"a":"b"}`, "workloadLabels": `{"a":"b"}`, "workloadAnnotations": `{"a":"b"}`,
	"podLabels": `{"a":"b"}`, "podAnnotations": `{"a":"b"}`, "size": `"small"`, "resources": `{"limits":{"memory":"1Gi"}}`,
	"containerName": `"main"`, "containerPorts": `[{"name":"admin","containerPort":9000}]`, "envs": `[{"name":"A","value":"b"}]`,
	"envFrom": `[{"configMapRef":{"name":"c"}}]`, "service": `{"type":"ClusterIP"}`, "strategy": `"RollingUpdate"`, "rollingUpdate": `"50%"`,
	"maxSurge": `2`, "maxUnavailable": `1`, "minReadySeconds": `5`, "revisionHistoryLimit": `3`, "progressDeadlineSeconds": `300`,
	"probes": `{"disabled":true}`, "lifecycle": `{"preStop":{"sleep":{"seconds":5}}}`, "securityContext": `{"runAsNonRoot":true}`,
	"securityProfile": `"restricted"`, "volumeMounts": `[{"name":"tmp","mountPath":"/tmp"}]`, "volumes": `[{"name":"tmp","emptyDir":{}}]`,
	"initContainers": `[{"name":"init","image":"i:1"}]`, "containers": `[{"name":"side","image":"s:1"}]`, "automountServiceAccountToken": `true`,
	"imagePullSecrets": `[{"name":"pull"}]`, "podSecurityContext": `{"fsGroup":1000}`, "nodeSelector": `{"a":"b"}`, "tolerations": `[{"key":"a","operator":"Exists"}]`,
	"affinity": `{"podAntiAffinity":{}}`, "topologySpreadConstraints": `[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"ScheduleAnyway"}]`,
	"terminationGracePeriodSeconds": `60`, "priorityClassName": `"high"`, "runtimeClassName": `"gvisor"`, "dnsPolicy": `"Default"`,
	"dnsConfig": `{"searches":["example.com"]}`, "hostAliases": `[{"ip":"10.0.0.1","hostnames":["a"]}]`, "serviceAccount": `{}`,
	"autoscaling": `{"maxReplicas":3},"size":"small"`, "disruptionBudget": `{}`, "networkPolicy": `{}`, "podMonitor": `{"port":"http"}`, "configRollout": `"OnChange"`,
	"rollback": `"OnStall"`,
}

// TestChangedDefaultsChangeNothing adds each field of the defaults to the AppDefaults of the operator's namespace and removes it again: an App or a
// ModelBox that is not changed has its status written, and none of its objects.
func TestChangedDefaultsChangeNothing(t *testing.T) {
	var fields []string
	for field := range reflect.TypeFor[appv1.Defaults]().Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			fields = append(fields, name)
		}
	}
	slices.Sort(fields)
	if known := slices.Sorted(maps.Keys(valuesOfDefaults)); len(fields) == 0 || !slices.Equal(fields, known) {
		t.Fatalf("the fields are %q, values are known of %q", fields, known)
	}
	forNames(t, []string{"App", "ModelBox"}, func(t *testing.T, kind string) {
		w := newWorld(t, newStored(t, kindNamed(t, kind), `{"image":"nginx:1","replicas":1,"ports":[{"name":"http","port":80}]}`))
		w.settle(kind)
		account := w.accountOfPods()
		for _, field := range fields {
			for _, spec := range []string{fmt.Sprintf(`{"defaults":{%q:%s}}`, field, valuesOfDefaults[field]), `{}`} {
				w.setDefaults("platform", spec)
				w.settle(kind)
				w.settle(kind)
				if kind == "App" && strings.HasPrefix(w.defaultsInUse(), "invalid") {
					t.Errorf("%s with %s: %s", field, spec, w.defaultsInUse())
				}
				for _, request := range w.requests {
					if !strings.HasPrefix(request, "status ") {
						t.Errorf("%s with %s: %s", field, spec, request)
					}
				}
			}
		}
		if got := w.accountOfPods(); got != account {
			t.Errorf("the pods run as %q, and ran as %q", got, account)
		}
	})
}

// accountOfPods returns the account in the pod template of the Deployment.
func (w *world) accountOfPods() string {
	w.t.Helper()
	return w.deployment().Spec.Template.Spec.ServiceAccountName
}
