package integration

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

// oneOfValues are the members of each one-of that a pod template has in a list or struct whose parts have owners of their own,
// with the least that the API server takes of each.
var oneOfValues = map[reflect.Type]map[string]string{
	reflect.TypeFor[corev1.ProbeHandler](): {
		"exec": `{"command": ["true"]}`, "httpGet": `{"port": 80}`, "tcpSocket": `{"port": 80}`, "grpc": `{"port": 80}`,
	},
	reflect.TypeFor[corev1.LifecycleHandler](): {
		"exec": `{"command": ["true"]}`, "httpGet": `{"port": 80}`, "tcpSocket": `{"port": 80}`, "sleep": `{"seconds": 1}`,
	},
	reflect.TypeFor[corev1.EnvVarSource](): {
		"fieldRef": `{"fieldPath": "metadata.name"}`, "resourceFieldRef": `{"resource": "limits.cpu"}`,
		"configMapKeyRef": `{"name": "a", "key": "b"}`, "secretKeyRef": `{"name": "a", "key": "b"}`,
	},
	reflect.TypeFor[corev1.VolumeSource](): {
		"hostPath": `{"path": "/a"}`, "emptyDir": `{}`, "gcePersistentDisk": `{"pdName": "a"}`, "awsElasticBlockStore": `{"volumeID": "a"}`,
		"gitRepo": `{"repository": "a"}`, "secret": `{"secretName": "a"}`, "nfs": `{"server": "a", "path": "/a"}`,
		"iscsi": `{"targetPortal": "a", "iqn": "iqn.2001-04.com.example:a", "lun": 1}`, "glusterfs": `{"endpoints": "a", "path": "a"}`,
		"persistentVolumeClaim": `{"claimName": "a"}`, "rbd": `{"monitors": ["a"], "image": "a"}`, "flexVolume": `{"driver": "a/b"}`,
		"cinder": `{"volumeID": "a"}`, "cephfs": `{"monitors": ["a"]}`, "flocker": `{"datasetName": "a"}`, "downwardAPI": `{}`,
		"fc": `{"targetWWNs": ["a"], "lun": 1}`, "azureFile": `{"secretName": "a", "shareName": "a"}`, "configMap": `{"name": "a"}`,
		"vsphereVolume": `{"volumePath": "a"}`, "quobyte": `{"registry": "a:1", "volume": "a"}`,
		"azureDisk": `{"diskName": "a", "diskURI": "https://a.example/b"}`, "photonPersistentDisk": `{"pdID": "a"}`,
		"projected": `{"sources": [{"configMap": {"name": "a"}}]}`, "portworxVolume": `{"volumeID": "a"}`,
		"scaleIO": `{"gateway": "a", "system": "a", "secretRef": {"name": "a"}, "volumeName": "a"}`, "storageos": `{"volumeName": "a"}`,
		"csi":       `{"driver": "a"}`,
		"ephemeral": `{"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}`,
		"image":     `{"reference": "a:1"}`,
	},
}

// notStated are members that no template here states, and why.
var notStated = map[string]string{
	"EnvVarSource.fileKeyRef": "it needs a volume of the container",
}

// memberSince are members that older API servers do not know or drop, with the minor version of Kubernetes that has them on.
var memberSince = map[string]int{"VolumeSource.image": 35}

// pair is two members of one one-of: the one that is stated, and the one that is there instead.
type pair struct{ ours, theirs string }

// pairsOf returns all ordered pairs of members that the API server knows, and fails the test if the table lacks one.
func pairsOf(t *testing.T, of reflect.Type) []pair {
	t.Helper()
	var names []string
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		_, known := oneOfValues[of][name]
		if reason := notStated[of.Name()+"."+name]; known == (reason != "") {
			t.Errorf("%s.%s is in the table of values: %t, and in that of what is not stated: %q", of.Name(), name, known, reason)
		}
		if known && plane.Minor(t) >= memberSince[of.Name()+"."+name] {
			names = append(names, name)
		}
	}
	var pairs []pair
	for _, ours := range names {
		for _, theirs := range names {
			if ours != theirs {
				pairs = append(pairs, pair{ours, theirs})
			}
		}
	}
	return pairs
}

// memberJSON returns a member of a one-of as JSON has it, next to other fields.
func memberJSON(of reflect.Type, name string, others ...string) map[string]any {
	parts := map[string]any{name: json.RawMessage(oneOfValues[of][name])}
	for i := 0; i+1 < len(others); i += 2 {
		parts[others[i]] = others[i+1]
	}
	return parts
}

// podsOf returns what two writers state of a pod, each by one side of the pairs: containers that have three handlers each, or
// variables, or volumes.
func podsOf(of reflect.Type, pairs []pair) (ours, theirs map[string]any) {
	side := func(choose func(pair) string) map[string]any {
		var containers, volumes, variables []any
		places := map[reflect.Type][]string{
			reflect.TypeFor[corev1.ProbeHandler]():     {"livenessProbe", "readinessProbe", "startupProbe"},
			reflect.TypeFor[corev1.LifecycleHandler](): {"preStop", "postStart"},
		}[of]
		for i, p := range pairs {
			name := fmt.Sprint("x", i)
			switch of.Name() {
			case "VolumeSource":
				volumes = append(volumes, memberJSON(of, choose(p), "name", name))
				continue
			case "EnvVarSource":
				variables = append(variables, map[string]any{"name": name, "valueFrom": memberJSON(of, choose(p))})
				continue
			}
			if i%len(places) == 0 {
				containers = append(containers, map[string]any{"name": name, "image": "a:1", "command": []string{name}})
			}
			c := containers[len(containers)-1].(map[string]any) //nolint:forcetypeassert // It was made above.
			if of.Name() == "ProbeHandler" {
				c[places[i%len(places)]] = memberJSON(of, choose(p))
				continue
			}
			hooks, _ := c["lifecycle"].(map[string]any)
			if hooks == nil {
				hooks = map[string]any{}
			}
			hooks[places[i%len(places)]] = memberJSON(of, choose(p))
			c["lifecycle"] = hooks
		}
		if len(variables) > 0 {
			containers = append(containers, map[string]any{"name": "x", "image": "a:1", "command": []string{"x"}, "env": variables})
		}
		spec := map[string]any{}
		if len(containers) > 0 {
			spec["containers"] = containers
		}
		if len(volumes) > 0 {
			spec["volumes"] = volumes
		}
		return map[string]any{"spec": spec}
	}
	return side(func(p pair) string { return p.ours }), side(func(p pair) string { return p.theirs })
}

// replaceParts has a pod consist of what another writer states, next to what that leaves out.
func replaceParts(pod *corev1.PodSpec, theirs *corev1.PodSpec) {
	for _, c := range theirs.Containers {
		i := slices.IndexFunc(pod.Containers, func(has corev1.Container) bool { return has.Name == c.Name })
		pod.Containers[i] = c
	}
	for _, v := range theirs.Volumes {
		i := slices.IndexFunc(pod.Volumes, func(has corev1.Volume) bool { return has.Name == v.Name })
		pod.Volumes[i] = v
	}
}

// TestEveryAlternativeIsRepaired has each member of each one-of replaced by each other one, many at once in a few Apps. They
// are repaired in one pass: one template for the edit and one for the repair.
func TestEveryAlternativeIsRepaired(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	const most = 150 // A patch of a pod template is limited in bytes.
	for of := range oneOfValues {
		n := 0
		for pairs := range slices.Chunk(pairsOf(t, of), most) {
			name := fmt.Sprint(strings.ToLower(of.Name()), n)
			n++
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ours, theirs := podsOf(of, pairs)
				app := newApp(ns, name)
				app.Spec.PodTemplatePatch = &runtime.RawExtension{Raw: marshalJSON(t, ours)}
				d, _ := createInPlace(t, app)
				want, generation := d.Spec.Template.DeepCopy(), d.Generation
				var template corev1.PodTemplateSpec
				if err := json.Unmarshal(marshalJSON(t, theirs), &template); err != nil {
					t.Fatal(err)
				}
				plane.Change(t, d, func() { replaceParts(&d.Spec.Template.Spec, &template.Spec) }, client.FieldOwner("kubectl-patch"))
				comesBack(t, app, d, want, generation)
			})
		}
	}
}

// comesBack waits until a Deployment that was edited once has its pod template again, in one step, and checks that a new image
// then rolls out.
func comesBack(t *testing.T, app *appv1.App, d *appsv1.Deployment, want *corev1.PodTemplateSpec, generation int64) {
	t.Helper()
	plane.Until(t, d, func() error {
		if diff := cmp.Diff(want, &d.Spec.Template); diff != "" {
			return fmt.Errorf("not repaired: %v\n%.2000s", listEvents(t, app), diff)
		}
		return nil
	})
	setImage(t, app, "nginx:2")
	plane.Until(t, d, func() error {
		if mainOf(d).Image != "nginx:2" {
			return fmt.Errorf("the image does not roll out: %v", app.Status.Conditions)
		}
		return nil
	})
	if n := d.Generation - generation; n != 3 {
		t.Errorf("the generation went up by %d, want one for the edit, one for the repair and one for the image", n)
	}
	plane.Stands(t, app, progressing...)
}
