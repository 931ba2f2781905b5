package workload

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// reaching are all fields of our specs that name a namespace, or can hold one, with what comes of it. docs/security.md has
// the same in words.
var reaching = map[string]string{
	"NetworkPolicyPeer.namespaceSelector":   "Kubernetes': pods of those namespaces may reach the App's, or be reached; none is read or changed",
	"ParentRef.namespace":                   "the Gateway API's: the owner of the Gateway must allow it by allowedRoutes; nothing is read or changed",
	"ObjectMeta.namespace":                  "of a template of claims: refused by the API server (TestTenancy)",
	"ObjectMeta.ownerReferences":            "as ObjectMeta.namespace",
	"OwnerReference.blockOwnerDeletion":     "as ObjectMeta.namespace",
	"PodAffinityTerm.namespaces":            "Kubernetes': pods of those namespaces sway on which node a pod is put; none is read or changed",
	"PodAffinityTerm.namespaceSelector":     "as PodAffinityTerm.namespaces",
	"StorageOSVolumeSource.volumeNamespace": "a namespace of StorageOS', a driver that Kubernetes no longer has",
	"TypedObjectReference.namespace":        "Kubernetes': of a claim's source; the owner of that namespace must allow it by a ReferenceGrant",
	"PodFields.podTemplatePatch":            "a patch of any fields: namespace, name and owners of a template count for nothing (TestTenancy)",
}

// TestFieldsThatReach looks at every field of our specs, however deep. One that could name another namespace is in the table
// above, so that anyone who brings a new one, and be it with a newer Kubernetes, says where it ends.
func TestFieldsThatReach(t *testing.T) {
	t.Parallel()
	found, seen := map[string]string{}, map[reflect.Type]bool{}
	for _, k := range fixture.Kinds {
		walk(k.Spec, seen, found)
	}
	if len(seen) < 100 {
		t.Errorf("only %d types were looked at", len(seen))
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(reaching)), slices.Sorted(maps.Keys(found))); diff != "" {
		t.Errorf("fields that can name a namespace (-known +found):\n%s", diff)
	}
}

// walk notes the fields of a type, and of those that it is made of.
func walk(typ reflect.Type, seen map[reflect.Type]bool, found map[string]string) {
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		walk(typ.Elem(), seen, found)
	case reflect.Struct:
		if seen[typ] {
			return
		}
		seen[typ] = true
		for i := range typ.NumField() {
			field := typ.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			low := strings.ToLower(name)
			free := field.Type == reflect.TypeFor[runtime.RawExtension]() || field.Type == reflect.TypeFor[*runtime.RawExtension]()
			if free || strings.Contains(low, "namespace") || strings.Contains(low, "owner") && !strings.Contains(low, "ownership") {
				found[typ.Name()+"."+name] = ""
			}
			walk(field.Type, seen, found)
		}
	}
}

// TestTenancy has resources of one namespace name another one in every field that lets them. The manager, which may work in
// both, sends no request there, and nothing comes to be there.
func TestTenancy(t *testing.T) {
	t.Parallel()
	ns, other := plane.Namespace(t), plane.Namespace(t)
	victim := newForeign(other)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "secret"}, StringData: map[string]string{"password": "secret of " + other}}
	plane.Create(t, victim, secret)
	plane.Read(t, victim)
	m := plane.Start(t, ns, harness.WithNamespaces(other))
	m.Idle(t)
	m.Requests.Reset()

	app := newApp(ns)
	app.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{
			TopologyKey: corev1.LabelHostname, Namespaces: []string{other}, NamespaceSelector: &metav1.LabelSelector{},
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"run": "web"}},
		}}},
	}}
	app.Spec.PodTemplatePatch = &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"metadata": {"namespace": %q, "name": "web", "generateName": "web-",
		"uid": %q, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": %[2]q, "controller": true}]}}`,
		other, victim.UID)}
	plane.Create(t, app)
	ready(t, app)
	for _, pod := range pods(t, ns) {
		if owner := metav1.GetControllerOf(&pod); owner == nil || owner.Kind != "ReplicaSet" {
			t.Errorf("pod %s belongs to %v", pod.Name, pod.OwnerReferences)
		}
	}

	claims := newModelBox(ns)
	claims.Name = "claims"
	claims.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{Namespace: other, OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "Deployment", Name: victim.Name, UID: victim.UID},
			}},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceStorage: resource.MustParse("1Gi"),
				}},
			},
		},
	}}}}
	plane.Create(t, claims)
	plane.Stands(t, claims, "Stalled=True/Invalid")
	harness.Says(t, claims, "Stalled", "volumeClaimTemplate")
	climbs(t, ns, other)

	m.Idle(t)
	for _, q := range m.Requests.All() {
		if strings.Contains(q.Path, other) {
			t.Errorf("a request to another namespace: %s", q)
		}
	}
	now := read(t, named[appsv1.Deployment](other, victim.Name))
	if *now.Spec.Replicas != 1 || len(now.OwnerReferences) > 0 {
		t.Errorf("the Deployment of another namespace was touched: %+v", now.ObjectMeta)
	}
	if running := pods(t, other); len(running) != 1 {
		t.Errorf("%d pods in another namespace, want its own", len(running))
	}
}

// climbs names objects of another namespace by a path out of this one. Such a name is refused, or leads nowhere.
func climbs(t *testing.T, ns, other string) {
	t.Helper()
	for _, up := range []string{other + "/web", "../../../../apis/apps/v1/namespaces/" + other + "/deployments/web", ".."} {
		ud := newUnited(ns)
		ud.Spec.DeploymentName = up
		if err := plane.Client.Create(t.Context(), ud); !apierrors.IsInvalid(err) {
			t.Errorf("a UnitedDeployment of the Deployment %q: %v", up, err)
		}
	}
	for i, up := range []string{other + "/secret", "../../" + other + "/secrets/secret", "%2e%2e%2f%2e%2e%2f" + other + "%2fsecrets%2fsecret"} {
		cm := newCloudManager(ns)
		cm.Name = fmt.Sprint("climbs-", i)
		cm.Spec.DB.StatefulSet.Name = fmt.Sprint("climbs-db-", i)
		cm.Spec.DB.RootPassSecretRef = &appv1.SecretKeyRef{Name: up}
		if err := plane.Client.Create(t.Context(), cm); err != nil {
			if !apierrors.IsInvalid(err) {
				t.Errorf("a CloudManager with its password in the Secret %q: %v", up, err)
			}
			continue
		}
		plane.Stands(t, cm, "Ready=False")
		plane.Absent(t, named[corev1.Secret](ns, cm.Spec.DB.StatefulSet.Name+"auth"))
		plane.Absent(t, named[appsv1.StatefulSet](ns, cm.Spec.DB.StatefulSet.Name))
	}
	held := newUnited(ns)
	held.Name, held.Spec.DeploymentName, held.Spec.Replicas = "same-name", "none", ptr.To[int32](5)
	plane.Create(t, held)
	plane.Stands(t, held, "Ready=False/DeploymentNotFound")
}
