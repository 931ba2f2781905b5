package webhooks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"huolala.cn/app-operator/api/v1/bounds"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/fixture"
)

const (
	// maxReview is how many bytes a review of a spec of the greatest length may allocate in all: 18 MiB, and the spec itself twice. While AppDefaults are
	// not known, an invalid spec is built twice.
	maxReview = 18<<20 + 2*bounds.MaxSpec
	// maxAnswer is the length of an answer as JSON. An error is in it twice: in the message, and as a cause.
	maxAnswer = 4 * validation.MaxErrorText
)

// emptyWorld is a cluster without any object.
type emptyWorld struct{}

func (emptyWorld) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}
func (emptyWorld) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// newValidators returns the validators of a manager whose cache and API server are given.
func newValidators(t testing.TB, cache, live client.Reader) *validators {
	t.Helper()
	scheme := kruntime.NewScheme()
	for _, add := range []func(*kruntime.Scheme) error{clientgoscheme.AddToScheme, stored.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	standards, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return &validators{
		cache: cache, live: live, scheme: scheme, standards: standards, patience: time.Hour,
		limits: newLimits(runtime.GOMAXPROCS(0)),
		today:  resource.BuildOptions{Inputs: resource.BuildInputs{Rendering: resource.RenderingLatest}, Unrecorded: true},
	}
}

// hooks is a server that keeps the handlers of the webhooks, by their paths.
type hooks struct {
	webhook.Server
	handlers map[string]admission.Handler
}

func (h *hooks) Register(path string, hook http.Handler) {
	h.handlers[path] = hook.(*webhook.Admission).Handler
}

// handlersOf returns the handlers of the webhooks of all kinds, by their paths.
func handlersOf(s *validators) map[string]admission.Handler {
	server := &hooks{handlers: map[string]admission.Handler{}}
	s.registerKinds(server)
	return server.handlers
}

// validatorPath is the path of the webhook that validates a kind.
func validatorPath(kind string) string { return "/validate-app-huolala-cn-v1-" + strings.ToLower(kind) }

// node is a part of the schema of a CustomResourceDefinition.
type node map[string]any

// child returns a part of a schema, nil if there is none.
func (n node) child(names ...string) node {
	for _, name := range names {
		next, _ := n[name].(map[string]any)
		n = next
	}
	return n
}

// specSchema returns the schema of the spec of a kind.
func specSchema(t testing.TB, k *fixture.Kind) node {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../config/crd/bases", "app.huolala.cn_"+k.Plural+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema node `json:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.child("properties", "spec")
}

// The steps of a path into a list and into a map.
const (
	ofList = "[]"
	ofMap  = "{}"
)

// list is a list or a map of a schema.
type list struct {
	path []string
	// shape is equal for lists of one name whose schemas, and those of all fields around them, are equal: lists of the containers and the
	// init containers, or of two tiers.
	shape string
}

// lists returns each list and map of a schema. at is the path and the shape of the schema itself.
func (n node) lists(at list) []list {
	below := func(step, shape string) list {
		return list{path: append(slices.Clip(at.path), step), shape: at.shape + "/" + shape}
	}
	var found []list
	if items := n.child("items"); items != nil {
		found = append(append(found, at), items.lists(below(ofList, ofList))...)
	}
	if values := n.child("additionalProperties"); values != nil {
		found = append(append(found, at), values.lists(below(ofMap, ofMap))...)
	}
	for _, name := range slices.Sorted(maps.Keys(n.child("properties"))) {
		field := n.child("properties", name)
		found = append(found, field.lists(below(name, field.digest()))...)
	}
	return found
}

// name returns the name of the field that is the list, or that has it as an item.
func (l list) name() string {
	steps := slices.DeleteFunc(slices.Clone(l.path), func(step string) bool { return step == ofList || step == ofMap })
	return steps[len(steps)-1]
}

// digest returns a text that is equal for schemas that differ in descriptions alone.
func (n node) digest() string {
	data, _ := json.Marshal(undescribed(map[string]any(n))) // A part of a decoded text.
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// undescribed returns a copy of a part of a schema without its descriptions.
func undescribed(part any) any {
	switch part := part.(type) {
	case map[string]any:
		copied := map[string]any{}
		for key, value := range part {
			if _, text := value.(string); key != "description" || !text {
				copied[key] = undescribed(value)
			}
		}
		return copied
	case []any:
		copied := make([]any, len(part))
		for i, value := range part {
			copied[i] = undescribed(value)
		}
		return copied
	}
	return part
}

// costCase is a spec whose review is measured: one of the lists of a shape is filled, in one item of the lists around it, or in all.
type costCase struct {
	path []string
	all  bool
}

// costCases returns the cases of a schema. The lists of one shape share two cases: the first list is filled in one item, and the last
// one in all items. A list without lists around it has one case.
func costCases(schema node) []costCase {
	shapes := map[string][]list{}
	for _, l := range schema.lists(list{}) {
		key := l.shape + " " + l.name()
		shapes[key] = append(shapes[key], l)
	}
	var cases []costCase
	for _, key := range slices.Sorted(maps.Keys(shapes)) {
		first, last := shapes[key][0], shapes[key][len(shapes[key])-1]
		cases = append(cases, costCase{path: first.path})
		if slices.Contains(last.path, ofList) {
			cases = append(cases, costCase{path: last.path, all: true})
		}
	}
	return cases
}

// wrong returns the shortest value that decodes and that a rule refuses, if there is one on it; nil for what may be left out.
func (n node) wrong() any {
	switch {
	case n["x-kubernetes-int-or-string"] == true && n["pattern"] != nil:
		return "-1" // A quantity.
	case n["x-kubernetes-int-or-string"] == true, n["type"] == "string":
		return "!"
	case n["type"] == "integer":
		return -1
	case n["type"] == "boolean":
		return true
	case n["type"] == "object" && n.child("properties") != nil:
		object := map[string]any{}
		required, _ := n["required"].([]any)
		for name := range n.child("properties") {
			below := n.child("properties", name)
			if below["type"] == "object" && !slices.Contains(required, any(name)) {
				continue
			}
			if value := below.wrong(); value != nil {
				object[name] = value
			}
		}
		return object
	}
	return nil
}

// fill returns a value with the list at a path filled with wrong items: as many as the schema allows and as fit into so many
// bytes. The lists around it have one item, or as many as they may have, which share the bytes.
func (n node) fill(path []string, size int, all bool) any {
	repeat := func(item any, most int) []any {
		data, _ := json.Marshal(item)
		items := make([]any, max(1, min(most, size/(len(data)+1))))
		for i := range items {
			items[i] = item
		}
		return items
	}
	most := bounds.MaxItems
	for _, limit := range []string{"maxItems", "maxProperties"} {
		if stated, ok := n[limit].(float64); ok {
			most = int(stated)
		}
	}
	entries := func(value any) map[string]any {
		object := map[string]any{}
		data, _ := json.Marshal(value)
		for i := range max(1, min(most, size/(len(data)+12))) {
			object[fmt.Sprintf("!%06d", i)] = value
		}
		return object
	}
	switch {
	case len(path) == 0 && n.child("items") != nil:
		return repeat(n.child("items").wrong(), most)
	case len(path) == 0:
		return entries(n.child("additionalProperties").wrong())
	case path[0] == ofList:
		around := min(most, 64)
		if !all {
			around = 1
		}
		return repeat(n.child("items").fill(path[1:], size/around, all), around)
	case path[0] == ofMap:
		return map[string]any{"!": n.child("additionalProperties").fill(path[1:], size, all)}
	}
	object, _ := n.wrong().(map[string]any)
	if object == nil {
		object = map[string]any{}
	}
	object[path[0]] = n.child("properties", path[0]).fill(path[1:], size, all)
	return object
}

// creation returns the review of a new resource with a spec.
func creation(t testing.TB, kind string, spec any) admission.Request {
	t.Helper()
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "app.huolala.cn/v1", "kind": kind, "metadata": map[string]any{"namespace": "shop", "name": "cart"}, "spec": spec,
	})
	if err != nil {
		t.Fatal(err)
	}
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Namespace: "shop", Name: "cart", Kind: metav1.GroupVersionKind{Group: "app.huolala.cn", Version: "v1", Kind: kind},
		Object: kruntime.RawExtension{Raw: raw},
	}}
}

// cost is what an answer took: memory, and the time of processors.
type cost struct {
	bytes  uint64
	took   time.Duration
	answer admission.Response
}

// processorTime is what this process has used.
func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// answerOf has a handler answer, and measures what that takes.
func answerOf(t testing.TB, handler admission.Handler, req *admission.Request) cost {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := processorTime(t)
	answer := handler.Handle(t.Context(), *req)
	took := processorTime(t) - begin
	runtime.ReadMemStats(&after)
	return cost{bytes: after.TotalAlloc - before.TotalAlloc, took: took, answer: answer}
}

// TestCostOfLists fills the lists and maps of the schema of each kind with wrong items, at least one list of each shape: up to the most
// that the schema allows, and up to the length that a spec may have. What the review allocates and answers is bounded. The log has the
// time. The race detector allocates by itself and takes ten times as long: make test runs this test without it (COST_TESTS).
func TestCostOfLists(t *testing.T) {
	if fixture.Race {
		t.Skip("the bounds are those of a build without the race detector")
	}
	s := newValidators(t, emptyWorld{}, emptyWorld{})
	handlers := handlersOf(s)
	for i := range fixture.Kinds {
		k := &fixture.Kinds[i]
		spec := specSchema(t, k)
		selects := fixture.Part(t)
		for _, c := range costCases(spec) {
			if selects() {
				checkCost(t, handlers[validatorPath(k.Name)], k.Name, strings.Join(c.path, "."), spec.fill(c.path, bounds.MaxSpec*9/10, c.all), c.all)
			}
		}
	}
}

// tries is how often a review is measured that seems to allocate too much. Whatever else runs in this process can only add to what a review
// allocates, so that the least of some measures is an upper bound of it.
const tries = 3

// checkCost has a spec reviewed, and compares what that took with the bounds.
func checkCost(t *testing.T, handler admission.Handler, kind, name string, spec any, all bool) {
	t.Helper()
	req := creation(t, kind, spec)
	found := answerOf(t, handler, &req)
	for try := 1; try < tries && found.bytes > maxReview; try++ {
		found.bytes = min(found.bytes, answerOf(t, handler, &req).bytes)
	}
	data, err := json.Marshal(found.answer)
	if err != nil {
		t.Fatal(err)
	}
	causes := 0
	if found.answer.Result != nil && found.answer.Result.Details != nil {
		causes = len(found.answer.Result.Details.Causes)
	}
	t.Logf("%s %s (in all lists around it: %t): %d KiB of spec, %d errors, %d KiB allocated, %d bytes of answer, %s",
		kind, name, all, len(req.Object.Raw)>>10, causes, found.bytes>>10, len(data), found.took.Round(time.Millisecond))
	if found.bytes > maxReview || len(data) > maxAnswer || causes > validation.MaxErrors+1 || len(found.answer.Warnings) > validation.MaxWarnings+1 {
		t.Errorf("%s %s: %d KiB allocated, %d bytes of answer, %d errors, %d warnings", kind, name, found.bytes>>10, len(data), causes, len(found.answer.Warnings))
	}
}
