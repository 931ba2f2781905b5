package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/claim"
)

// knownKinds has the kinds of children and no others, as the fake client ranges over all kinds at each apply request. Like ownTypes, it takes
// long to make, and does not change.
var (
	knownKinds = sync.OnceValue(func() *runtime.Scheme {
		s := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{
			corev1.AddToScheme, appsv1.AddToScheme, autoscalingv2.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme, batchv1.AddToScheme, appv1.AddToScheme,
			children.AddToScheme,
		} {
			if err := add(s); err != nil {
				panic(err) // The types cannot be registered: a mistake in the program.
			}
		}
		return s
	})
	ownTypes = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(clientgoscheme.Scheme) })
)

// server returns a client that merges apply requests, with objects in it. Its preconditions are the resource version of a creation alone.
func server(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	patch := func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
		if patch.Type() != types.ApplyPatchType {
			return c.Patch(ctx, obj, patch, opts...)
		}
		data, err := patch.Data(obj)
		if err != nil {
			return err
		}
		var body map[string]any
		if err := json.Unmarshal(data, &body); err != nil {
			return err
		}
		about := body["metadata"].(map[string]any) //nolint:forcetypeassert // Each request has it.
		if about["resourceVersion"] == neverVersion {
			there := obj.DeepCopyObject().(client.Object) //nolint:forcetypeassert // It is the copy of one.
			if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: fmt.Sprint(about["name"])}, there); err == nil {
				return apierrors.NewConflict(schema.GroupResource{}, "web", nil)
			}
		}
		delete(about, "resourceVersion")
		delete(about, "uid")
		obj.SetNamespace("default")
		obj.SetName(fmt.Sprint(about["name"]))
		if data, err = json.Marshal(body); err != nil {
			return err
		}
		return c.Patch(ctx, obj, client.RawPatch(patch.Type(), data), opts...)
	}
	return fake.NewClientBuilder().WithScheme(knownKinds()).WithReturnManagedFields().WithObjects(objects...).
		WithIndex(&corev1.Pod{}, podAccount, func(obj client.Object) []string { return []string{obj.(*corev1.Pod).Spec.ServiceAccountName} }). //nolint:forcetypeassert // It is one.
		WithTypeConverters(statusless{ownTypes()}, managedfields.NewDeducedTypeConverter()).
		WithInterceptorFuncs(interceptor.Funcs{Patch: patch}).Build()
}

// statusless converts apply requests without the null that the fake client sends for their status: a NetworkPolicy has none.
type statusless struct{ managedfields.TypeConverter }

// ObjectToTyped implements managedfields.TypeConverter.
func (c statusless) ObjectToTyped(obj runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok && u.Object["status"] == nil {
		u = u.DeepCopy()
		delete(u.Object, "status")
		obj = u
	}
	return c.TypeConverter.ObjectToTyped(obj, options...)
}

// wantedOf returns a wanted object of a type, by the name web, that leads to the pods of the Deployment web, or is about them.
func wantedOf(t *testing.T, row *children.Type) client.Object {
	t.Helper()
	obj := row.Object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // It is the copy of one.
	gvk, err := apiutil.GVKForObject(obj, knownKinds())
	if err != nil {
		t.Fatal(err)
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	obj.SetName("web")
	obj.SetNamespace("default")
	obj.SetLabels(map[string]string{appv1.LabelManagedBy: appv1.ManagedBy})
	obj.SetOwnerReferences(controlledBy(owner))
	selector := map[string]string{"run": "web"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "i"}}}}
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		obj.Spec.Selector, obj.Spec.Template = &metav1.LabelSelector{MatchLabels: selector}, template
	case *appsv1.StatefulSet:
		obj.Spec.Selector, obj.Spec.Template = &metav1.LabelSelector{MatchLabels: selector}, template
	case *corev1.Service:
		obj.Spec.Selector, obj.Spec.Ports = selector, []corev1.ServicePort{{Name: "http", Port: 80}}
	case *autoscalingv2.HorizontalPodAutoscaler:
		obj.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	}
	return obj
}

// childOfRow returns a wanted object as a child, as controllers do: without a live object that the cache does not show.
func childOfRow(t *testing.T, row *children.Type, c client.Client) Object {
	t.Helper()
	child := Object{Desired: wantedOf(t, row), Auxiliary: row.Auxiliary, Prerequisite: row.Prerequisite, Independent: true}
	switch child.Desired.(type) {
	case *appsv1.Deployment, *appsv1.StatefulSet:
		child.Independent = false
	}
	if row.Routes {
		child.LeadsTo = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	}
	if _, service := child.Desired.(*corev1.Service); service || row.AboutPods {
		child.AboutPodsOf = &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	}
	if live := readBack(t, c, row); live != nil && (row.Scope != children.ScopeOurs || claim.IsManaged(live)) {
		child.Live = live
	}
	return child
}

// readBack returns the live object of a type by the name web, nil if there is none.
func readBack(t *testing.T, c client.Client, row *children.Type) client.Object {
	t.Helper()
	live := row.Object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // It is the copy of one.
	switch err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, live); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		t.Fatal(err)
	}
	return live
}

// withoutTypes are the types of workload objects that a workload does not have, by the type that it has.
var withoutTypes = map[string]reflect.Type{
	"Deployment": reflect.TypeFor[*appsv1.StatefulSet](), "StatefulSet": reflect.TypeFor[*appsv1.Deployment](),
}

// childTypes returns the rows of Types whose objects the operator creates, but for one type, in the order of Workload.Objects.
func childTypes(without reflect.Type) []*children.Type {
	var first, rest []*children.Type
	for i := range children.Types {
		row := &children.Types[i]
		switch {
		case !row.Role.Has(children.RoleChild) || reflect.TypeOf(row.Object) == without:
		case row.Prerequisite:
			first = append(first, row)
		default:
			rest = append(rest, row)
		}
	}
	return append(first, rest...)
}

// inTheWay are the objects of the name that an owner may find, by what they are.
var inTheWay = map[string]func(obj client.Object){
	"nobody's": func(obj client.Object) { obj.SetOwnerReferences(nil); obj.SetLabels(nil) },
	"of a controller": func(obj client.Object) {
		obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Other", Name: "other", UID: "other", Controller: ptr.To(true)}})
		obj.SetLabels(nil)
	},
	"nobody's with our label": func(obj client.Object) { obj.SetOwnerReferences(nil) },
	"ours":                    func(client.Object) {},
}

// TestPlanIsWhatIsDone puts an object of each type in the way of an owner that is new or not, and that adopts or not. What is foreseen,
// by the engine for an owner that is stored and by the objects alone for one that is not, is what Apply then does with each object.
func TestPlanIsWhatIsDone(t *testing.T) {
	for workload, without := range withoutTypes {
		rows := childTypes(without)
		for _, about := range rows {
			for what, change := range inTheWay {
				for _, existed := range []bool{false, true} {
					for _, adopt := range []bool{false, true} {
						for _, more := range []bool{false, true} {
							name := fmt.Sprintf("%s/%T/%s/existed=%t/adopt=%t/more=%t", workload, about.Object, what, existed, adopt, more)
							t.Run(name, func(t *testing.T) { playObstacle(t, rows, about, change, existed, adopt, more) })
						}
					}
				}
			}
		}
	}
}

// playObstacle plans and applies all types, with an object of one of them in the way; more is a further foreign object that may be adopted.
func playObstacle(t *testing.T, rows []*children.Type, about *children.Type, change func(client.Object), existed, adopt, more bool) {
	app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: owner}}
	c := server(t, app)
	e := New(c, c, clocktesting.NewFakePassiveClock(metav1.Now().Time))
	req := func(without *children.Type) *Request {
		r := &Request{Owner: app, Manager: "app-operator/app", Policy: Policy{Adopt: adopt}, Before: Before{Existed: existed}}
		for _, row := range rows {
			if row != without {
				r.Objects = append(r.Objects, childOfRow(t, row, c))
			}
		}
		return r
	}
	if existed && !about.Prerequisite {
		if _, err := writeChanges(t, e, req(about)); err != nil {
			t.Fatal(err)
		}
	}
	foreign := []*children.Type{about}
	if other := rows[0]; more && other != about && readBack(t, c, other) == nil {
		foreign = append(foreign, other)
	}
	for i, row := range foreign {
		obj := wantedOf(t, row)
		if i == 0 {
			change(obj)
		} else {
			inTheWay["nobody's"](obj)
		}
		if err := c.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	planned := planOf(t, e, req(nil), c, rows, existed)
	before := map[*children.Type]bool{}
	for _, row := range rows {
		live := readBack(t, c, row)
		before[row] = live != nil && metav1.IsControlledBy(live, app)
	}
	_, err := writeChanges(t, e, req(nil))
	for _, row := range rows {
		live := readBack(t, c, row)
		is := live != nil && metav1.IsControlledBy(live, app)
		if is != (before[row] || planned[row]) {
			t.Errorf("%T: planned %t, ours before %t and after %t (%v)", row.Object, planned[row], before[row], is, err)
		}
	}
}

// planOf returns the types whose objects would be created or taken over.
func planOf(t *testing.T, e *Engine, req *Request, c client.Client, rows []*children.Type, existed bool) map[*children.Type]bool {
	t.Helper()
	planned := map[*children.Type]bool{}
	if existed {
		done, _ := e.Run(t.Context(), *req, DryRun)
		for _, o := range done.Objects {
			i := slices.IndexFunc(rows, func(row *children.Type) bool { return reflect.TypeOf(row.Object) == reflect.TypeOf(o.Object.Desired) })
			planned[rows[i]] = o.Err == nil && !o.Withheld && o.Action != "" && o.Action != Unchanged
		}
		return planned
	}
	var pairs claim.Children
	for _, row := range rows {
		pair := claim.Pair{Wanted: wantedOf(t, row)}
		if live := readBack(t, c, row); live != nil {
			pair.Live = live
		}
		pairs = append(pairs, pair)
	}
	fates := pairs.Foresee(func(pair claim.Pair) (claim.Standing, string) {
		gvk, err := apiutil.GVKForObject(pair.Wanted.(client.Object), knownKinds()) //nolint:forcetypeassert // It is one.
		if err != nil {
			t.Fatal(err)
		}
		return (&claim.Case{
			Wanted: pair.Wanted, Live: pair.Live, Kind: gvk.Kind, Owner: appv1.GroupVersion.WithKind("App"), Name: "web", UID: owner, Adopt: req.Policy.Adopt,
			Whole: true, Applied: func() bool { return false },
		}).Decide()
	}, func(pair claim.Pair) string {
		words, err := pairs.Serves(t.Context(), neighbours{e}, pair.Wanted, pair.Live)
		if err != nil {
			t.Fatal(err)
		}
		return words
	})
	for i := range fates {
		planned[rows[i]] = !fates[i].InTheWay() && !fates[i].Withheld
	}
	return planned
}

// TestClaimKnowsTheTypes compares what claim has of the types with Types.
func TestClaimKnowsTheTypes(t *testing.T) {
	for i := range children.Types {
		row := &children.Types[i]
		want := claim.Role{Auxiliary: row.Auxiliary, Prerequisite: row.Prerequisite, Routes: row.Routes, AboutPods: row.AboutPods}
		if got := claim.RoleOf(row.Object); got != want {
			t.Errorf("%T is %+v, want %+v", row.Object, got, want)
		}
	}
}

// TestAccountOfIdleWorkloads has a workload object of each type that creates pods name an account, without any pod: the account is theirs.
func TestAccountOfIdleWorkloads(t *testing.T) {
	spec := corev1.PodSpec{ServiceAccountName: "web", Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	template := corev1.PodTemplateSpec{Spec: spec}
	meta := metav1.ObjectMeta{Namespace: "default", Name: "other"}
	zero := ptr.To[int32](0)
	ended := batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}}
	own := meta
	own.Name = "web"
	for name, c := range map[string]struct {
		obj  client.Object
		used bool
	}{
		"Deployment":         {&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: zero, Template: template}}, true},
		"StatefulSet":        {&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: zero, Template: template}}, true},
		"DaemonSet":          {&appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Template: template}}, true},
		"CronJob":            {&batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}}}}, true},
		"Job":                {&batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: template}}, true},
		"a Job that ended":   {&batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: template}, Status: ended}, false},
		"the Deployment":     {&appsv1.Deployment{ObjectMeta: own, Spec: appsv1.DeploymentSpec{Template: template}}, false},
		"of another account": {&appsv1.Deployment{ObjectMeta: meta}, false},
	} {
		c0 := server(t, c.obj)
		e := New(c0, c0, clocktesting.NewFakePassiveClock(metav1.Now().Time))
		req := request(nil)
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
		req.Objects = append(req.Objects, Object{Desired: account, Auxiliary: true})
		if err := e.CheckServes(t.Context(), req, &req.Objects[1], account); (err != nil) != c.used {
			t.Errorf("%s: %v, want used %t", name, err, c.used)
		}
	}
	for _, obj := range []runtime.Object{&corev1.Pod{}, &corev1.Service{}} {
		if claim.TemplateOf(obj) != nil {
			t.Errorf("%T has a template", obj)
		}
	}
}

// TestAllObstaclesAreNamed puts an object of each type in the way at once: the error names all, and so do the plan and the trouble. An object
// that leads to a Service is not looked for while the Service is in the way.
func TestAllObstaclesAreNamed(t *testing.T) {
	// No resource has a workload and a CronJob.
	rows := slices.DeleteFunc(childTypes(withoutTypes["Deployment"]), func(row *children.Type) bool { return row.Scheduled })
	app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: owner}}
	for _, adopt := range []bool{false, true} {
		c := server(t, app.DeepCopy())
		e := New(c, c, clocktesting.NewFakePassiveClock(metav1.Now().Time))
		for _, row := range rows {
			obj := wantedOf(t, row)
			inTheWay["of a controller"](obj)
			if err := c.Create(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
		}
		ask := func(mode Mode) (Outcomes, error) {
			req := Request{Owner: app, Manager: "app-operator/app", Policy: Policy{Adopt: adopt}}
			for _, row := range rows {
				req.Objects = append(req.Objects, childOfRow(t, row, c))
			}
			return e.Run(t.Context(), req, mode)
		}
		done, err := ask(Write)
		_, planned := ask(DryRun)
		for what, said := range map[string]error{"error": err, "plan": planned, "trouble": done.Trouble()} {
			for _, row := range rows {
				if row.Routes {
					continue
				}
				if want := reflect.TypeOf(row.Object).Elem().Name() + " web exists and is owned by Other other"; said == nil || !strings.Contains(said.Error(), want) {
					t.Errorf("adopt %t: the %s does not say %q: %v", adopt, what, want, said)
				}
			}
		}
	}
}
