package webhooks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/resource"
)

// presentPlanner is a secretPlanner with other AppDefaults that count.
type presentPlanner struct {
	secretPlanner
	present resource.PresentDefaults
	err     error
}

func (p presentPlanner) Present(context.Context, string) (resource.PresentDefaults, error) {
	return p.present, p.err
}

// curedSpecs are specs of Apps and ModelBoxes called web that are valid with AppDefaults and not without.
var curedSpecs = map[string]struct{ defaults, spec string }{
	"a mount of a default volume": {`volumes: [{name: ca, emptyDir: {}}]`, `{"image":"a:1","volumeMounts":[{"name":"ca","mountPath":"/ca"}]}`},
	"a mount of a further container": {`volumes: [{name: ca, emptyDir: {}}]`,
		`{"image":"a:1","containers":[{"name":"b","image":"b:1","volumeMounts":[{"name":"ca","mountPath":"/ca"}]}]}`},
	"a device": {`volumes: [{name: disk, persistentVolumeClaim: {claimName: a}}]`,
		`{"image":"a:1","initContainers":[{"name":"b","image":"b:1","volumeDevices":[{"name":"disk","devicePath":"/dev/a"}]}]}`},
	"a mount of a patch": {`volumes: [{name: ca, emptyDir: {}}]`,
		`{"image":"a:1","podTemplatePatch":{"spec":{"containers":[{"name":"web","volumeMounts":[{"name":"ca","mountPath":"/ca"}]}]}}}`},
	"an autoscaler with a default size":     {`size: small`, `{"image":"a:1","autoscaling":{"maxReplicas":3}}`},
	"an autoscaler with default resources":  {`resources: {requests: {cpu: 1}}`, `{"image":"a:1","autoscaling":{"maxReplicas":3}}`},
	"a port of a default container":         {`containers: [{name: proxy, image: 'a:1', ports: [{name: in, containerPort: 8080}]}]`, `{"image":"a:1","ports":[{"port":80,"targetPort":"in"}]}`},
	"a port of another protocol":            {`containers: [{name: proxy, image: 'a:1', ports: [{name: in, containerPort: 8080, protocol: UDP}]}]`, `{"image":"a:1","ports":[{"port":80,"targetPort":"in","protocol":"UDP"}]}`},
	"a probe of a default port":             {`containerPorts: [{name: admin, containerPort: 9}]`, `{"image":"a:1","probes":{"readiness":{"httpGet":{"port":"admin"}}}}`},
	"a hook of a default port":              {`containerPorts: [{name: admin, containerPort: 9}]`, `{"image":"a:1","lifecycle":{"preStop":{"httpGet":{"port":"admin"}}}}`},
	"a probe of a patch":                    {`containerPorts: [{name: admin, containerPort: 9}]`, `{"image":"a:1","podTemplatePatch":{"spec":{"containers":[{"name":"web","readinessProbe":{"httpGet":{"port":"admin"}}}]}}}`},
	"a scraped port":                        {`containerPorts: [{name: admin, containerPort: 9}]`, `{"image":"a:1","podMonitor":{"port":"admin"}}`},
	"the number of a scraped port":          {`containerPorts: [{name: admin, containerPort: 9}]`, `{"image":"a:1","podMonitor":{"port":9}}`},
	"any scraped port":                      {`containerPorts: [{name: admin, containerPort: 9}]`, `{"image":"a:1","podMonitor":{}}`},
	"a sleep within a default grace period": {`terminationGracePeriodSeconds: 120`, `{"image":"a:1","lifecycle":{"preStop":{"sleep":{"seconds":60}}}}`},
	"a time within a default deadline":      {`progressDeadlineSeconds: 1200`, `{"image":"a:1","minReadySeconds":600}`},
	"a container of the App's name":         {`containerName: main`, `{"image":"a:1","containers":[{"name":"web","image":"b:1"}]}`},
	"a patch of a default container":        {`containers: [{name: proxy, image: 'a:1'}]`, `{"image":"a:1","podTemplatePatch":{"spec":{"containers":[{"name":"proxy","tty":true}]}}}`},
	"a patch of a default port": {`containers: [{name: proxy, image: 'a:1', ports: [{name: admin, containerPort: 9}]}]`,
		`{"image":"a:1","podTemplatePatch":{"spec":{"containers":[{"name":"proxy","readinessProbe":{"httpGet":{"port":"admin"}}}]}}}`},
	"a patch of the default main container": {`containerName: main`, `{"image":"a:1","podTemplatePatch":{"spec":{"containers":[{"name":"main","tty":true}]}}}`},
	"a patch of a default init container":   {`initContainers: [{name: init, image: 'a:1'}]`, `{"image":"a:1","podTemplatePatch":{"spec":{"initContainers":[{"name":"init","tty":true}]}}}`},
	"an annotation of a default container": {`containers: [{name: proxy, image: 'a:1'}]`,
		`{"image":"a:1","podAnnotations":{"container.apparmor.security.beta.kubernetes.io/proxy":"unconfined"}}`},
	"a propagation of a default privilege": {`securityContext: {privileged: true}`,
		`{"image":"a:1","volumes":[{"name":"a","emptyDir":{}}],"volumeMounts":[{"name":"a","mountPath":"/a","mountPropagation":"Bidirectional"}]}`},
	"a file of a default volume": {`volumes: [{name: ca, emptyDir: {}}]`, `{"image":"a:1","envs":[{"name":"A","valueFrom":{"fileKeyRef":{"volumeName":"ca","path":"a","key":"A"}}}]}`},
	"a file of a further container": {`volumes: [{name: ca, emptyDir: {}}]`,
		`{"image":"a:1","initContainers":[{"name":"b","image":"b:1","env":[{"name":"A","valueFrom":{"fileKeyRef":{"volumeName":"ca","path":"a","key":"A"}}}]}]}`},
	"a file of a patch": {`{volumes: [{name: ca, emptyDir: {}}], containers: [{name: proxy, image: 'a:1'}]}`,
		`{"image":"a:1","podTemplatePatch":{"spec":{"containers":[{"name":"proxy","env":[{"name":"A","valueFrom":{"fileKeyRef":{"volumeName":"ca","path":"a","key":"A"}}}]}]}}}`},
	"a scraped port of a default container": {`containers: [{name: proxy, image: 'a:1', ports: [{name: admin, containerPort: 9}]}]`,
		`{"image":"a:1","containerPorts":[{"name":"http","containerPort":80}],"podMonitor":{"port":"admin"}}`},
	"the number of a scraped port of a default container": {`containers: [{name: proxy, image: 'a:1', ports: [{name: admin, containerPort: 9}]}]`,
		`{"image":"a:1","containerPorts":[{"name":"http","containerPort":80}],"podMonitor":{"port":9}}`},
	"a patch of a default probe": {`probes: {readiness: {exec: {command: [a]}}}`,
		`{"image":"a:1","podTemplatePatch":{"spec":{"containers":[{"name":"web","readinessProbe":{"periodSeconds":9}}]}}}`},
	"a patch of a probe of a default container": {`containers: [{name: proxy, image: 'a:1', livenessProbe: {exec: {command: [a]}}}]`,
		`{"image":"a:1","podTemplatePatch":{"spec":{"containers":[{"name":"proxy","livenessProbe":{"periodSeconds":9}}]}}}`},
	"a patch of a default hook": {`lifecycle: {preStop: {exec: {command: [a]}}}`,
		`{"image":"a:1","podTemplatePatch":{"spec":{"containers":[{"name":"web","lifecycle":{"preStop":{}}}]}}}`},
	"a probe of a default sidecar": {`initContainers: [{name: proxy, image: 'a:1', restartPolicy: Always}]`,
		`{"image":"a:1","podTemplatePatch":{"spec":{"initContainers":[{"name":"proxy","livenessProbe":{"exec":{"command":["a"]}}}]}}}`},
	"pages next to a default size": {`size: small`,
		`{"image":"a:1","podTemplatePatch":{"spec":{"containers":[{"name":"web","resources":{"limits":{"hugepages-2Mi":"2Mi"}}}]}}}`},
	"a mount of a default path": {`{volumes: [{name: ca, emptyDir: {}}], volumeMounts: [{name: ca, mountPath: /ca}]}`,
		`{"image":"a:1","podTemplatePatch":{"spec":{"containers":[{"name":"web","volumeMounts":[{"mountPath":"/ca","readOnly":true}]}]}}}`},
	"ranges of a default type": {`service: {type: LoadBalancer}`,
		`{"image":"a:1","ports":[{"port":80}],"annotations":{"service.beta.kubernetes.io/load-balancer-source-ranges":"10.0.0.0/8"}}`},
}

// TestUnknownDefaultsRefuseNothing creates resources that depend on AppDefaults. Where these are not known, an error that some AppDefaults remove is no
// refusal, and an error that none removes is.
func TestUnknownDefaultsRefuseNothing(t *testing.T) {
	unknown := map[string]func(*validators){
		"beyond the rate":  func(s *validators) { s.limits.looks = newPaces(0, 0, rate{time.Hour, 0}) },
		"unreadable":       func(s *validators) { s.planner = presentPlanner{err: errors.New("no cache")} },
		"invalid defaults": func(s *validators) { s.planner = presentPlanner{present: resource.PresentDefaults{Unknown: "shop"}} },
	}
	const wrong = `,"hostAliases":[{"ip":"nowhere"}]}`
	for name, c := range curedSpecs {
		for _, kind := range []string{"App", "ModelBox"} {
			s, _ := secretWorld(t)
			if answer := reviewSpec(t, s, kind, "", c.spec); answer.Allowed {
				t.Errorf("%s: a %s without AppDefaults is allowed: %q", name, kind, answer.Warnings)
			}
			var defaults appv1.AppDefaultsSpec
			if err := yaml.UnmarshalStrict([]byte(c.defaults), &defaults.Defaults); err != nil {
				t.Fatal(err)
			}
			s.planner = presentPlanner{present: resource.LayerDefaults(&defaults)}
			if answer := reviewSpec(t, s, kind, "", c.spec); !answer.Allowed {
				t.Errorf("%s: a %s with AppDefaults is refused: %s", name, kind, answer.Result.Message)
			}
			for state, forget := range unknown {
				s, _ := secretWorld(t)
				forget(s)
				answer := reviewSpec(t, s, kind, "", c.spec)
				if said := strings.Join(answer.Warnings, "\n"); !answer.Allowed || !strings.Contains(said, messageDefaultsUnknown) {
					t.Errorf("%s: a %s, %s: allowed is %t: %+v, %q", name, kind, state, answer.Allowed, answer.Result, said)
				}
				answer = reviewSpec(t, s, kind, "", strings.TrimSuffix(c.spec, "}")+wrong)
				if answer.Allowed || !strings.Contains(answer.Result.Message, "spec.hostAliases[0].ip") {
					t.Errorf("%s: a %s with an own error, %s, is allowed: %q", name, kind, state, answer.Warnings)
				}
			}
		}
	}
}

// TestUnknownDefaultsRefuseOwnErrors creates resources that no AppDefaults make valid, where the AppDefaults are not known.
func TestUnknownDefaultsRefuseOwnErrors(t *testing.T) {
	for name, spec := range map[string]string{
		"a volume that is done without":       `{"image":"a:1","volumeMounts":[{"name":"ca","mountPath":"/ca"}],"withoutDefaults":["volumes"]}`,
		"an autoscaler without a request":     `{"image":"a:1","autoscaling":{"maxReplicas":3},"resources":{"limits":{"memory":"1Gi"}}}`,
		"a sleep beyond the grace period":     `{"image":"a:1","lifecycle":{"preStop":{"sleep":{"seconds":60}}},"terminationGracePeriodSeconds":10}`,
		"a deadline that is too short":        `{"image":"a:1","minReadySeconds":60,"progressDeadlineSeconds":60}`,
		"a probe of an own container":         `{"image":"a:1","containers":[{"name":"b","image":"b:1","readinessProbe":{"httpGet":{"port":"admin"}}}]}`,
		"a probe where ports are stated":      `{"image":"a:1","probes":{"readiness":{"httpGet":{"port":"admin"}}},"containerPorts":[{"name":"other","containerPort":9}]}`,
		"a root that must not be one":         `{"image":"a:1","securityContext":{"runAsNonRoot":true,"runAsUser":0}}`,
		"two containers of a name":            `{"image":"a:1","containers":[{"name":"b","image":"b:1"},{"name":"b","image":"b:1"}]}`,
		"a route without ports":               `{"image":"a:1","httpRoute":{}}`,
		"a container without an image":        `{"image":"a:1","containers":[{"name":"b"}]}`,
		"a patch that is none":                `{"image":"a:1","podTemplatePatch":{"spec":{"containers":{}}}}`,
		"an envs item with two sources":       `{"image":"a:1","envs":[{"name":"A","value":"1","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]}`,
		"a volume that none can be":           `{"image":"a:1","volumeMounts":[{"name":"CA","mountPath":"/ca"}]}`,
		"a file of a volume that none can be": `{"image":"a:1","envs":[{"name":"A","valueFrom":{"fileKeyRef":{"volumeName":"c_a","path":"a","key":"A"}}}]}`,
		"a port that none can be":             `{"image":"a:1","ports":[{"port":80,"targetPort":"8080"}]}`,
		"a probe of a port that none can be":  `{"image":"a:1","probes":{"readiness":{"httpGet":{"port":"8080"}}}}`,
		"a container that none can be":        `{"image":"a:1","podTemplatePatch":{"spec":{"containers":[{"name":"A_B","tty":true}]}}}`,
		"an annotated container of no name":   `{"image":"a:1","podAnnotations":{"container.apparmor.security.beta.kubernetes.io/A_B":"unconfined"}}`,
		"ranges of a Service of another kind": `{"image":"a:1","ports":[{"port":80}],"service":{"type":"ClusterIP"},"annotations":{"service.beta.kubernetes.io/load-balancer-source-ranges":"10.0.0.0/8"}}`,
	} {
		for _, kind := range []string{"App", "ModelBox"} {
			s, _ := secretWorld(t)
			s.limits.looks = newPaces(0, 0, rate{time.Hour, 0})
			if answer := reviewSpec(t, s, kind, "", spec); answer.Allowed {
				t.Errorf("%s: a %s is allowed: %q", name, kind, answer.Warnings)
			}
		}
	}
}

// TestManyMountsOfADefaultVolume creates an App with more mounts of a default volume than errors are listed.
func TestManyMountsOfADefaultVolume(t *testing.T) {
	mounts := make([]string, 0, 2*validation.MaxErrors)
	for i := range cap(mounts) {
		mounts = append(mounts, fmt.Sprintf(`{"name":"ca","mountPath":"/ca/%d"}`, i))
	}
	s, _ := secretWorld(t)
	spec := fmt.Sprintf(`{"image":"a:1","volumeMounts":[%s]}`, strings.Join(mounts, ","))
	if answer := reviewSpec(t, s, "App", "", spec); answer.Allowed {
		t.Error("without AppDefaults, the App is allowed")
	}
	s.planner = presentPlanner{present: resource.LayerDefaults(&appv1.AppDefaultsSpec{Defaults: appv1.Defaults{Volumes: []corev1.Volume{{Name: "ca", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}}})}
	if answer := reviewSpec(t, s, "App", "", spec); !answer.Allowed {
		t.Errorf("the App is refused: %.300s", answer.Result.Message)
	}
	s.planner = presentPlanner{err: errors.New("no cache")}
	if answer := reviewSpec(t, s, "App", "", spec); !answer.Allowed {
		t.Errorf("while AppDefaults are not known, the App is refused: %.300s", answer.Result.Message)
	}
	wrong := strings.TrimSuffix(spec, "}") + `,"hostAliases":[` + strings.TrimSuffix(strings.Repeat(`{"ip":"nowhere"},`, 2*validation.MaxErrors), ",") + `]}`
	if answer := reviewSpec(t, s, "App", "", wrong); answer.Allowed {
		t.Error("an App with as many errors of its own is allowed")
	}
}

// TestNamedModelBoxWithUnknownDefaults patches the probe of the main container of a ModelBox that states the container's name.
func TestNamedModelBoxWithUnknownDefaults(t *testing.T) {
	const spec = `{"name":"model","image":"a:1","podTemplatePatch":{"spec":{"containers":[{"name":"model","readinessProbe":{"httpGet":{"port":"admin"}}}]}}}`
	s, _ := secretWorld(t)
	if answer := reviewSpec(t, s, "ModelBox", "", spec); answer.Allowed {
		t.Error("without AppDefaults, the ModelBox is allowed")
	}
	s.planner = presentPlanner{err: errors.New("no cache")}
	if answer := reviewSpec(t, s, "ModelBox", "", spec); !answer.Allowed {
		t.Errorf("the ModelBox is refused: %s", answer.Result.Message)
	}
}
