package webhooks

import (
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestCanarySteps sets the annotations that promote and abort a canary: a value that is not the UID of the canary in the status is warned of,
// once, when it is set.
func TestCanarySteps(t *testing.T) {
	s, _ := secretWorld(t)
	handlers := handlersOf(s)
	const here, none = `{"canary":{"name":"cart-canary","uid":"u1","image":"i:2"}}`, `{}`
	for _, kind := range []string{"App", "ModelBox"} {
		for _, name := range []string{appv1.AnnotationPromote, appv1.AnnotationAbort} {
			for _, c := range []struct{ was, is, status, want string }{
				{"", "u1", here, ""},
				{"", "u0", here, "it is not the uid of the canary cart-canary, which is u1"},
				{"u0", "u0", here, ""},
				{"u0", "u1", here, ""},
				{"u1", "", here, ""},
				{"", "u1", none, "the status has no canary"},
				{"u1", "u1", none, ""},
				{"", "", none, ""},
			} {
				object := func(value string) kruntime.RawExtension {
					annotations := `{}`
					if value != "" {
						annotations = fmt.Sprintf(`{%q:%q}`, name, value)
					}
					return kruntime.RawExtension{Raw: fmt.Appendf(nil,
						`{"apiVersion":"app.huolala.cn/v1","kind":%q,"metadata":{"name":"cart","namespace":"shop","uid":%q,"annotations":%s},"spec":{"image":"i:1","replicas":2},"status":%s}`,
						kind, trueUID, annotations, c.status)}
				}
				answer := handlers[validatorPath(kind)].Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
					Operation: admissionv1.Update, Namespace: "shop", Name: "cart", Object: object(c.is), OldObject: object(c.was),
				}})
				said := strings.Join(answer.Warnings, "\n")
				if !answer.Allowed || strings.Contains(said, name) != (c.want != "") || !strings.Contains(said, c.want) {
					t.Errorf("%s, %s from %q to %q with %s: %q, want %q", kind, name, c.was, c.is, c.status, said, c.want)
				}
			}
		}
	}
}
