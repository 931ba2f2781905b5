package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// stackTasks are what CloudManagers do in several requests. All but create begin with one that is up.
var stackTasks = map[string]func(*appv1.CloudManager){
	"create": nil,
	"grow":   func(cm *appv1.CloudManager) { cm.Spec.DB.StatefulSet.Storage.Size = resource.MustParse("30Gi") },
	"rename": func(cm *appv1.CloudManager) {
		cm.Spec.DB.StatefulSet.Name, cm.Spec.Front.Deployment.Name = cm.Name+"-db2", cm.Name+"-front2"
	},
	// The volumes were to go with the old database, and are not any more.
	"retain": func(cm *appv1.CloudManager) {
		cm.Spec.DB.StatefulSet.Name = cm.Name + "-db2"
		cm.Spec.DB.StatefulSet.Storage.Retain = ptr.To(true)
	},
}

// leastStackRequests are how many requests each task takes at least; see leastRequests.
var leastStackRequests = map[string]int{"create": 10, "grow": 4, "rename": 12, "retain": 12}

// stackVictim is a CloudManager in whose task one request goes wrong.
type stackVictim struct {
	cm           *appv1.CloudManager
	task, mishap string
	request      int32
	sent         atomic.Int32
	password     string
	template     corev1.PodTemplateSpec
}

// stackTrial is many CloudManagers under one manager; see trial.
type stackTrial struct {
	namespace, class string
	deadly           bool
	victims          map[string]*stackVictim
}

// victimOf returns the CloudManager that a request is about: its name begins those of its objects.
func (tr *stackTrial) victimOf(q harness.Request) *stackVictim {
	parts := strings.Split(strings.TrimPrefix(q.Name, "datadir-"), "-")
	if len(parts) < 3 {
		return nil
	}
	return tr.victims[strings.Join(parts[:3], "-")]
}

func (tr *stackTrial) fault(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
	v := tr.victimOf(q)
	if v == nil || !q.Write() && q.Verb != "get" {
		return send()
	}
	switch n := v.sent.Add(1); {
	case v.mishap == "":
	case n == v.request:
		return mishaps[v.mishap](q, send)
	case n > v.request && tr.deadly:
		return nil, errRefused
	}
	return send()
}

func (tr *stackTrial) add(task, mishap string, request int) {
	name := fmt.Sprintf("%s-%s-%d", task, mishap, request)
	if mishap == "" {
		name = task + "-undisturbed-0"
	}
	cm := newCloudManager(tr.namespace)
	cm.Name = name
	cm.Spec.DB.StatefulSet.Name, cm.Spec.Identity.Deployment.Name, cm.Spec.Front.Deployment.Name = "", "", ""
	cm.Spec.DB.RootPass, cm.Spec.DB.StatefulSet.Storage.Class = "", &tr.class
	if task == "retain" {
		cm.Spec.DB.StatefulSet.Storage.Retain = ptr.To(false)
	}
	tr.victims[name] = &stackVictim{cm: cm, task: task, mishap: mishap, request: int32(request)}
}

func (tr *stackTrial) each(t *testing.T, do func(*stackVictim)) {
	t.Helper()
	list := slices.Collect(maps.Values(tr.victims))
	forEachNumber(t, len(list), func(i int) { do(list[i]) })
}

// run carries out all tasks, and returns once the manager that does it has nothing left to do.
func (tr *stackTrial) run(t *testing.T) *harness.Manager {
	t.Helper()
	playControllers(t, tr.namespace)
	m := plane.Start(t, tr.namespace)
	tr.each(t, func(v *stackVictim) {
		if v.task == "create" {
			return
		}
		plane.Create(t, v.cm)
		awaitPhase(t, v.cm, appv1.PhaseReady, "Ready=True")
		claim := namedClaim(tr.namespace, "datadir-"+v.cm.Name+"-db-0")
		claim.Labels[appv1.LabelCloudManager], claim.Spec.StorageClassName = v.cm.Name, &tr.class
		claim.Annotations[appv1.AnnotationRetainedFor] = "CloudManager." + v.cm.Name
		claim.Spec.VolumeName = claim.Name
		plane.Create(t, claim)
		plane.ChangeStatus(t, claim, func() { claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, claim.Spec.Resources.Requests })
		set, secret := namedStatefulSet(tr.namespace, v.cm.Name+"-db"), namedSecret(tr.namespace, v.cm.Name+"-dbauth")
		plane.Read(t, set)
		plane.Read(t, secret)
		v.password, v.template = string(secret.Data["password"]), set.Spec.Template
	})
	m.Idle(t)
	m.Stop(t)
	tr.each(t, func(v *stackVictim) {
		if change := stackTasks[v.task]; change != nil {
			plane.Read(t, v.cm)
			plane.Change(t, v.cm, func() { change(v.cm) })
		} else {
			plane.Create(t, v.cm)
		}
	})
	m = plane.Start(t, tr.namespace, harness.WithFault(tr.fault))
	if tr.deadly {
		harness.Eventually(t, func() error { return tr.struck(t) })
		m.Stop(t)
		m = plane.Start(t, tr.namespace)
	}
	tr.each(t, func(v *stackVictim) { awaitPhase(t, v.cm, appv1.PhaseReady, "Ready=True", "Stalled=False") })
	m.Idle(t)
	return m
}

// struck returns an error while a manager has yet to die for a CloudManager that is not up.
func (tr *stackTrial) struck(t *testing.T) error {
	for name, v := range tr.victims {
		if v.sent.Load() >= v.request {
			continue
		}
		cm := v.cm.DeepCopy()
		if err := plane.Client.Get(t.Context(), client.ObjectKeyFromObject(cm), cm); err != nil {
			return err
		}
		// What a run takes is not always the same to the last status write.
		if cm.Status.Phase != appv1.PhaseReady || cm.Status.ObservedGeneration != cm.Generation {
			return fmt.Errorf("%s: %d requests were sent", name, v.sent.Load())
		}
	}
	return nil
}

// check looks at what has become of a CloudManager.
func (v *stackVictim) check(t *testing.T) {
	t.Helper()
	ns, name := v.cm.Namespace, v.cm.Name
	db, front := name+"-db", name+"-front"
	switch v.task {
	case "rename":
		db, front = name+"-db2", name+"-front2"
	case "retain":
		db = name + "-db2"
	}
	want := []string{
		"Deployment " + front, "Deployment " + name + "-identity", "Secret " + db + "auth",
		"Service " + db, "Service " + db + "-headless", "Service " + front, "StatefulSet " + db,
	}
	if db == name+"-db2" {
		want = append(want, "Secret "+name+"-dbauth")
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, objectsNamed(t, ns, name+"-")); diff != "" {
		t.Errorf("%s has (-want +got):\n%s", name, diff)
	}
	secret := namedSecret(ns, name+"-dbauth")
	plane.Read(t, secret)
	if is := string(secret.Data["password"]); v.password != "" && is != v.password || !strong.MatchString(is) || len(secret.OwnerReferences) > 0 {
		t.Errorf("%s: the Secret has %q, and %+v", name, is, secret.OwnerReferences)
	}
	if v.task != "grow" {
		return
	}
	set, claim := namedStatefulSet(ns, db), namedClaim(ns, "datadir-"+db+"-0")
	plane.Read(t, set)
	plane.Read(t, claim)
	if diff := cmp.Diff(v.template, set.Spec.Template); diff != "" {
		t.Errorf("%s: the pods restart (-before +after):\n%s", name, diff)
	}
	for _, size := range []*resource.Quantity{
		set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage(), claim.Spec.Resources.Requests.Storage(),
	} {
		if size.String() != "30Gi" {
			t.Errorf("%s: volumes of %s", name, size)
		}
	}
}

// objectsNamed returns the objects whose names begin so, each as "Kind name".
func objectsNamed(t testing.TB, namespace, prefix string) []string {
	t.Helper()
	var found []string
	for kind, list := range map[string]client.ObjectList{
		"StatefulSet": &appsv1.StatefulSetList{}, "Deployment": &appsv1.DeploymentList{},
		"Service": &corev1.ServiceList{}, "Secret": &corev1.SecretList{},
	} {
		if err := plane.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		for _, obj := range objectsOf(t, list) {
			if strings.HasPrefix(obj.GetName(), prefix) && obj.GetDeletionTimestamp() == nil {
				found = append(found, kind+" "+obj.GetName())
			}
		}
	}
	slices.Sort(found)
	return found
}

// newStackTrial returns a trial in a namespace of its own, with a class whose volumes can grow.
func newStackTrial(t *testing.T, deadly bool) *stackTrial {
	t.Helper()
	ns := plane.Namespace(t)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: ns}, Provisioner: "example.com/none", AllowVolumeExpansion: ptr.To(true)}
	plane.Create(t, class)
	t.Cleanup(func() { _ = plane.Client.Delete(context.Background(), class) })
	return &stackTrial{namespace: ns, class: ns, deadly: deadly, victims: map[string]*stackVictim{}}
}

// stackCrash is a request of a task that goes wrong.
type stackCrash struct {
	task    string
	request int
}

// TestCloudManagerCrash lets each request of each task go wrong: with a manager that goes on, and with one that dies at that moment and
// has a successor. The short form has a quarter of them, each with one of the two. The end must be the same, with one password and the same pods.
func TestCloudManagerCrash(t *testing.T) {
	t.Parallel()
	calm := newStackTrial(t, false)
	for task := range stackTasks {
		calm.add(task, "", 0)
	}
	calm.run(t)
	requests := map[string]int{}
	for _, v := range calm.victims {
		v.check(t)
		requests[v.task] = int(v.sent.Load())
		if least := leastStackRequests[v.task]; requests[v.task] < least {
			t.Fatalf("%s takes %d requests, want at least %d", v.task, requests[v.task], least)
		}
	}
	chosen, turns := fixture.Part(t), fixture.Turns(t, false, true)
	cases := map[bool][]stackCrash{}
	for _, task := range slices.Sorted(maps.Keys(requests)) {
		for request := range requests[task] {
			if !chosen() {
				continue
			}
			for _, deadly := range turns() {
				cases[deadly] = append(cases[deadly], stackCrash{task, request + 1})
			}
		}
	}
	for name, c := range map[string]struct {
		deadly bool
		mishap string
	}{
		"and the manager goes on": {false, "lost"},
		"and the manager dies":    {true, "refused"},
	} {
		// One after the other: each has as many CloudManagers as there are requests, and the other tests run next to.
		t.Run(name, func(t *testing.T) {
			tr := newStackTrial(t, c.deadly)
			for _, at := range cases[c.deadly] {
				tr.add(at.task, c.mishap, at.request)
			}
			m := tr.run(t)
			tr.each(t, func(v *stackVictim) { v.check(t) })
			m.Stop(t)
			m = plane.Start(t, tr.namespace)
			checkRequests(t, m, "restart", map[string]int{})
			if errs := tr.missed(); errs != nil {
				t.Error(errs)
			}
		})
	}
}

// missed returns an error if more than a few requests could not go wrong, as they were never sent.
func (tr *stackTrial) missed() error {
	var missed []string
	for name, v := range tr.victims {
		if v.sent.Load() < v.request {
			missed = append(missed, name)
		}
	}
	if len(missed)*5 > len(tr.victims) {
		return errors.New("requests that were never sent: " + strings.Join(missed, ", "))
	}
	return nil
}
