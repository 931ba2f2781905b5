package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"huolala.cn/app-operator/api/plan"
	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/resource"
)

// countedReader is the API server, with the number of requests that it got.
type countedReader struct {
	client.Reader
	requests int
}

func (c *countedReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	c.requests++
	return c.Reader.Get(ctx, key, obj, opts...)
}

func (c *countedReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	c.requests++
	return c.Reader.List(ctx, list, opts...)
}

// secretPlanner plans a change with a secret in it.
type secretPlanner struct{}

func (secretPlanner) Plan(context.Context, string, client.Object) (*plan.Plan, error) {
	return &plan.Plan{Version: plan.Version, Objects: []plan.Object{}, Problem: &plan.Problem{Reason: "R", Message: "secret-plan"}}, nil
}
func (secretPlanner) Adoptions(context.Context, string, client.Object) ([]apply.Outcome, error) {
	return nil, nil
}
func (secretPlanner) PresentWith(context.Context, string, *appv1.AppDefaultsSpec) (resource.PresentDefaults, error) {
	return resource.LayerDefaults(), nil
}
func (secretPlanner) PlanDefaults(_ context.Context, namespace string, _ *appv1.AppDefaultsSpec) (*plan.Defaults, error) {
	if namespace != "shop" {
		return &plan.Defaults{}, nil
	}
	return &plan.Defaults{Apps: 17, Looked: 17, Invalid: 1, Examples: []string{"secret-example"}}, nil
}
func (secretPlanner) Present(context.Context, string) (resource.PresentDefaults, error) {
	return resource.LayerDefaults(), nil
}
func (secretPlanner) Obstacle(context.Context, client.Object) error { return nil }
func (secretPlanner) Apart(client.Object) bool                      { return false }

// askedPlanner is a secretPlanner that notes which of its methods are called, but for Apart, which reads nothing of the cluster.
type askedPlanner struct {
	secretPlanner
	asked map[string]bool
}

func (p askedPlanner) Plan(ctx context.Context, kind string, obj client.Object) (*plan.Plan, error) {
	p.asked["Plan"] = true
	return p.secretPlanner.Plan(ctx, kind, obj)
}
func (p askedPlanner) Adoptions(ctx context.Context, kind string, obj client.Object) ([]apply.Outcome, error) {
	p.asked["Adoptions"] = true
	return p.secretPlanner.Adoptions(ctx, kind, obj)
}
func (p askedPlanner) PresentWith(ctx context.Context, namespace string, spec *appv1.AppDefaultsSpec) (resource.PresentDefaults, error) {
	p.asked["PresentWith"] = true
	return p.secretPlanner.PresentWith(ctx, namespace, spec)
}
func (p askedPlanner) PlanDefaults(ctx context.Context, namespace string, spec *appv1.AppDefaultsSpec) (*plan.Defaults, error) {
	p.asked["PlanDefaults"] = true
	return p.secretPlanner.PlanDefaults(ctx, namespace, spec)
}
func (p askedPlanner) Present(ctx context.Context, namespace string) (resource.PresentDefaults, error) {
	p.asked["Present"] = true
	return p.secretPlanner.Present(ctx, namespace)
}
func (p askedPlanner) Obstacle(ctx context.Context, obj client.Object) error {
	p.asked["Obstacle"] = true
	return p.secretPlanner.Obstacle(ctx, obj)
}

// trueUID is the UID of each custom resource of the secret world.
const trueUID = types.UID("true-uid")

// secrets are what no request without proof may learn of the secret world. Each of them is in the answer to one with proof.
var secrets = []string{"secret-hpa", "secret-owner", "secret-app", "secret-elder", "secret-plan", "from 17 to", "secret-example", "17 Apps"}

// secretWorld has resources of each kind called cart, and, of others, what they could meet.
func secretWorld(t testing.TB) (*validators, *countedReader) {
	t.Helper()
	s := newValidators(t, nil, nil)
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "shop", Name: name} }
	owned := func(name, kind, owner string) metav1.ObjectMeta {
		m := meta(name)
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: owner, UID: "other", Controller: ptr.To(true)}}
		return m
	}
	scaler := func(name, kind, target string) *autoscalingv2.HorizontalPodAutoscaler {
		hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: meta(name)}
		hpa.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{Kind: kind, Name: target}
		return hpa
	}
	path := networkingv1.HTTPIngressPath{Path: "/"}
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		&appsv1.Deployment{ObjectMeta: owned("cart", "ConfigMap", "secret-owner"), Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](17)}},
		&corev1.Service{ObjectMeta: owned("cart", "ConfigMap", "secret-owner")},
		&corev1.ServiceAccount{ObjectMeta: meta("cart")},
		scaler("secret-hpa-a", "App", "cart"), scaler("secret-hpa-b", "ModelBox", "cart"), scaler("secret-hpa-c", "Deployment", "cart"),
		&networkingv1.Ingress{ObjectMeta: owned("other", "App", "secret-app"), Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{
			Host: "guessed.example", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{path}}},
		}}}},
	}
	for _, k := range resource.Kinds {
		obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
		obj.SetGroupVersionKind(appv1.GroupVersion.WithKind(k.Name))
		obj.SetNamespace("shop")
		obj.SetName("cart")
		obj.SetUID(trueUID)
		objects = append(objects, typed(t, s.scheme, obj))
	}
	defaults := &stored.AppDefaults{}
	defaults.Namespace, defaults.Name, defaults.UID = "shop", "default", trueUID
	mine := &stored.AppDefaults{}
	mine.Namespace, mine.Name, mine.UID = "mine", "default", "uid-of-mine"
	objects = append(objects, defaults, mine)
	elder := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"deploymentName": "other"}}}
	elder.SetGroupVersionKind(appv1.GroupVersion.WithKind("UnitedDeployment"))
	elder.SetNamespace("shop")
	elder.SetName("secret-elder")
	elder.SetCreationTimestamp(metav1.Unix(1, 0))
	objects = append(objects, typed(t, s.scheme, elder))
	world := fake.NewClientBuilder().WithScheme(s.scheme).WithObjects(objects...).
		WithIndex(&stored.UnitedDeployment{}, stored.IndexDeployment, func(obj client.Object) []string {
			spec, err := obj.(*stored.UnitedDeployment).Decode()
			if err != nil {
				return nil
			}
			return []string{spec.Spec.DeploymentName}
		}).Build()
	live := &countedReader{Reader: world}
	s.cache, s.live, s.planner = world, live, secretPlanner{}
	return s, live
}

// typed returns an object as the scheme has it.
func typed(t testing.TB, scheme *kruntime.Scheme, obj *unstructured.Unstructured) client.Object {
	t.Helper()
	made, err := scheme.New(obj.GroupVersionKind())
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(obj)
	if err == nil {
		err = json.Unmarshal(data, made)
	}
	if err != nil {
		t.Fatal(err)
	}
	return made.(client.Object)
}

// featureSpecs are specs, as JSON, each with what makes an answer look at other objects; of an update, the spec before is the first.
var featureSpecs = map[string][]string{
	"App": {
		`{"image": "a:1", "replicas": 3, "autoscaling": {"maxReplicas": 5}, "size": "small"}`,
		`{"image": "a:1", "replicas": 3, "size": "small"}`, `{"image": "a:2", "size": "small"}`,
		`{"image": "a:2", "size": "small", "ports": [{"port": 80}], "ingress": {"rules": [{"host": "guessed.example"}]}}`,
		`{"image": "a:2", "size": "small", "autoscaling": {"maxReplicas": 6}}`,
		`{"image": "a:2", "size": "small", "securityContext": {"privileged": true}}`,
		`{"image": "a:2", "size": "small", "serviceAccount": {}}`,
	},
	"UnitedDeployment": {`{"deploymentName": "x"}`, `{"deploymentName": "cart"}`, `{"deploymentName": "other"}`},
	"CloudManager":     {`{}`, `{"front": {"deployment": {"name": "cart", "image": "a:1"}}}`},
	"Task":             {`{"image": "a:1", "size": "small"}`, `{"image": "a:2", "size": "huge"}`},
	"AppDefaults":      {`{}`, `{"defaults": {"size": "small"}}`, `{"defaults": {"size": "huge"}}`},
}

func init() { featureSpecs["ModelBox"] = featureSpecs["App"] }

// forgedReviews returns reviews of all endpoints with all features, with and without a dry run, as anyone can send them. The UID is that
// which an update states, and stated the namespace that its objects state.
func forgedReviews(namespace, stated string, uid types.UID) map[string][]admission.Request {
	reviews := map[string][]admission.Request{}
	for kind, specs := range featureSpecs {
		for _, annotations := range []string{`{}`, `{"app.huolala.cn/adopt": "true"}`, `{"app.huolala.cn/plan": "` + plan.Request + `"}`} {
			name := "cart"
			if kind == kindAppDefaults {
				name = appv1.AppDefaultsName
			}
			state := func(spec, annotations string) kruntime.RawExtension {
				return kruntime.RawExtension{Raw: fmt.Appendf(nil, `{"apiVersion": "app.huolala.cn/v1", "kind": %q, "metadata": {"namespace": %q, "name": %q, "creationTimestamp": "2026-01-01T00:00:00Z", "uid": %q, "annotations": %s}, "spec": %s}`,
					kind, stated, name, uid, annotations, spec)}
			}
			for _, spec := range specs {
				for _, dry := range []bool{false, true} {
					req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
						Operation: admissionv1.Create, Namespace: namespace, Name: name, DryRun: &dry, Object: state(spec, annotations),
					}}
					update := req
					update.Operation, update.OldObject = admissionv1.Update, state(specs[0], `{}`)
					reviews[kind] = append(reviews[kind], req, update)
				}
			}
		}
	}
	return reviews
}

// answersTo returns the answers of all endpoints to reviews of all kinds, as JSON.
func answersTo(t testing.TB, s *validators, namespace string, uid types.UID) []string {
	t.Helper()
	return answersToAll(t, s, forgedReviews(namespace, namespace, uid))
}

// answersToAll returns the answers of all endpoints to reviews by kind, as JSON.
func answersToAll(t testing.TB, s *validators, reviews map[string][]admission.Request) []string {
	t.Helper()
	handlers := handlersOf(s)
	var all []string
	for _, path := range slices.Sorted(maps.Keys(handlers)) {
		for kind := range reviews {
			if !strings.HasSuffix(path, "-"+strings.ToLower(kind)) {
				continue
			}
			for i := range reviews[kind] {
				data, err := json.Marshal(handlers[path].Handle(t.Context(), reviews[kind][i]))
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, path+" "+string(data))
			}
		}
	}
	return all
}

// TestForgedReviews sends each endpoint reviews with each feature, which state a UID that is invented: no answer has a name or a number
// of the world. With the true UID, the same reviews are answered with all of them.
func TestForgedReviews(t *testing.T) {
	forged, _ := secretWorld(t)
	unpaced := newPaces(0, 0, rate{})
	forged.limits.looks, forged.limits.allLooks, forged.limits.asks, forged.limits.allAsks = unpaced, unpaced, unpaced, unpaced
	number := regexp.MustCompile(`\b17\b`)
	said := answersTo(t, forged, "shop", "invented")
	for _, answer := range said {
		if strings.Contains(answer, "secret-") || number.MatchString(answer) {
			t.Errorf("a forged review learns: %s", answer)
		}
	}
	for _, general := range []string{"owned by another resource", "routed to another resource", messageSomeAutoscaler, "is scaled by another resource"} {
		if !strings.Contains(strings.Join(said, "\n"), general) {
			t.Errorf("no creation is warned: %q", general)
		}
	}
	proven, _ := secretWorld(t)
	known := strings.Join(answersTo(t, proven, "shop", trueUID), "\n")
	for _, secret := range secrets {
		if !strings.Contains(known, secret) {
			t.Errorf("with the true UID, no answer has %q", secret)
		}
	}
}

// TestForgedNamespace sends reviews of AppDefaults with the UID of the sender's own, whose objects state the namespace of others: the plan is
// about the namespace of the request.
func TestForgedNamespace(t *testing.T) {
	s, _ := secretWorld(t)
	reviews := map[string][]admission.Request{kindAppDefaults: forgedReviews("mine", "shop", "uid-of-mine")[kindAppDefaults]}
	said := strings.Join(answersToAll(t, s, reviews), "\n")
	if !strings.Contains(said, "count for no App") || strings.Contains(said, "secret") || strings.Contains(said, "17 Apps") {
		t.Errorf("the answers are %s", said)
	}
}

// TestNothingIsReadWithoutLeave sends reviews without proof when the rates are used up: no handler asks the planner, as each one asks the
// table first. With proof, each method of the planner is called.
func TestNothingIsReadWithoutLeave(t *testing.T) {
	for uid, most := range map[types.UID]int{"invented": 0, trueUID: reflect.TypeFor[Planner]().NumMethod() - 1} {
		s, live := secretWorld(t)
		planner := askedPlanner{asked: map[string]bool{}}
		s.limits.plans = newPaces(maxPlans, 1, rate{})
		never := newPaces(0, 0, rate{time.Hour, 0})
		s.planner = planner
		if most == 0 {
			s.limits.looks, s.limits.allLooks, s.limits.asks, s.limits.allAsks = never, never, never, never
		}
		answersTo(t, s, "shop", uid)
		if len(planner.asked) != most || most == 0 && live.requests > 0 {
			t.Errorf("with the UID %s: the planner is asked for %v, and the API server %d times", uid, slices.Collect(maps.Keys(planner.asked)), live.requests)
		}
	}
	s, _ := secretWorld(t)
	for path := range handlersOf(s) {
		of := func(kind string) bool { return validatorPath(kind) == path }
		if strings.HasPrefix(path, "/validate-") && !slices.ContainsFunc(slices.Collect(maps.Keys(featureSpecs)), of) {
			t.Errorf("no review is sent to %s", path)
		}
	}
}

// TestForgedReviewsCost sends forged reviews without end, of one namespace and of many. Time stands still, so that no more is read from the
// API server than may be at once.
func TestForgedReviewsCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, live := secretWorld(t)
		for range 3 {
			answersTo(t, s, "shop", "invented")
		}
		if live.requests == 0 || live.requests > askRate.burst {
			t.Errorf("forged reviews of one namespace cause %d requests, want 1 to %d", live.requests, askRate.burst)
		}
		for i := range 30 {
			answersTo(t, s, fmt.Sprint("shop-", i), "invented")
		}
		if live.requests > allAskRate.burst {
			t.Errorf("forged reviews of many namespaces cause %d requests, want at most %d", live.requests, allAskRate.burst)
		}
		if n := len(s.limits.looks.namespaces); n > allLookRate.burst {
			t.Errorf("%d namespaces are remembered", n)
		}
	})
}

// TestAnswers looks at each row of the table: what a request without proof gets is stated, and nothing else is read for it.
func TestAnswers(t *testing.T) {
	for about := range topicCount {
		row := answers[about]
		if row.name == "" || (row.unproven == nothing) != (row.learns == "") {
			t.Errorf("row %d: %+v", about, row)
		}
		s := newValidators(t, emptyWorld{}, emptyWorld{})
		v := &validator[*appv1.App]{validators: s, empty: func() storedResource[*appv1.App] { return &stored.App{} }}
		app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", UID: "invented"}}
		synctest.Test(t, func(t *testing.T) {
			gets := 0
			const asked = 1000
			for range asked {
				if got := v.askerOf(t.Context(), app, app).grantAnswer(about); got > row.unproven {
					t.Errorf("%s: a request without proof gets %d, the row has %d", row.name, got, row.unproven)
				} else if got != nothing {
					gets++
				}
			}
			most := map[source]int{fromCache: lookRate.burst, fromServer: askRate.burst}[row.reads]
			if row.unproven == nothing {
				most = 0
			}
			if gets != most {
				t.Errorf("%s: %d of %d requests at once get an answer, want %d", row.name, gets, asked, most)
			}
		})
	}
}
