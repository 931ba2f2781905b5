package chaos

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// hostile is the field manager of a controller that edits our children.
const hostile = "hostile-controller"

// victims are what a hostile controller edits: whose child it is, which one, what it makes of it, and what we write it with.
var victims = map[string]struct {
	owner  func(metav1.ObjectMeta) harness.Resource
	child  func(metav1.ObjectMeta) client.Object
	spoil  func(client.Object)
	writes string
}{
	"an App's Deployment": {
		owner:  newApp,
		child:  func(m metav1.ObjectMeta) client.Object { return &appsv1.Deployment{ObjectMeta: m} },
		spoil:  func(obj client.Object) { obj.(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Image = "theirs:1" },
		writes: "patch deployments",
	},
	"a ModelBox's Service": {
		owner:  newModelBox,
		child:  func(m metav1.ObjectMeta) client.Object { return &corev1.Service{ObjectMeta: m} },
		spoil:  func(obj client.Object) { obj.(*corev1.Service).Spec.Selector["theirs"] = "true" },
		writes: "patch services",
	},
	"a CloudManager's StatefulSet": {
		owner: newCloudManager,
		child: func(m metav1.ObjectMeta) client.Object {
			return &appsv1.StatefulSet{ObjectMeta: objectMeta(m.Namespace, m.Name+"-db")}
		},
		spoil:  func(obj client.Object) { obj.(*appsv1.StatefulSet).Spec.Template.Spec.Containers[0].Image = "theirs:1" },
		writes: "patch statefulsets",
	},
}

// TestHostileNeighbour has another controller undo at once whatever the manager writes of one child, without end. The
// manager repairs it five times, says whom it fights with, and then once in ten, twenty, forty seconds and so on.
func TestHostileNeighbour(t *testing.T) {
	t.Parallel()
	x, namespaces := oneManager(t, victims)
	for name, v := range victims {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := objectMeta(namespaces[name], "fought")
			owner := v.owner(m)
			plane.Create(t, owner)
			child := v.child(m)
			plane.Until(t, child, func() error { return nil })
			began := time.Now()
			spoils := oppose(t, v.child(m), v.spoil)
			plane.Until(t, owner, func() error {
				c := meta.FindStatusCondition(owner.CommonStatus().Conditions, appv1.ConditionStalled)
				if c == nil || c.Reason != appv1.ReasonFieldConflict || !strings.Contains(c.Message, hostile) {
					return fmt.Errorf("it does not say that it is fought over: %+v", c)
				}
				return nil
			})
			said := time.Since(began)
			pause(t, time.Duration(of(3, 90))*time.Second)
			took := time.Since(began)
			// The creation, five a minute, and one after each pause.
			least := 1 + 5
			most := least + 5*int(said.Minutes())
			for at, gap := 10*time.Second, 10*time.Second; at < took; gap *= 2 {
				most++
				at += 2 * gap
			}
			writes := writesIn(m.Namespace, x)[v.writes]
			if writes > most || writes < least {
				t.Errorf("%d writes in %s, want %d to %d", writes, took, least, most)
			}
			results.add(t, "hostile controller: "+name, int(spoils.Load()), []time.Duration{said},
				"until FieldConflict; %d repairs in %s", writes-1, took.Round(time.Second))
		})
	}
}

// oneManager runs one manager for a namespace of each of some cases.
func oneManager[C any](t *testing.T, cases map[string]C) (x *harness.Proxy, namespaces map[string]string) {
	t.Helper()
	namespaces = map[string]string{}
	for name := range cases {
		namespaces[name] = plane.Namespace(t)
	}
	x = plane.Proxy(t, nil)
	all := slices.Collect(maps.Values(namespaces))
	harness.Spawn(t, program, x.Config(), strings.Join(all, ",")).Ready(t)
	return x, namespaces
}

// writesIn counts what was written in one namespace, such as "patch deployments".
func writesIn(namespace string, x *harness.Proxy) map[string]int {
	counts := map[string]int{}
	for _, q := range x.Requests.All() {
		if q.Write() && q.Namespace == namespace {
			counts[q.Verb+" "+q.Resource]++
		}
	}
	return counts
}

// oppose is a controller that changes an object as soon as anyone has changed it back, and counts that.
func oppose(t *testing.T, obj client.Object, spoil func(client.Object)) *atomic.Int32 {
	t.Helper()
	var n atomic.Int32
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			now := obj.DeepCopyObject().(client.Object)
			if err := plane.Client.Get(ctx, client.ObjectKeyFromObject(obj), now); err == nil {
				before := now.DeepCopyObject().(client.Object)
				spoil(now)
				data, err := client.MergeFrom(before).Data(now)
				if err == nil && string(data) != "{}" &&
					plane.Client.Patch(ctx, now, client.MergeFrom(before), client.FieldOwner(hostile)) == nil {
					n.Add(1)
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return &n
}

// mutators are admission webhooks as clusters have them.
var mutators = map[string]struct {
	mutate func(template *corev1.PodTemplateSpec)
	// kept is true where nothing that we state is changed.
	kept bool
}{
	"a sidecar is injected": {kept: true, mutate: func(template *corev1.PodTemplateSpec) {
		for _, c := range template.Spec.Containers {
			if c.Name == "proxy" {
				return
			}
		}
		template.Spec.Containers = append(template.Spec.Containers, corev1.Container{Name: "proxy", Image: "proxy:1"})
		template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{Name: "certificates"})
		metav1.SetMetaDataAnnotation(&template.ObjectMeta, "proxy.example.com/injected", "true")
	}},
	"fields are defaulted": {kept: true, mutate: func(template *corev1.PodTemplateSpec) {
		for i := range template.Spec.Containers {
			if c := &template.Spec.Containers[i]; c.Resources.Requests == nil {
				c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
			}
		}
		if template.Spec.PriorityClassName == "" {
			template.Spec.Tolerations = []corev1.Toleration{{Key: "pool", Operator: corev1.TolerationOpExists}}
		}
	}},
	"the image is rewritten": {mutate: func(template *corev1.PodTemplateSpec) {
		for i := range template.Spec.Containers {
			if c := &template.Spec.Containers[i]; !strings.HasPrefix(c.Image, "mirror.example/") {
				c.Image = "mirror.example/" + c.Image
			}
		}
	}},
}

// TestMutatingWebhook has a real admission webhook change Deployments on their way in. What others add is left alone, what
// they change is said; nothing is written again and again.
func TestMutatingWebhook(t *testing.T) {
	t.Parallel()
	x, namespaces := oneManager(t, mutators)
	for name, m := range mutators {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespaces[name]
			calls := register(t, ns, m.mutate)
			app := newApp(objectMeta(ns, "web")).(*appv1.App)
			plane.Create(t, app)
			stands := []string{"Ready=True", "Reconciling=False", "Stalled=False"}
			perEdit := 1
			if !m.kept {
				stands, perEdit = []string{"Ready=True", "Applied=True/Overridden", "Stalled=False"}, 2 // It is tried once more.
			}
			plane.Stands(t, app, stands...)
			edits := of(2, 20)
			for n := range edits {
				plane.Read(t, app)
				plane.Change(t, app, func() { roll(&app.Spec.WorkloadSpec, n+1) })
				plane.Stands(t, app, stands...)
			}
			x.Requests.AwaitQuiet(t)
			d := &appsv1.Deployment{ObjectMeta: objectMeta(ns, "web")}
			plane.Read(t, d)
			mutated := d.Spec.Template.DeepCopy()
			if m.mutate(mutated); mutated.String() != d.Spec.Template.String() {
				t.Errorf("what the webhook makes of it is gone:\n%s", d.Spec.Template.String())
			}
			writes := writesIn(ns, x)["patch deployments"]
			if writes > perEdit*(edits+1) || calls.Load() == 0 {
				t.Errorf("%d writes of the Deployment for %d edits, and %d calls of the webhook", writes, edits, calls.Load())
			}
			results.add(t, "webhook: "+name, edits, nil, "%d writes of the Deployment", writes)
		})
	}
}

// register serves a webhook that mutates the Deployments of a namespace, and waits until the API server calls it.
func register(t *testing.T, ns string, mutate func(*corev1.PodTemplateSpec)) *atomic.Int32 {
	t.Helper()
	var calls atomic.Int32
	server := httptest.NewTLSServer(&admission.Webhook{Handler: admission.HandlerFunc(func(_ context.Context, req admission.Request) admission.Response {
		calls.Add(1)
		d := &appsv1.Deployment{}
		if err := json.Unmarshal(req.Object.Raw, d); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		mutate(&d.Spec.Template)
		data, err := json.Marshal(d)
		if err != nil {
			return admission.Errored(http.StatusInternalServerError, err)
		}
		return admission.PatchResponseFromRaw(req.Object.Raw, data)
	})})
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	hook := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: ns}, Webhooks: []admissionregistrationv1.MutatingWebhook{{
		Name:                    "mutate.example.com",
		ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: ptr.To(server.URL), CABundle: ca},
		SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
		AdmissionReviewVersions: []string{"v1"},
		NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
		}},
	}}}
	plane.Create(t, hook)
	t.Cleanup(func() {
		if err := plane.Client.Delete(context.Background(), hook); err != nil {
			t.Error(err)
		}
		server.CloseClientConnections()
		server.Close()
	})
	harness.Eventually(t, func() error {
		probe := newDeployment(objectMeta(ns, "probe"))
		if err := plane.Client.Create(t.Context(), probe, client.DryRunAll); err != nil {
			return err
		}
		if calls.Load() == 0 {
			return errors.New("the webhook is not called yet")
		}
		return nil
	})
	return &calls
}
