package webhooks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// TestScaleUnderAnAutoscaler has "kubectl scale", and the same change of spec.replicas, on a resource whose Deployment an autoscaler scales: it
// is warned of, unless it stops the pods or starts them again. A request that does not prove that it can read the resource learns nothing.
func TestScaleUnderAnAutoscaler(t *testing.T) {
	s, _ := secretWorld(t)
	handlers := handlersOf(s)
	for _, kind := range []string{"App", "ModelBox"} {
		for _, c := range []struct {
			from, to int32
			uid      types.UID
			name     string
			warned   bool
		}{
			{2, 5, trueUID, "cart", true},
			{5, 2, trueUID, "cart", true},
			{2, 2, trueUID, "cart", false},
			{2, 0, trueUID, "cart", false},
			{0, 2, trueUID, "cart", false},
			{2, 5, "guessed", "cart", false},
			{2, 5, trueUID, "free", false},
		} {
			meta := fmt.Sprintf(`{"name":%q,"namespace":"shop","uid":%q}`, c.name, c.uid)
			scale := func(n int32) kruntime.RawExtension {
				object := autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: n}}
				object.Name, object.Namespace, object.UID = c.name, "shop", c.uid
				data, err := json.Marshal(&object)
				if err != nil {
					t.Fatal(err)
				}
				return kruntime.RawExtension{Raw: data}
			}
			spec := func(n int32) kruntime.RawExtension {
				return kruntime.RawExtension{Raw: fmt.Appendf(nil, `{"apiVersion":"app.huolala.cn/v1","kind":%q,"metadata":%s,"spec":{"image":"i:1","replicas":%d}}`, kind, meta, n)}
			}
			for sub, object := range map[string]func(int32) kruntime.RawExtension{"": spec, subresourceScale: scale} {
				answer := handlers[validatorPath(kind)].Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
					Operation: admissionv1.Update, Namespace: "shop", Name: c.name, SubResource: sub, Object: object(c.to), OldObject: object(c.from),
				}})
				said := strings.Join(answer.Warnings, "\n")
				if !answer.Allowed || strings.Contains(said, "HorizontalPodAutoscaler secret-hpa-c scales Deployment cart") != c.warned {
					t.Errorf("%s, %q of %s from %d to %d: %v %q, want a warning: %t", kind, sub, c.name, c.from, c.to, answer.Allowed, said, c.warned)
				}
			}
		}
	}
}

// TestUnstatedReplicas has a spec that does not state the number of pods, with a budget and a rollout that fit no single pod: the live number of
// an owned Deployment counts, 1 where there is none, and nothing is said of a number that is not known.
func TestUnstatedReplicas(t *testing.T) {
	const rest = `"size":"small","maxUnavailable":2,"disruptionBudget":{"minAvailable":2}`
	both := []string{"spec.maxUnavailable: ", "spec.disruptionBudget.minAvailable: is 2 and the smallest number of pods is "}
	for name, c := range map[string]struct {
		pods              int32 // 0 for no Deployment.
		owned, autoscaled bool
		uid               types.UID
		spec              string
		want              []string
	}{
		"a new App":                                  {0, false, false, trueUID, rest, both},
		"a new App, without proof":                   {0, false, false, "guessed", rest, both},
		"a new App, and its autoscaler":              {0, false, false, trueUID, rest + `,"autoscaling":{"minReplicas":3,"maxReplicas":5}`, nil},
		"a Deployment of others":                     {2, false, false, trueUID, rest, nil},
		"a Deployment of others, without proof":      {2, false, false, "guessed", rest, nil},
		"its Deployment has two":                     {2, true, false, trueUID, rest, both},
		"its Deployment has two, without proof":      {2, true, false, "guessed", rest, nil},
		"its Deployment has three":                   {3, true, false, trueUID, rest, nil},
		"its Deployment, under another's autoscaler": {2, true, true, trueUID, rest, nil},
		"two are stated":                             {3, true, false, trueUID, rest + `,"replicas":2`, both},
		"three are stated":                           {2, true, false, trueUID, rest + `,"replicas":3`, nil},
	} {
		for _, kind := range []string{"App", "ModelBox"} {
			s := newValidators(t, nil, nil)
			made := fake.NewClientBuilder().WithScheme(s.scheme)
			meta := metav1.ObjectMeta{Namespace: "shop", Name: "cart"}
			if c.pods > 0 {
				d := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &c.pods}}
				if c.owned {
					d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "app.huolala.cn/v1", Kind: kind, Name: "cart", UID: trueUID, Controller: ptr.To(true)}}
				}
				made.WithObjects(d)
			}
			if c.autoscaled {
				scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "theirs"}}
				scaler.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "cart"}
				made.WithObjects(scaler)
			}
			object := func(image string) kruntime.RawExtension {
				return kruntime.RawExtension{Raw: fmt.Appendf(nil, `{"apiVersion":"app.huolala.cn/v1","kind":%q,"metadata":{"name":"cart","namespace":"shop","uid":%q},"spec":{"image":%q,%s}}`,
					kind, c.uid, image, c.spec)}
			}
			stored := &unstructured.Unstructured{}
			if err := json.Unmarshal(bytes.Replace(object("i:1").Raw, []byte(c.uid), []byte(trueUID), 1), stored); err != nil {
				t.Fatal(err)
			}
			world := made.WithObjects(typed(t, s.scheme, stored)).Build()
			s.cache, s.live, s.planner = world, world, secretPlanner{}
			answer := handlersOf(s)[validatorPath(kind)].Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: admissionv1.Update, Namespace: "shop", Name: "cart", Object: object("i:2"), OldObject: object("i:1"),
			}})
			var said []string
			for _, warning := range answer.Warnings {
				if strings.HasPrefix(warning, "spec.maxUnavailable") || strings.HasPrefix(warning, "spec.disruptionBudget") {
					said = append(said, warning)
				}
			}
			if !answer.Allowed || len(said) != len(c.want) {
				t.Errorf("%s, %s: %v, %q, want %q", kind, name, answer.Allowed, answer.Warnings, c.want)
				continue
			}
			for i := range c.want {
				if !strings.HasPrefix(said[i], c.want[i]) {
					t.Errorf("%s, %s: %q, want %q", kind, name, said[i], c.want[i])
				}
			}
		}
	}
}
