package validation

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
)

// servedApp returns an App with two TCP ports and one of UDP, a cpu request, and the given fields of the spec.
func servedApp(t *testing.T, fields string) *appv1.App {
	t.Helper()
	const common = `{"image":"nginx:1","resources":{"requests":{"cpu":"100m"}},"ports":[{"name":"http","port":80},{"port":9090},{"name":"dns","port":53,"protocol":"UDP"}]}`
	app := &appv1.App{}
	app.Name = "web"
	for _, text := range []string{common, fields} {
		data, err := yaml.YAMLToJSONStrict([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		// Not yaml.Unmarshal, which leaves empty objects behind where it has looked for a field.
		if err := json.Unmarshal(data, &app.Spec); err != nil {
			t.Fatal(err)
		}
	}
	return app
}

// TestServingFaults checks the field and the words for each mistake that the schema does not find.
func TestServingFaults(t *testing.T) {
	for fields, want := range map[string]string{
		`ingress: {rules: [{host: a.example.com}], port: web}`:                                   "spec.ingress.port: Invalid value: \"web\": must be the name or the number of one of the TCP ports in spec.ports: http, 9090",
		`ingress: {rules: [{host: a.example.com}], port: 81}`:                                    "spec.ingress.port: Invalid value: \"81\": must be the name",
		`httpRoute: {parentRefs: [{name: a}], port: dns}`:                                        "spec.httpRoute.port: Invalid value: \"dns\": port 53 is UDP; set it to a TCP port",
		`{ports: null, ingress: {rules: [{host: a.example.com}]}}`:                               "spec.ingress: Invalid value: requires ports",
		`ingress: {rules: [{host: "http://a"}]}`:                                                 "spec.ingress.rules[0].host: Invalid value",
		`ingress: {rules: [{host: 10.0.0.1}]}`:                                                   "without scheme, port and path",
		`ingress: {rules: [{host: a.example.com, paths: [/, api]}]}`:                             "spec.ingress.rules[0].paths[1]: Invalid value",
		`ingress: {rules: [{host: a.example.com, paths: [/a//b]}]}`:                              "must not contain //",
		`ingress: {rules: [{host: a.example.com}], annotations: {app.huolala.cn/adopt: "true"}}`: "spec.ingress.annotations",
		`autoscaling: {minReplicas: 2, maxReplicas: 1}`:                                          "spec.autoscaling.maxReplicas: Invalid value",
		`{resources: {requests: null}, autoscaling: {maxReplicas: 2}}`:                           "scaling by cpu utilization requires a cpu request",
		`autoscaling: {maxReplicas: 2, targetMemoryUtilizationPercentage: 80}`:                   "scaling by memory utilization requires a memory request",
		`autoscaling: {maxReplicas: 2, targetCPUUtilizationPercentage: 1, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 1}}}]}`: "spec.autoscaling.metrics",
		`disruptionBudget: {minAvailable: 1, maxUnavailable: 1}`:                                                                                                                 "spec.disruptionBudget",
		`networkPolicy: {ingress: [{from: [{}]}]}`:                                                                                                                               "spec.networkPolicy.ingress[0].from[0]: Required value",
		`networkPolicy: {ingress: [{from: [{ipBlock: {cidr: 10.0.0.0}}]}]}`:                                                                                                      "spec.networkPolicy.ingress[0].from[0].ipBlock.cidr",
		`networkPolicy: {egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [11.0.0.0/16]}}]}]}`:                                                                                "spec.networkPolicy.egress[0].to[0].ipBlock.except[0]",
		`networkPolicy: {egress: [{ports: [{port: 80, endPort: 79}]}]}`:                                                                                                          "spec.networkPolicy.egress[0].ports[0].endPort",
		`httpRoute: {parentRefs: [{name: a}, {name: a, kind: Gateway}]}`:                                                                                                         "spec.httpRoute.parentRefs[1]: Invalid value: is the same parent as parentRefs[0]",
		`httpRoute: {parentRefs: [{name: a, sectionName: x}, {name: a}]}`:                                                                                                        "spec.httpRoute.parentRefs[1]",
		`httpRoute: {parentRefs: [{name: a, port: 1}, {name: b}, {name: a, port: 1}]}`:                                                                                           "spec.httpRoute.parentRefs[2]: Invalid value: is the same parent as parentRefs[0]",
		`httpRoute: {parentRefs: [{name: a}], paths: ["/a b"]}`:                                                                                                                  "spec.httpRoute.paths[0]",
		`httpRoute: {parentRefs: [{name: a}], paths: ["/a?b=c"]}`:                                                                                                                "spec.httpRoute.paths[0]",
		`httpRoute: {parentRefs: [{name: a}], paths: ["/%2z"]}`:                                                                                                                  "spec.httpRoute.paths[0]",
		`autoscaling: {maxReplicas: 3, metrics: [{type: Pod, pods: {metric: {name: a}, target: {type: AverageValue, averageValue: 1}}}]}`:                                        "spec.autoscaling.metrics[0]",
		`autoscaling: {maxReplicas: 3, metrics: [{type: Pods}]}`:                                                                                                                 "spec.autoscaling.metrics[0].pods: Required value: type Pods needs it",
		`autoscaling: {maxReplicas: 3, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 0}}}]}`:                                  "averageUtilization: Invalid value: 0: must be greater than 0",
		`autoscaling: {maxReplicas: 3, metrics: [{type: External, external: {metric: {name: a/b}, target: {type: Value, value: 1}}}]}`:                                           "spec.autoscaling.metrics[0].external.metric.name",
		`autoscaling: {maxReplicas: 3, metrics: [{type: Object, object: {metric: {name: a}, describedObject: {kind: A, name: a}, target: {type: Value}}}]}`:                      "set either value or averageValue",
		`autoscaling: {maxReplicas: 3, metrics: [{type: ContainerResource, containerResource: {name: cpus, container: a, target: {type: Utilization, averageUtilization: 1}}}]}`: "containerResource.name",
		`autoscaling: {maxReplicas: 3, behavior: {scaleUp: {selectPolicy: Most}}}`:                                                                                               "spec.autoscaling.behavior.scaleUp.selectPolicy: Unsupported value",
		`autoscaling: {maxReplicas: 3, behavior: {scaleDown: {stabilizationWindowSeconds: 3601}}}`:                                                                               "must be from 0 to 3600",
		`autoscaling: {maxReplicas: 3, behavior: {scaleDown: {policies: [{type: Pods, value: 1, periodSeconds: 0}]}}}`:                                                           "spec.autoscaling.behavior.scaleDown.policies[0].periodSeconds",
		`{serviceAccount: {}, serviceAccountName: x}`:                                                                                                                            "spec.serviceAccount: Invalid value",
		`{rollback: OnStall, revisionHistoryLimit: 0}`:                                                                                                                           "spec.rollback: Invalid value: OnStall needs old ReplicaSets",
		`podMonitor: {labels: {app.kubernetes.io/managed-by: x}}`:                                                                                                                "spec.podMonitor.labels",
		`podMonitor: {labels: {app.kubernetes.io/component: x}}`:                                                                                                                 "spec.podMonitor.labels[app.kubernetes.io/component]: Forbidden",
	} {
		errs := App(servedApp(t, fields))
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", fields, errs, want)
		}
		// The block that is wrong is left out.
		spec := servedApp(t, fields).Spec.ServingSpec
		if valid := ValidServing(&spec, errs, field.NewPath("spec")); slices.ContainsFunc(features, func(f feature) bool { return f.stated(valid) }) {
			t.Errorf("%s: the block counts as valid", fields)
		}
	}
	good := `{serviceAccount: {}, disruptionBudget: {}, ingress: {port: 9090, pathType: ImplementationSpecific, rules: [{host: "*.example.com", paths: ["/a//b"]}]},
		autoscaling: {maxReplicas: 3}, networkPolicy: {egress: []}, httpRoute: {parentRefs: [{name: a}]}, podMonitor: {}, configRollout: OnChange}`
	if errs := App(servedApp(t, good)); len(errs) > 0 {
		t.Error(errs)
	}
}

// TestServingWarnings checks what is allowed and seldom meant.
func TestServingWarnings(t *testing.T) {
	for fields, want := range map[string]string{
		`{service: {clusterIP: None}, ingress: {rules: [{host: a}]}}`:                                                                                           "spec.ingress: leads to a headless Service",
		`disruptionBudget: {minAvailable: 1}`:                                                                                                                   "",
		`{replicas: 1, disruptionBudget: {minAvailable: 1}}`:                                                                                                    "spec.disruptionBudget.minAvailable: is 1 and the smallest number of pods is 1",
		`{replicas: 2, disruptionBudget: {minAvailable: 1}}`:                                                                                                    "",
		`{replicas: 2, disruptionBudget: {minAvailable: 60%}}`:                                                                                                  "spec.disruptionBudget.minAvailable: is 60% and the smallest number of pods is 2",
		`{replicas: 2, disruptionBudget: {minAvailable: 50%}}`:                                                                                                  "",
		`networkPolicy: {egress: []}`:                                                                                                                           "spec.networkPolicy.egress: does not allow port 53",
		`networkPolicy: {egress: [{ports: [{port: 53, protocol: UDP}]}]}`:                                                                                       "",
		`{ingress: {rules: [{host: a}]}, networkPolicy: {ingress: []}}`:                                                                                         "but ingress is set",
		`{podMonitor: {}, networkPolicy: {ingress: [{from: [{podSelector: {}}]}]}}`:                                                                             "but podMonitor is set",
		`ingress: {rules: [{host: a}, {host: b, paths: [/, /api, /api/]}]}`:                                                                                     "spec.ingress.rules[1].paths[2]: is the same as ingress.rules[1].paths[1] with pathType Prefix",
		`ingress: {pathType: Exact, rules: [{host: a, paths: [/api, /api/]}]}`:                                                                                  "",
		`httpRoute: {parentRefs: [{name: a}], paths: [/api/, /api]}`:                                                                                            "spec.httpRoute.paths[1]: is the same as httpRoute.paths[0] with pathType PathPrefix",
		`httpRoute: {parentRefs: [{name: a}], pathType: Exact, paths: [/api/, /api]}`:                                                                           "",
		`{ingress: {rules: [{host: a}]}, networkPolicy: {ingress: [{}]}}`:                                                                                       "",
		`networkPolicy: {ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}]}]}`:                                                            "",
		`networkPolicy: {ingress: [{from: [{ipBlock: {cidr: 10.0.0.1/8}}]}]}`:                                                                                   "spec.networkPolicy.ingress[0].from[0].ipBlock.cidr: Invalid value",
		`networkPolicy: {ingress: [], egress: [{to: [{ipBlock: {cidr: "::ffff:10.0.0.0/104"}}], ports: [{port: 53}]}]}`:                                         "spec.networkPolicy.egress[0].to[0].ipBlock.cidr: Invalid value",
		`networkPolicy: {ingress: [{from: [{}, {ipBlock: {cidr: 10.0.0.0/8, except: [10.0.0.0/16, 10.1.2.3/16]}}]}]}`:                                           "spec.networkPolicy.ingress[0].from[1].ipBlock.except[1]: Invalid value",
		`ingress: {rules: [{host: a}], className: nginx, annotations: {kubernetes.io/ingress.class: alb}}`:                                                      "spec.ingress.className: differs from the annotation",
		`{annotations: {kubernetes.io/ingress.class: alb}, ingress: {rules: [{host: a}], className: nginx}}`:                                                    "spec.ingress.className: differs from the annotation",
		`{annotations: {kubernetes.io/ingress.class: alb}, ingress: {rules: [{host: a}], className: nginx, annotations: {kubernetes.io/ingress.class: nginx}}}`: "",
		`ingress: {rules: [{host: a}], annotations: {kubernetes.io/ingress.class: alb}}`:                                                                        "",
	} {
		app := servedApp(t, fields)
		said := servingWarnings(&app.Spec.ServingSpec, &Effective{Workload: &app.Spec.WorkloadSpec, Serving: &app.Spec.ServingSpec}, nil)
		if want == "" && len(said) > 0 || want != "" && !slices.ContainsFunc(said, func(s string) bool { return strings.Contains("spec."+s, want) || strings.Contains(s, want) }) {
			t.Errorf("%s: %q, want %q", fields, said, want)
		}
	}
}

// TestFeatures refuses each field that is switched off, keeps the others, and knows all fields.
func TestFeatures(t *testing.T) {
	app := servedApp(t, `{serviceAccount: {}, disruptionBudget: {}, ingress: {rules: [{host: a}]}, autoscaling: {maxReplicas: 3},
		networkPolicy: {egress: []}, httpRoute: {parentRefs: [{name: a}]}, podMonitor: {}, configRollout: OnChange, canary: {},
		beforeRollout: {command: [migrate]}}`)
	for _, name := range Features() {
		if name == FeatureTask { // A kind, and no field.
			if errs := DisabledTask([]string{name}); len(errs) != 1 {
				t.Errorf("%s: %v", name, errs)
			}
			continue
		}
		errs := append(DisabledFeatures(&app.Spec.ServingSpec, []string{name}, nil), DisabledReleases(&app.Spec.ReleaseSpec, []string{name}, nil)...)
		if len(errs) != 1 || errs[0].Field != name {
			t.Errorf("%s: %v", name, errs)
		}
	}
	if _, err := ParseFeatures("ingress, autoscaling"); err != nil {
		t.Error(err)
	}
	if _, err := ParseFeatures("ingres"); err == nil {
		t.Error("a feature that there is not is taken")
	}
}
