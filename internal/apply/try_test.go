package apply

import (
	"context"
	"net/http"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/fields/fieldtest"
	"huolala.cn/app-operator/internal/reconciler"
)

// asked returns an engine whose API server answers a request for an object of a kind with an error, if there is one, and the
// requests so far: "Kind", or "Kind?" for a dry run.
func asked(t *testing.T, answers map[string]error) (*Engine, *[]string) {
	t.Helper()
	requests := &[]string{}
	c := fake.NewClientBuilder().WithScheme(kinds()).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, obj client.Object, _ client.Patch, opts ...client.PatchOption) error {
			said := "Service"
			if _, ok := obj.(*appsv1.Deployment); ok {
				said = "Deployment"
			}
			if slices.Contains((&client.PatchOptions{}).ApplyOptions(opts).DryRun, metav1.DryRunAll) {
				said += "?"
			}
			*requests = append(*requests, said)
			return answers[said]
		},
	}).Build()
	return New(c, c, clocktesting.NewFakePassiveClock(metav1.Now().Time)), requests
}

// TestWholeRequest applies a changed Deployment and a changed Service, with an API server that refuses a part.
func TestWholeRequest(t *testing.T) {
	gk := schema.GroupKind{Kind: "Object"}
	invalid := apierrors.NewInvalid(gk, "web", field.ErrorList{field.Invalid(field.NewPath("spec"), 1, "is wrong")})
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "objects"}, "web", nil)
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "objects"}, "web", nil)
	unknown := apierrors.NewBadRequest(`admission webhook "w" does not support dry run because the effects are unknown`)
	failing := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusInternalServerError, Message: "later"}}
	for name, c := range map[string]struct {
		partly, unchanged bool
		answers           map[string]error
		want              []string
		refused           bool
	}{
		"all is right":                        {want: []string{"Deployment?", "Service", "Deployment"}},
		"part by part":                        {partly: true, want: []string{"Deployment", "Service"}},
		"part by part, refused":               {partly: true, answers: map[string]error{"Deployment": invalid}, want: []string{"Deployment", "Service"}, refused: true},
		"the Deployment alone":                {unchanged: true, want: []string{"Deployment"}},
		"the dry run is refused":              {answers: map[string]error{"Deployment?": invalid}, want: []string{"Deployment?"}, refused: true},
		"the Service is refused":              {answers: map[string]error{"Service": invalid}, want: []string{"Deployment?", "Service"}, refused: true},
		"the view of the Service is outdated": {answers: map[string]error{"Service": conflict}, want: []string{"Deployment?", "Service", "Service"}},
		"the Service is forbidden":            {answers: map[string]error{"Service": forbidden}, want: []string{"Deployment?", "Service", "Deployment"}},
		"the dry run is forbidden":            {answers: map[string]error{"Deployment?": forbidden}, want: []string{"Deployment?", "Service", "Deployment"}},
		"the dry run fails":                   {answers: map[string]error{"Deployment?": failing}, want: []string{"Deployment?", "Service", "Deployment"}},
		"a webhook that knows no dry run":     {answers: map[string]error{"Deployment?": unknown}, want: []string{"Deployment?", "Service", "Deployment"}},
	} {
		t.Run(name, func(t *testing.T) {
			e, requests := asked(t, c.answers)
			live := settled(t)
			live.Annotations[appv1.AnnotationLastAppliedHash] = "old"
			req := request(live)
			service := fieldtest.Service()
			req.Objects = append(req.Objects, Object{Desired: service})
			if c.unchanged {
				req.Objects = req.Objects[:1]
			}
			req.Policy.AllOrNothing = !c.partly
			_, err := writeChanges(t, e, req)
			if Refused(err) != c.refused {
				t.Errorf("%v", err)
			}
			if !slices.Equal(*requests, c.want) {
				t.Errorf("requests are %q, want %q", *requests, c.want)
			}
		})
	}
}

// TestRefused tells what another spec helps against from all else.
func TestRefused(t *testing.T) {
	for reason, want := range map[string]bool{
		appv1.ReasonInvalid: true, appv1.ReasonImmutableField: true, appv1.ReasonNodePortTaken: true,
		appv1.ReasonResourceExists: false, appv1.ReasonFieldConflict: false, appv1.ReasonVolumeResizeFailed: true,
	} {
		if got := Refused(reconciler.Stalled(reason, "said")); got != want {
			t.Errorf("%s: %t", reason, got)
		}
	}
	if Refused(nil) || Refused(&reconciler.FailedError{Reason: appv1.ReasonForbidden}) {
		t.Error("what is tried again is taken for a refusal")
	}
}
