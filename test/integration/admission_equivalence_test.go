package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf16"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
	"huolala.cn/app-operator/test/specs"
)

// ruled is a kind whose rules are compared with the API server's.
type ruled struct {
	kind string
	spec reflect.Type
	// random returns a spec that is right, judge what is wrong with one, and the objects that it means.
	random func(specs.Source) map[string]any
	judge  func(*unstructured.Unstructured) (field.ErrorList, []client.Object, error)
}

// mainNames are the names of main containers that a random spec has.
var mainNames = []string{"web", "db", "front", "identity", "target"}

var ruledKinds = []ruled{
	{"App", reflect.TypeFor[appv1.AppSpec](), randomServed, judgeApp},
	{"ModelBox", reflect.TypeFor[appv1.ModelBoxSpec](), randomServed, judgeModelBox},
	{"UnitedDeployment", reflect.TypeFor[appv1.UnitedDeploymentSpec](), randomUnitedDeployment, judgeUnitedDeployment},
	{"CloudManager", reflect.TypeFor[appv1.CloudManagerSpec](), randomCloudManager, judgeCloudManager},
	{"Task", reflect.TypeFor[appv1.TaskSpec](), specs.Task, judgeTask},
}

// randomApp returns a spec with many fields, or with few: there, a change is more often one of the field that it meets.
func randomApp(src specs.Source) map[string]any {
	if src.IntN(2) == 0 {
		return map[string]any{"image": "nginx", "ports": []any{map[string]any{"port": int64(80)}}}
	}
	return specs.Accepted(src)
}

// randomServed returns a spec like randomApp, in most cases with some of what can stand around the pods.
func randomServed(src specs.Source) map[string]any {
	spec := randomApp(src)
	if src.IntN(4) > 0 {
		specs.Serve(src, spec)
	}
	return spec
}

func randomUnitedDeployment(src specs.Source) map[string]any {
	template := randomApp(src)
	delete(template, "replicas")
	return map[string]any{"deploymentName": "target", "replicas": int64(1), "template": template}
}

// notOfDatabases are the fields of a random spec that a database has not.
var notOfDatabases = []string{"strategy", "rollingUpdate", "maxSurge", "maxUnavailable", "progressDeadlineSeconds"}

// withoutRole returns a random spec without the label that is the operator's in a tier.
func withoutRole(spec map[string]any) map[string]any {
	service, _ := spec["service"].(map[string]any)
	for _, stated := range []any{spec["labels"], spec["workloadLabels"], service["labels"]} {
		if labels, ok := stated.(map[string]any); ok {
			delete(labels, appv1.LabelComponent)
		}
	}
	return spec
}

func randomCloudManager(src specs.Source) map[string]any {
	small := func() map[string]any { return map[string]any{"image": "nginx"} }
	tiers := []map[string]any{small(), small(), small()}
	tiers[src.IntN(3)] = randomApp(src) // The others would only take time.
	db := tiers[2]
	for _, tier := range tiers {
		withoutRole(tier)
	}
	for _, field := range notOfDatabases {
		delete(db, field)
	}
	db["name"], db["storage"] = "db", map[string]any{"size": "1Gi"}
	tiers[0]["name"], tiers[1]["name"] = "front", "identity"
	return map[string]any{
		"front": map[string]any{"deployment": tiers[0]}, "identity": map[string]any{"deployment": tiers[1]}, "db": map[string]any{"statefulSet": db},
	}
}

func seenFor(spec *appv1.WorkloadSpec) resource.BuildOptions {
	return resource.BuildOptions{Inputs: resource.BuildInputs{Rendering: resource.RenderingLatest, Size: resource.BuiltInSizes().Resolve(spec.Size)}}
}

// meantObjects are the objects that a workload means.
func meantObjects(w *resource.Workload) []client.Object {
	var objects []client.Object
	for _, obj := range w.Objects() {
		objects = append(objects, obj)
	}
	return objects
}

// withJob adds to objects the Job of a command before the rollout of a workload.
func withJob(objects []client.Object, w *resource.Workload, spec *appv1.BeforeRolloutSpec) []client.Object {
	if spec == nil {
		return objects
	}
	return append(objects, resource.BuildJob(w, spec, "job", "cause"))
}

func judgeApp(u *unstructured.Unstructured) (field.ErrorList, []client.Object, error) {
	app := &appv1.App{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, app); err != nil {
		return nil, nil, err
	}
	w, errs := resource.App(app, seenFor(&app.Spec.WorkloadSpec))
	return append(validation.App(app), errs...), withJob(meantObjects(w), w, app.Spec.BeforeRollout), nil
}

func judgeModelBox(u *unstructured.Unstructured) (field.ErrorList, []client.Object, error) {
	box := &appv1.ModelBox{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, box); err != nil {
		return nil, nil, err
	}
	w, errs := resource.ModelBox(box, seenFor(&box.Spec.WorkloadSpec))
	return append(validation.ModelBox(box), errs...), withJob(meantObjects(w), w, box.Spec.BeforeRollout), nil
}

func judgeUnitedDeployment(u *unstructured.Unstructured) (field.ErrorList, []client.Object, error) {
	ud := &appv1.UnitedDeployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, ud); err != nil {
		return nil, nil, err
	}
	if ud.Spec.Template == nil {
		return validation.UnitedDeployment(ud), nil, nil
	}
	w, errs := resource.UnitedDeployment(ud, seenFor(ud.Spec.Template))
	return append(validation.UnitedDeployment(ud), errs...), meantObjects(w), nil
}

func judgeCloudManager(u *unstructured.Unstructured) (field.ErrorList, []client.Object, error) {
	cm := &appv1.CloudManager{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, cm); err != nil {
		return nil, nil, err
	}
	cm.DefaultNames()
	wrong := validation.CloudManager(cm)
	db, ofDB := resource.CloudManagerDatabase(cm, seenFor(&cm.Spec.DB.StatefulSet.WorkloadSpec))
	identity, ofIdentity := resource.CloudManagerIdentity(cm, seenFor(&cm.Spec.Identity.Deployment.WorkloadSpec))
	front, ofFront := resource.CloudManagerFront(cm, seenFor(&cm.Spec.Front.Deployment.WorkloadSpec))
	objects := append(slices.Concat(meantObjects(identity), meantObjects(front), meantObjects(db)), resource.Secret(db, map[string]string{resource.SecretPassword: "a"}))
	return slices.Concat(wrong.Database, wrong.Identity, wrong.Front, ofDB, ofIdentity, ofFront), objects, nil
}

// judgeTask judges a Task without an App: of the pods of an App, the rules know nothing.
func judgeTask(u *unstructured.Unstructured) (field.ErrorList, []client.Object, error) {
	task := &appv1.Task{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, task); err != nil {
		return nil, nil, err
	}
	if task.Spec.App != "" {
		return validation.Task(task), nil, nil
	}
	job, errs := resource.Task(task, nil, resource.BuiltInSizes().Resolve(task.Spec.Size))
	return append(validation.Task(task), errs...), []client.Object{job.CronJob}, nil
}

// stricter are words of those rules that refuse what the API server takes; each says in its comment why.
var stricter = []string{
	"must not begin or end with white space",                                // An image: a Deployment may have it, no pod can.
	`"0 sources": must have exactly one source, such as`,                    // A volume: it would be an emptyDir.
	"image.reference: Required value: must not be empty",                    // A volume: before Kubernetes 1.37 a Deployment takes it, and no pod does.
	"no container port with protocol",                                       // A target port: the Service would lead nowhere.
	"is set by the operator", "is set by Kubernetes' Deployment controller", // Labels and annotations: who sets them would undo it.
	"requires ports, because it leads to the Service",                                 // An Ingress or HTTPRoute: there is no Service.
	"must be the name or the number of one of the TCP ports",                          // An Ingress or HTTPRoute: the Service has no such port.
	"set it to a TCP port",                                                            // An Ingress or HTTPRoute: HTTP is spoken over TCP.
	"utilization requires a",                                                          // An autoscaler: it would never scale.
	"TCP port that a container declares", "requires a TCP port of the main container", // A PodMonitor: nothing would be scraped.
	"is not the name of a port of this container",                  // A probe: the kubelet does not find the port.
	"is root, and runAsNonRoot is true",                            // A container: the kubelet does not start it.
	"must not contain the character NUL",                           // A process: no text of it can have it.
	"keeps a run from ending",                                      // A container: the Job would never end.
	"is set by Kubernetes on the pods of each Job",                 // A label of pods: no Job could be created.
	"serviceAccount and serviceAccountName are mutually exclusive", // A ServiceAccount: it would be another one than that of the pods.
}

// unpatched are words of faults for which a podTemplatePatch is not applied at all.
var unpatched = []string{"is not a strategic merge patch", "identifies the item of the list", "must be an object", "does not produce a pod template", "a pod template has no such field", "must not remove the main container"}

// cluster are words of faults that depend on the cluster, and cannot be told from a spec.
var cluster = []string{
	"provided port is not in the valid range", "provided port is already allocated",
	"when parentRefs includes 2 or more references to the same parent", // By what they are told depends on the channel of the Gateway API.
}

// podsOfStatefulSets is the minor version since which API servers validate the pods of a StatefulSet. Older ones refuse each pod instead.
const podsOfStatefulSets = 34

// relaxed are words of refusals by older API servers, with the minor version since which Kubernetes takes what they refuse. The rules are
// those of the newest one.
var relaxed = []struct {
	words string
	since int
}{
	{"field not declared in schema", 36}, // A field that an older version does not have.
	{"a valid environment variable name must consist of", 32},
	{`].restartPolicy: Unsupported value: "`, 35},
	{"restartPolicy: Forbidden: may not be set for non-init containers", 35},
	{"sleep: Invalid value: 0", 33},
}

// refusedBefore returns the words of refusals by an API server of a minor version that newer ones do not have.
func refusedBefore(minor int) []string {
	var words []string
	for _, row := range relaxed {
		if minor < row.since {
			words = append(words, row.words)
		}
	}
	return words
}

func containsAny(text string, words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
}

// withoutPatches removes all patches of pod templates, and reports whether there was any.
func withoutPatches(tree map[string]any) bool {
	_, found := tree["podTemplatePatch"]
	delete(tree, "podTemplatePatch")
	for _, name := range []string{"template", "front", "identity", "db", "deployment", "statefulSet"} {
		if below, ok := tree[name].(map[string]any); ok {
			found = withoutPatches(below) || found
		}
	}
	return found
}

// tally counts what became of specs.
type tally struct{ schema, rules, accepted, disagreements atomic.Int64 }

// compare has the API server and the rules judge one spec, and says whether they disagree.
func (n *tally) compare(t *testing.T, p *harness.Plane, k ruled, ns, name string, spec map[string]any) {
	t.Helper()
	cr := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	cr.SetGroupVersionKind(appv1.GroupVersion.WithKind(k.kind))
	cr.SetNamespace(ns)
	cr.SetName(name)
	text, _ := json.Marshal(spec)
	disagree := func(format string, args ...any) {
		n.disagreements.Add(1)
		t.Errorf("%s: %s\n%.6000s", k.kind, fmt.Sprintf(format, args...), text)
	}
	switch err := p.Client.Create(t.Context(), cr, client.DryRunAll); {
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		n.schema.Add(1)
		return
	case err != nil:
		disagree("neither taken nor refused: %v", err)
		return
	}
	cr.SetUID("4ca90da6-4b2b-4b1f-9a3c-0f0f0f0f0f0f")
	errs, objects, err := k.judge(cr)
	if err != nil {
		disagree("the schema takes it, and no program can read it: %v", err)
		return
	}
	var refused error
	untold, service := false, false
	for _, obj := range objects {
		_, isService := obj.(*corev1.Service)
		service = service || isService
		switch err := applyDryRun(t, p, obj); {
		case err == nil:
		case containsAny(err.Error(), append(refusedBefore(p.Minor(t)), cluster...)):
			untold = true // The API server says no more of it than that.
		default:
			refused = err
		}
	}
	// Without a Service there is nothing to say of its fields, but for the rules: they count as soon as there are ports.
	errs = slices.DeleteFunc(errs, func(err *field.Error) bool { return !service && strings.Contains(err.Field, ".service.") })
	switch {
	case len(errs) == 0 && refused != nil:
		disagree("the rules take it, the API server says: %v", refused)
	case len(errs) > 0 && refused == nil && !untold && !slices.ContainsFunc(errs, func(err *field.Error) bool {
		return containsAny(err.Error(), append(stricter, unpatched...)) || p.Minor(t) < podsOfStatefulSets && strings.HasPrefix(err.Field, "spec.db.statefulSet.")
	}):
		if withoutPatches(spec) {
			// It is right with its patch. Then it has to be wrong without, as a spec must be right by itself.
			n.compare(t, p, k, ns, name, spec)
			return
		}
		disagree("the API server takes it, the rules say: %v", errs.ToAggregate())
	case len(errs) > 0:
		n.rules.Add(1)
	default:
		n.accepted.Add(1)
	}
}

// applyDryRun applies an object as the engine does, without keeping it.
func applyDryRun(t *testing.T, p *harness.Plane, obj client.Object) error {
	t.Helper()
	_, err := applied(t, p, obj)
	return err
}

// applied returns the object that applyDryRun would make.
func applied(t *testing.T, p *harness.Plane, obj client.Object) (map[string]any, error) {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	for _, path := range [][]string{{"status"}, {"metadata", "creationTimestamp"}, {"spec", "template", "metadata", "creationTimestamp"}} {
		unstructured.RemoveNestedField(fields, path...)
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	// The API server reads it as YAML, which does not have every character of JSON as it is.
	var escaped strings.Builder
	for _, unit := range utf16.Encode([]rune(string(data))) {
		if unit < 0x7f {
			escaped.WriteByte(byte(unit))
		} else {
			fmt.Fprintf(&escaped, `\u%04x`, unit)
		}
	}
	made := &unstructured.Unstructured{Object: fields}
	err = p.Client.Patch(t.Context(), made, client.RawPatch(types.ApplyPatchType, []byte(escaped.String())),
		client.DryRunAll, client.FieldOwner("rules"), client.ForceOwnership)
	return made.Object, err
}

// randomSpec returns a random kind with a random spec for it.
func randomSpec(src specs.Source) (ruled, map[string]any) {
	k := ruledKinds[max(0, src.IntN(len(ruledKinds)+2)-2)] // The first is an App, which is drawn more often.
	spec := k.random(src)
	if src.IntN(8) > 0 {
		specs.Mutate(src, k.spec, spec, mainNames...)
	}
	return k, spec
}

// TestRulesAreTheAPIServers makes specs that are right and specs that are wrong in a place or two. What the rules say of each must
// be what a real API server says of the objects that it means: they take it if, and only if, that takes all of them.
func TestRulesAreTheAPIServers(t *testing.T) {
	t.Parallel()
	p := complete.start(t)
	ns := p.Namespace(t)
	src := specs.Random(t)
	count := specs.Number(t, "FUZZ_SPECS", fixture.Of(150, 400))
	seeds := make([]uint64, count)
	for i := range seeds {
		seeds[i] = src.Uint64()
	}
	var n tally
	defer func() {
		t.Logf("%d specs: %d refused by the schema, %d by the rules, %d accepted; %d disagreements", count, n.schema.Load(), n.rules.Load(), n.accepted.Load(), n.disagreements.Load())
	}()
	forEachNumber(t, count, func(i int) {
		k, spec := randomSpec(rand.New(rand.NewPCG(seeds[i], 0)))
		n.compare(t, p, k, ns, "web", spec)
	})
	if n.rules.Load() == 0 || n.accepted.Load() == 0 || n.schema.Load() == 0 {
		t.Error("specs of one sort are missing: the test shows nothing")
	}
}

// mistype gives one field of a spec a value of another type, which in most cases no program can read.
func mistype(src specs.Source, spec map[string]any) {
	names := slices.Sorted(maps.Keys(spec))
	if len(names) == 0 {
		return
	}
	name := names[src.IntN(len(names))]
	if _, isText := spec[name].(string); isText {
		spec[name] = []any{int64(1)}
	} else {
		spec[name] = "none"
	}
}

// TestRulesNeverPanic has random specs decoded, completed with the schema's defaults, judged and built, those included that the
// schema refuses: an older one may have taken them. Nothing of that may panic, and the same is wrong each time, in the same order: the
// status is written when a message changes.
func TestRulesNeverPanic(t *testing.T) {
	t.Parallel()
	count := specs.Number(t, "FUZZ_BUILDS", fixture.Of(600, 2000))
	schemas := map[string]*apiextensionsv1.JSONSchemaProps{}
	for _, k := range fixture.Kinds {
		schemas[k.Name] = newOlderDefinition(t, k.Plural).Spec.Versions[0].Schema.OpenAPIV3Schema
		if !slices.ContainsFunc(ruledKinds, func(r ruled) bool { return r.kind == k.Name && r.spec == k.Spec }) {
			t.Errorf("the rules of the kind %s are not compared", k.Name)
		}
	}
	src := specs.Random(t)
	var unreadable, refused, built atomic.Int64
	began := time.Now()
	var group sync.WaitGroup
	const workers = 2
	for range workers {
		src := rand.New(rand.NewPCG(src.Uint64(), 0))
		group.Go(func() {
			for range count / workers {
				k, spec := randomSpec(src)
				if src.IntN(16) == 0 {
					mistype(src, spec)
				}
				cr := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
				cr.SetName("web")
				setDefaults(schemas[k.kind], cr.Object)
				switch errs, err := judgeSpec(k, cr); {
				case errors.Is(err, errPanic):
					text, _ := json.Marshal(spec)
					t.Errorf("%s: %v\n%.6000s", k.kind, err, text)
				case err != nil:
					unreadable.Add(1)
				case len(errs) > 0:
					refused.Add(1)
					if again, _ := judgeSpec(k, cr); again.ToAggregate().Error() != errs.ToAggregate().Error() {
						t.Errorf("%s: the errors are others each time:\n%v\n%v", k.kind, errs.ToAggregate(), again.ToAggregate())
					}
				default:
					built.Add(1)
				}
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	t.Logf("%d specs in %s, %.0f a second: %d cannot be read, %d refused by the rules, %d built", count, took.Round(time.Second),
		float64(count)/took.Seconds(), unreadable.Load(), refused.Load(), built.Load())
	if unreadable.Load() == 0 || refused.Load() == 0 || built.Load() == 0 {
		t.Error("specs of one sort are missing: the test shows nothing")
	}
}

var errPanic = errors.New("panic")

// judgeSpec judges one spec, and returns errPanic for a panic.
func judgeSpec(k ruled, cr *unstructured.Unstructured) (errs field.ErrorList, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanic, p)
		}
	}()
	errs, objects, err := k.judge(cr)
	if err != nil {
		return nil, err
	}
	for _, obj := range objects {
		if _, err := json.Marshal(obj); err != nil {
			return nil, fmt.Errorf("%w: %w", errPanic, err)
		}
	}
	return errs, nil
}

// setDefaults states the schema's defaults, as the API server does.
func setDefaults(schema *apiextensionsv1.JSONSchemaProps, value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, below := range schema.Properties {
			if _, there := v[name]; !there && below.Default != nil {
				var stated any
				_ = json.Unmarshal(below.Default.Raw, &stated) // The API server has read it before.
				v[name] = stated
			}
			if inner, there := v[name]; there {
				setDefaults(&below, inner)
			}
		}
	case []any:
		for _, item := range v {
			if schema.Items != nil && schema.Items.Schema != nil {
				setDefaults(schema.Items.Schema, item)
			}
		}
	}
}
