package integration

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// locatePath returns what a path leads to in an object, and functions that replace and remove it.
func locatePath(obj map[string]any, path fieldpath.Path) (found any, replace func(any), remove func()) {
	var at any = obj
	for _, element := range path {
		switch {
		case element.FieldName != nil:
			fields, name := at.(map[string]any), *element.FieldName
			found = fields[name]
			replace = func(v any) { fields[name] = v }
			remove = func() { delete(fields, name) }
		case element.Key != nil:
			list, put := at.([]any), replace
			i := findItem(list, element.Key)
			found = list[i]
			replace = func(v any) { list[i] = v }
			remove = func() { put(append(append([]any{}, list[:i]...), list[i+1:]...)) }
		default:
			panic("a set member: " + path.String())
		}
		at = found
	}
	return found, replace, remove
}

// findItem finds the item of a list that has the key.
func findItem(list []any, key *value.FieldList) int {
	for i, item := range list {
		matches := true
		for _, field := range *key {
			matches = matches && fmt.Sprint(item.(map[string]any)[field.Name]) == fmt.Sprint(field.Value.Unstructured())
		}
		if matches {
			return i
		}
	}
	panic(fmt.Sprintf("no item has the key %v", key))
}

// others are values that the API server takes in place of ours; any other string is changed at its end.
var others = map[string]any{
	"apiVersion":      "v2",
	"cpu":             "200m",
	"fieldRef":        map[string]any{"apiVersion": "v1", "fieldPath": "status.hostIP"},
	"imagePullPolicy": "Never",
	"ip":              "10.0.0.2",
	"maxSurge":        "30%",
	"maxUnavailable":  "30%",
	"memory":          "200Mi",
	"mountPath":       "/elsewhere",
	"sessionAffinity": "None",
	"protocol":        "SCTP",
	"targetPort":      int64(7),
	"type":            "NodePort",
}

// anotherValue returns another value for a field.
func anotherValue(name string, was any) any {
	if other, ok := others[name]; ok && reflect.TypeOf(other) == reflect.TypeOf(was) {
		return other
	}
	switch was := was.(type) {
	case string:
		return was + "x"
	case int64:
		return was + 1
	case bool:
		return !was
	case []any:
		return append(slices.Clone(was), was...)
	case map[string]any:
		added := runtime.DeepCopyJSON(was)
		if labels, ok := added["matchLabels"].(map[string]any); ok {
			labels["x"] = "y"
		}
		added["x"] = "y" // Of a type without such a field, the API server drops it.
		return added
	}
	panic(fmt.Sprintf("%s is a %T", name, was))
}

// What becomes of a change of a field of ours.
const (
	repaired = "repaired" // It is as it was.
	refused  = "refused"  // The API server lets nobody make it.
	same     = "same"     // The API server's default is what we want.
)

// unrepaired are the changes that need no repair. All others must be repaired.
var unrepaired = map[string]string{
	`Deployment .spec.selector changed`:                                                                                               refused,
	`Deployment .spec.selector removed`:                                                                                               refused,
	`Deployment .spec.strategy.rollingUpdate.maxSurge removed`:                                                                        same,
	`Deployment .spec.strategy.rollingUpdate.maxUnavailable removed`:                                                                  same,
	`Deployment .spec.strategy.type changed`:                                                                                          refused,
	`Deployment .spec.strategy.type removed`:                                                                                          same,
	`Deployment .spec.template.metadata.labels.app.huolala.cn/app changed`:                                                            refused,
	`Deployment .spec.template.metadata.labels.app.huolala.cn/app removed`:                                                            refused,
	`Deployment .spec.template.spec.containers[name="log"].image removed`:                                                             refused,
	`Deployment .spec.template.spec.containers[name="log"].imagePullPolicy removed`:                                                   same,
	`Deployment .spec.template.spec.containers[name="log"].resources changed`:                                                         same,
	`Deployment .spec.template.spec.containers[name="log"].resources removed`:                                                         same,
	`Deployment .spec.template.spec.containers[name="log"].securityContext changed`:                                                   same,
	`Deployment .spec.template.spec.containers[name="web"].env[name="IP"].valueFrom.fieldRef removed`:                                 refused,
	`Deployment .spec.template.spec.containers[name="web"].image removed`:                                                             refused,
	`Deployment .spec.template.spec.containers[name="web"].readinessProbe.failureThreshold removed`:                                   same,
	`Deployment .spec.template.spec.containers[name="web"].readinessProbe.tcpSocket.port removed`:                                     refused,
	`Deployment .spec.template.spec.containers[name="web"].volumeMounts[mountPath="/data"].name changed`:                              refused,
	`Deployment .spec.template.spec.containers[name="web"].volumeMounts[mountPath="/data"].name removed`:                              refused,
	`Deployment .spec.template.spec.serviceAccount changed`:                                                                           same,
	`Deployment .spec.template.spec.serviceAccount removed`:                                                                           same,
	`Deployment .spec.template.spec.serviceAccountName removed`:                                                                       same,
	`Deployment .spec.template.spec.topologySpreadConstraints[topologyKey="zone",whenUnsatisfiable="ScheduleAnyway"].maxSkew removed`: refused,
	`Deployment .spec.template.spec.volumes[name="data"] removed`:                                                                     refused,
	`Deployment .spec.template.spec.volumes[name="data"].emptyDir changed`:                                                            same,
	`Deployment .spec.template.spec.volumes[name="data"].emptyDir removed`:                                                            same,
	`Service .spec.ports[port=53,protocol="UDP"].name removed`:                                                                        refused,
	`Service .spec.ports[port=53,protocol="UDP"].port removed`:                                                                        refused,
	`Service .spec.ports[port=8080,protocol="TCP"].name removed`:                                                                      refused,
	`Service .spec.ports[port=8080,protocol="TCP"].port removed`:                                                                      refused,
	`Service .spec.ports[port=8080,protocol="TCP"].protocol removed`:                                                                  same,
	`Service .spec.sessionAffinityConfig.clientIP.timeoutSeconds removed`:                                                             same,
	`Service .spec.type removed`:                                                                                                      same,
}

// driftFields are fields of the spec next to those of newFullApp: one of each way in which the API server keeps what it is
// given, as whole lists and maps, as lists by key and as single fields.
const driftFields = `
service: {annotations: {example.com/of: service}, sessionAffinity: ClientIP}
labels: {team: red}
annotations: {example.com/of: both}
podAnnotations: {example.com/of: pod}
volumes: [{name: data, emptyDir: {}}, {name: info, projected: {sources: [{serviceAccountToken: {path: token}}]}}]
volumeMounts: [{name: data, mountPath: /data, readOnly: true}]
containers: [{name: log, image: log, securityContext: {}}]
serviceAccountName: robot
nodeSelector: {disk: ssd}
tolerations: [{operator: Exists}]
hostAliases: [{ip: 10.0.0.1, hostnames: [db]}]
imagePullSecrets: [{name: registry}]
terminationGracePeriodSeconds: 60
podSecurityContext: {runAsNonRoot: true}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
`

// TestDrift changes and removes each field that we apply, one at a time, as another writer does. All must be repaired. The short form
// does one of the two to each.
func TestDrift(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Deployment", "Service"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			clk := clocktesting.NewFakePassiveClock(time.Now())
			plane.Start(t, ns, harness.WithClock(clk))
			app := newFullApp(ns, "web")
			setFields(t, &app.Spec.WorkloadSpec, driftFields)
			d, s := createInPlace(t, app)
			child := map[string]client.Object{"Deployment": d, "Service": s}[kind]

			turns := fixture.Turns(t, "changed", "removed")
			found, tried := map[string]string{}, map[string]bool{}
			for path := range ownedFields(t, child).All() {
				path = path.Copy()
				for _, how := range turns() {
					// More repairs in a minute would count as a fight.
					clk.SetTime(clk.Now().Add(10 * time.Minute))
					what := fmt.Sprintf("%s %s %s", kind, path, how)
					tried[what] = true
					if outcome := driftField(t, plane, asUnstructured(t, plane, child), path, what); outcome != repaired {
						found[what] = outcome
					}
				}
			}
			want := maps.Clone(unrepaired)
			maps.DeleteFunc(want, func(what, _ string) bool { return !strings.HasPrefix(what, kind) || !fixture.Long && !tried[what] })
			if diff := cmp.Diff(want, found); diff != "" {
				t.Errorf("not repaired (-want +got):\n%s", diff)
			}
		})
	}
}

// editField changes or removes one field of an object, and reports whether there is an edit that would be a change of ours.
func editField(obj *unstructured.Unstructured, path fieldpath.Path, removed bool) bool {
	was, replace, remove := locatePath(obj.Object, path)
	switch last := path[len(path)-1]; {
	case isKey(path) && obj.GetKind() != "Service":
		return false // An item by another key is another owner's, next to ours; see TestOthersSurvive.
	case obj.GetKind() == "PodMonitor" && path.String() == ".spec.namespaceSelector":
		return false // It is empty, as if it were not there, and what others add to it is theirs.
	case removed:
		remove()
	case last.Key != nil:
		return false // An item is its fields, which are changed by themselves.
	default:
		replace(anotherValue(*last.FieldName, was))
	}
	return true
}

// driftField changes or removes one field of a live object, waits until it is as it was, and says what became of it.
func driftField(t *testing.T, p *harness.Plane, live *unstructured.Unstructured, path fieldpath.Path, what string) string {
	t.Helper()
	edited := live.DeepCopy()
	if !editField(edited, path, strings.HasSuffix(what, "removed")) {
		return repaired
	}
	wanted := withoutVersions(live)
	switch err := p.Client.Update(t.Context(), edited, intruder); {
	case apierrors.IsInvalid(err):
		return refused
	case err != nil:
		t.Fatalf("%s: %v", what, err)
	case cmp.Equal(wanted, withoutVersions(edited)):
		return same
	}
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(live.GroupVersionKind())
	now.SetNamespace(live.GetNamespace())
	now.SetName(live.GetName())
	p.Until(t, now, func() error {
		if err := diffOf(wanted, withoutVersions(now)); err != nil {
			return fmt.Errorf("%s %w", what, err)
		}
		return nil
	})
	return repaired
}

// isKey reports whether a path leads to a field that identifies an item of a list.
func isKey(path fieldpath.Path) bool {
	if len(path) < 2 || path[len(path)-2].Key == nil || path[len(path)-1].FieldName == nil {
		return false
	}
	for _, key := range *path[len(path)-2].Key {
		if key.Name == *path[len(path)-1].FieldName {
			return true
		}
	}
	return false
}

// TestDriftOfMetadata removes what makes a child ours, in part and altogether.
func TestDriftOfMetadata(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	for name, strip := range map[string]func(client.Object){
		"labels":           func(obj client.Object) { obj.SetLabels(nil) },
		"annotations":      func(obj client.Object) { obj.SetAnnotations(nil) },
		"owner":            func(obj client.Object) { obj.SetOwnerReferences(nil) },
		"owner-and-labels": func(obj client.Object) { obj.SetOwnerReferences(nil); obj.SetLabels(nil) },
		"controller": func(obj client.Object) {
			owners := obj.GetOwnerReferences()
			owners[0].Controller, owners[0].BlockOwnerDeletion = nil, nil
			obj.SetOwnerReferences(owners)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, s := createInPlace(t, newApp(ns, name))
			for _, child := range []client.Object{d, s} {
				live := asUnstructured(t, plane, child)
				edited := live.DeepCopy()
				strip(edited)
				if err := plane.Client.Update(t.Context(), edited, intruder); err != nil {
					t.Fatal(err)
				}
				plane.Until(t, edited, func() error { return diffOf(withoutVersions(live), withoutVersions(edited)) })
			}
		})
	}
}

// TestOthersSurvive adds things next to our fields. They must outlast every change of ours.
func TestOthersSurvive(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app := newFullApp(ns, "web")
	d, s := createInPlace(t, app)
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "another-owner"}}
	plane.Create(t, owner)
	for _, child := range []client.Object{d, s} {
		plane.Change(t, child, func() {
			child.GetLabels()["theirs"] = "label"
			child.GetAnnotations()["theirs"] = "annotation"
			child.SetOwnerReferences(append(child.GetOwnerReferences(),
				metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}))
		}, intruder)
	}
	plane.Change(t, d, func() {
		pod := &d.Spec.Template
		pod.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "now"}
		pod.Labels["theirs"] = "label"
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "sidecar", Image: "envoy"})
		pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: "THEIRS", Value: "1"})
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "theirs", Operator: corev1.TolerationOpExists}}
		d.Spec.MinReadySeconds = 5
	}, intruder)
	plane.Change(t, s, func() {
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		s.Spec.PublishNotReadyAddresses = true
	}, intruder)
	d, s = readChildren(t, app)
	wantPod, wantService := d.Spec.DeepCopy(), s.Spec.DeepCopy()

	plane.Change(t, app, func() {
		app.Spec.Image = "nginx:1.17"
		app.Spec.Envs = app.Spec.Envs[1:]
		app.Spec.Ports = app.Spec.Ports[:1]
	})
	plane.Stands(t, app, progressing...)
	wantPod.Template.Spec.Containers[0].Image = "nginx:1.17"
	wantPod.Template.Spec.Containers[0].Env = wantPod.Template.Spec.Containers[0].Env[1:]
	wantPod.Template.Spec.Containers[0].Ports = wantPod.Template.Spec.Containers[0].Ports[:1]
	wantService.Ports = wantService.Ports[:1]
	d, s = readChildren(t, app)
	if diff := cmp.Diff(wantPod, &d.Spec); diff != "" {
		t.Errorf("Deployment (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantService, &s.Spec); diff != "" {
		t.Errorf("Service (-want +got):\n%s", diff)
	}
	for _, child := range []client.Object{d, s} {
		if child.GetLabels()["theirs"] != "label" || child.GetAnnotations()["theirs"] != "annotation" || len(child.GetOwnerReferences()) != 2 {
			t.Errorf("metadata of %T is %v", child, child)
		}
	}
}

// TestDriftOfPorts renumbers a port of the Service in place, as "kubectl edit" does, and adds one: all of a Service's
// ports are the App's.
func TestDriftOfPorts(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	app.Spec.Ports[0].Name = "http"
	_, s := createInPlace(t, app)
	want := s.Spec.DeepCopy()
	for what, edit := range map[string]func(){
		"renumbered": func() { s.Spec.Ports[0].Port++ },
		"added":      func() { s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "another", Port: 1}) },
		"replaced":   func() { s.Spec.Ports = []corev1.ServicePort{{Port: 1}} },
	} {
		plane.Change(t, s, edit, intruder)
		plane.Until(t, s, func() error {
			if err := diffOf(want, &s.Spec); err != nil {
				return fmt.Errorf("%s %w", what, err)
			}
			return nil
		})
	}
	m.Idle(t)
	m.Requests.Reset()
	checkRequests(t, m, "after the repairs", map[string]int{})
}

// TestDeletedChild deletes each child. It must be recreated, once what holds it back has let it go.
func TestDeletedChild(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app := newApp(ns, "web")
	d, s := createInPlace(t, app)
	for _, child := range []client.Object{d, s} {
		live := asUnstructured(t, plane, child)
		plane.Delete(t, child)
		plane.Until(t, child, func() error {
			if child.GetUID() == live.GetUID() {
				return errors.New("it is still there")
			}
			return nil
		})

		uid := child.GetUID()
		plane.Change(t, child, func() { child.SetFinalizers([]string{"test.example.com/hold"}) })
		plane.Delete(t, child)
		plane.Until(t, app, func() error {
			if message := harness.Message(app, "Reconciling"); !strings.Contains(message, "web to be deleted") {
				return errors.New(message)
			}
			return nil
		})
		plane.Read(t, child)
		plane.Change(t, child, func() { child.SetFinalizers(nil) })
		plane.Until(t, child, func() error {
			if child.GetUID() == uid {
				return errors.New("it is still there")
			}
			return nil
		})
	}
}

// TestRemadeByOthers deletes a child and makes it again as it was, as "kubectl replace --force" and backup tools do. Its
// fields are then theirs, and yet one that leaves the spec must leave the child.
func TestRemadeByOthers(t *testing.T) {
	t.Parallel()
	for name, remake := range map[string]func(*testing.T, *appsv1.Deployment){
		"replaced": func(t *testing.T, d *appsv1.Deployment) {
			plane.Delete(t, d)
			d.UID, d.ResourceVersion, d.ManagedFields = "", "", nil
			if err := plane.Client.Create(t.Context(), d, client.FieldOwner("kubectl-replace")); err != nil {
				t.Fatal(err)
			}
		},
		"managed fields cleared": func(t *testing.T, d *appsv1.Deployment) {
			plane.Change(t, d, func() { d.ManagedFields = []metav1.ManagedFieldsEntry{{}} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			m := plane.Start(t, ns)
			app := newFullApp(ns, "web")
			d, _ := createInPlace(t, app)
			template := d.Spec.Template
			m.Stop(t)
			remake(t, d)

			m = plane.Start(t, ns)
			m.Idle(t)
			sameTemplate(t, d, template)
			plane.Read(t, app)
			plane.Change(t, app, func() { app.Spec.Envs, app.Spec.Args = app.Spec.Envs[:1], nil })
			plane.Stands(t, app, progressing...)
			template.Spec.Containers[0].Env, template.Spec.Containers[0].Args = template.Spec.Containers[0].Env[:1], nil
			sameTemplate(t, d, template)
		})
	}
}

// TestOrderOfVariables puts the variables into another order, which counts as $(NAME) sees the ones before it alone. One
// that a user has put between them stays there.
func TestOrderOfVariables(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	app.Spec.Envs = []corev1.EnvVar{{Name: "HOST", Value: "a"}, {Name: "URL", Value: "http://$(HOST)"}}
	plane.Create(t, app)
	plane.Stands(t, app, progressing...)
	d := deployment(app)

	plane.Read(t, d)
	plane.Change(t, d, func() { slices.Reverse(d.Spec.Template.Spec.Containers[0].Env) })
	harness.Eventually(t, func() error {
		plane.Read(t, d)
		if env := d.Spec.Template.Spec.Containers[0].Env; env[0].Name != "HOST" {
			return fmt.Errorf("the variables are %v", env)
		}
		return nil
	})

	plane.Change(t, d, func() {
		c := &d.Spec.Template.Spec.Containers[0]
		c.Env = slices.Insert(c.Env, 1, corev1.EnvVar{Name: "INJECTED", Value: "x"})
	})
	m.Idle(t)
	plane.Read(t, d)
	if env := d.Spec.Template.Spec.Containers[0].Env; len(env) != 3 || env[1].Name != "INJECTED" {
		t.Errorf("the variables are %v, want the injected one between ours", env)
	}
}
