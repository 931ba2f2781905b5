package webhooks

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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
