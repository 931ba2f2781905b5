package controllers

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/tiers"
	"huolala.cn/app-operator/internal/workload"
)

// countNames returns the number of names that a memory has, over all owners in its field owners.
func countNames(memory reflect.Value) int {
	count := 0
	for owners := memory.Elem().FieldByName("owners").MapRange(); owners.Next(); {
		count += owners.Value().Len()
	}
	return count
}

// TestMemoryOfRenamedDeployments has a UnitedDeployment without a template name another Deployment again and again. Each one lacks the operator's label, has the
// controller of the UnitedDeployment, never becomes ready, is scaled by another client, and is deleted. The memory has one name at most.
func TestMemoryOfRenamedDeployments(t *testing.T) {
	const kindName, names = "UnitedDeployment", 3
	w := newWorld(t, newStored(t, kindNamed(t, kindName), `{"deploymentName":"d","replicas":3}`))
	key := func(name string) workload.Key {
		return workload.Key{Manager: kindNamed(t, kindName).manager, Owner: webKey, Workload: name}
	}
	read := 0
	for i := range names {
		name := fmt.Sprint("d-", i)
		d := newPlainDeployment(name, 3)
		d.ObjectMeta, d.Status = controlledBy(name, kindName, "web", "1"), appsv1.DeploymentStatus{Replicas: 3, UnavailableReplicas: 3}
		w.create(d)
		w.setSpec(kindName, `{"deploymentName":"`+name+`","replicas":3}`)
		w.settle(kindName)
		read = max(read, countNames(reflect.ValueOf(w.PodCauses)))
		w.Records.RememberReplaced(key(name), "1", ptr.To[int32](3))
		for range 2 {
			w.read(d)
			d.Spec.Replicas = ptr.To[int32](9)
			w.update(d)
			w.settle(kindName)
		}
		for of, memory := range map[string]reflect.Value{
			"causes": reflect.ValueOf(w.PodCauses), "records": reflect.ValueOf(w.Records), "fights": reflect.ValueOf(w.Engine).Elem().FieldByName("conflicts"),
		} {
			if n := countNames(memory); n != 1 {
				t.Fatalf("%s: %d names are remembered after %d Deployments, want 1", of, n, i+1)
			}
		}
		w.remove(d)
	}
	if read == 0 {
		t.Error("no pods were read")
	}
}

// TestRememberedNames has a tier that states a name, has another one in force, and has a Service of a third component, with a name of its own.
func TestRememberedNames(t *testing.T) {
	plan := &tiers.Plan{Tiers: make([]tiers.State, 3)}
	plan.Tiers[0].Name = "inforce"
	plan.Tiers[0].Previous = []client.Object{&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "data-headless"}, Spec: corev1.ServiceSpec{Selector: map[string]string{appv1.LabelPart: "data"}},
	}}
	observed := make([]observedTier, len(plan.Tiers))
	observed[0].stated = "stated"
	got := rememberedNames(plan, observed)
	for _, want := range []string{"inforce", "stated", "data"} {
		if !slices.Contains(got, want) {
			t.Errorf("the memory of %s is not kept, but that of %q", want, got)
		}
	}
}

// TestMemoryOfRenamedTiers has a component of a CloudManager get another name: what is remembered of the former name stays for as long as it has objects, and what
// is remembered of other names goes.
func TestMemoryOfRenamedTiers(t *testing.T) {
	spec := tieredSpec("nginx:1")
	w := newRunningTiers(t, spec)
	key := func(name string) workload.Key {
		return workload.Key{Manager: kindNamed(t, tieredKind).manager, Owner: webKey, Workload: name}
	}
	keeps := func(what string, want ...string) {
		t.Helper()
		var kept []string
		for _, name := range []string{"front", "gate", "id", "old"} {
			if w.Records.Recall(key(name), "1").Replaced != nil {
				kept = append(kept, name)
			}
		}
		if got := strings.Join(kept, " "); got != strings.Join(want, " ") {
			t.Errorf("%s: remembered are %q, want %q", what, got, want)
		}
	}
	for _, name := range []string{"front", "gate", "id", "old"} {
		w.Records.RememberReplaced(key(name), "1", ptr.To[int32](3))
	}
	w.settle(tieredKind)
	keeps("before", "front", "id")
	w.setSpec(tieredKind, strings.Replace(spec, `"name":"front"`, `"name":"gate"`, 1))
	w.settle(tieredKind)
	w.Records.RememberReplaced(key("gate"), "1", ptr.To[int32](3))
	w.settle(tieredKind)
	keeps("renamed", "front", "gate", "id")
	w.makeTierAvailable("gate", 1)
	for range 3 {
		w.settle(tieredKind)
	}
	if w.read(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "front"}}) {
		t.Fatal("the former Deployment is still there")
	}
	keeps("replaced", "gate", "id")
	w.stands("replaced", tieredKind, appv1.ConditionReady+"=True/Ready")
}
